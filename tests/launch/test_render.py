from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.launch.command import parse_command
from doctor.launch.edits import Edit
from doctor.launch.flags import UnknownFlagError, load_table
from doctor.launch.render import apply_edits
from doctor.launch.uses import read_uses

from .helpers import NEWEST, edited, env, flag

SERVE = "sglang serve m --tp 8"


@pytest.mark.parametrize(
    ("text", "edits", "expected"),
    [
        (SERVE, [flag("--tp-size", "4")], "sglang serve m --tp 4"),
        ("sglang serve m --tp=8", [flag("--tp-size", "4")], "sglang serve m --tp=4"),
        ("sglang serve m --tensor-parallel-size 8", [flag("--tp", "4")], "sglang serve m --tensor-parallel-size 4"),
        (SERVE, [flag("--page-size", "16")], "sglang serve m --tp 8 --page-size 16"),
        (SERVE, [flag("--trust-remote-code", "")], "sglang serve m --tp 8 --trust-remote-code"),
        (SERVE, [flag("--tp-size", None)], "sglang serve m"),
        ("sglang serve --tp 8 --port 1", [flag("--tp-size", None)], "sglang serve --port 1"),
        ("--tp 8 --port 1", [flag("--tp-size", None)], "--port 1"),
        (SERVE, [flag("--page-size", None)], SERVE),
        ("sglang serve m --tp 4 --port 1 --tp 8", [flag("--tp-size", "2")], "sglang serve m --port 1 --tp 2"),
        (SERVE, [flag("--model-path", "a b")], "sglang serve 'a b' --tp 8"),
        (
            'sglang serve --model-path "m"',
            [flag("--model-path", "n")],
            'sglang serve --model-path "n"',
        ),
        (
            "sglang serve --cuda-graph-bs-decode 1 2 4 --port 1",
            [flag("--cuda-graph-bs-decode", "1 2")],
            "sglang serve --cuda-graph-bs-decode 1 2 --port 1",
        ),
        (
            "sglang serve m --no-dcp-replicate-q-proj",
            [flag("--dcp-replicate-q-proj", "")],
            "sglang serve m --dcp-replicate-q-proj",
        ),
        (
            "sglang serve m",
            [flag("--json-model-override-args", '{"a": "it\'s"}')],
            """sglang serve m --json-model-override-args '{"a": "it'"'"'s"}'""",
        ),
        (
            "sglang serve m --config=x.yaml",
            [flag("--config", "x.yaml")],
            "sglang serve m --config x.yaml",
        ),
        (SERVE + " 2>&1 | tee log # eight", [flag("--port", "1")], SERVE + " --port 1 2>&1 | tee log # eight"),
    ],
)
def test_apply_edits_changes_only_the_flag(text, edits, expected):
    assert edited(text, *edits) == expected


def test_apply_edits_keeps_one_flag_per_line():
    text = "sglang serve m \\\n    --tp 8 \\\n    --port 1"
    expected = "sglang serve m \\\n    --tp 8 \\\n    --port 1 \\\n    --page-size 16"
    assert edited(text, flag("--page-size", "16")) == expected
    assert edited(text, flag("--port", None)) == "sglang serve m \\\n    --tp 8"


def test_apply_edits_puts_a_successor_in_the_place_of_the_removed_flag():
    text = "sglang serve m --cuda-graph-max-bs 8 --port 1"
    edits = [flag("--cuda-graph-max-bs", None, "8"), flag("--cuda-graph-max-bs-decode", "8")]
    assert edited(text, *edits) == "sglang serve m --cuda-graph-max-bs-decode 8 --port 1"


def test_apply_edits_replaces_a_deprecated_flag_of_the_same_field():
    table = load_table("0.5.15.post1")
    text = "sglang serve m --disable-piecewise-cuda-graph"
    edit = flag("--cuda-graph-backend-prefill", "breakable")
    assert edited(text, edit, table=table) == "sglang serve m --cuda-graph-backend-prefill breakable"


def test_apply_edits_removes_only_the_flag_it_names():
    table = load_table("0.5.15.post1")
    text = "sglang serve m --disable-piecewise-cuda-graph"
    assert edited(text, flag("--cuda-graph-backend-prefill", None), table=table) == text


def test_apply_edits_refuses_a_flag_the_version_lacks():
    with pytest.raises(UnknownFlagError, match=r"0\.5\.23 has no flag --cuda-graph-max-bs"):
        apply_edits(parse_command(SERVE), [flag("--cuda-graph-max-bs", "8")], NEWEST)


def test_apply_edits_removes_a_flag_the_version_lacks():
    assert edited("sglang serve m --tensor-paralel-size 2", flag("--tensor-paralel-size", None)) == "sglang serve m"


def test_apply_edits_without_a_table_accepts_any_flag():
    assert edited(SERVE, flag("--brand-new", "1"), table=None) == SERVE + " --brand-new 1"
    assert edited(SERVE, flag("--tp-size", "1"), table=None) == "sglang serve m --tp 1"


def test_apply_edits_ignores_advice():
    edits = [Edit("package", "torch", None, "2.13"), Edit("shell", "apt install ffmpeg", None, None)]
    assert edited(SERVE, *edits) == SERVE


WRAPPER = "~/.local/bin/sglang-ssd-stream serve --context 8192"


def test_apply_edits_puts_flags_of_an_unknown_wrapper_behind_a_separator():
    edits = [
        flag("--offload-group-size", "12"),
        flag("--offload-num-in-group", "11"),
        env("PYTORCH_ALLOC_CONF", "pinned_max_round_threshold_mb:16"),
    ]
    expected = (
        "PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:16 "
        + WRAPPER
        + " -- --offload-group-size 12 --offload-num-in-group 11"
    )
    assert edited(WRAPPER, *edits) == expected


def test_apply_edits_uses_the_separator_that_is_there():
    assert edited(WRAPPER + " -- --tp 2", flag("--tp", "4")) == WRAPPER + " -- --tp 4"


@pytest.mark.parametrize(
    ("text", "edits", "expected"),
    [
        (SERVE, [env("A", "1")], "A=1 " + SERVE),
        ("A=1 " + SERVE, [env("A", "2")], "A=2 " + SERVE),
        ("A=1 " + SERVE, [env("B", "x y")], "A=1 B='x y' " + SERVE),
        ("A='1' " + SERVE, [env("A", "2")], "A='2' " + SERVE),
        ("A=1 B=2 " + SERVE, [env("A", None, "1")], "B=2 " + SERVE),
        (SERVE, [env("A", None)], "env -u A " + SERVE),
        (SERVE, [env("A", None, "1")], SERVE),
        ("env -u A " + SERVE, [env("A", None)], "env -u A " + SERVE),
        ("export A=1\n" + SERVE, [env("A", "2")], "export A=2\n" + SERVE),
        ("export A=1\n" + SERVE, [env("A", None, "1")], SERVE),
        ("cd x && " + SERVE, [env("A", "1")], "cd x && A=1 " + SERVE),
        ("sudo -E " + SERVE, [env("A", "1")], "sudo -E A=1 " + SERVE),
        ("numactl -N 0 " + SERVE, [env("A", "1")], "A=1 numactl -N 0 " + SERVE),
        ("numactl -N 0 " + SERVE, [env("A", None)], "numactl -N 0 env -u A " + SERVE),
        (SERVE, [env("A", None), env("B", None)], "env -u A -u B " + SERVE),
        ("--tp 8", [env("A", "1")], "A=1 python3 -m sglang.launch_server --tp 8"),
        (SERVE, [env("PYTORCH_ALLOC_CONF", "a:")], SERVE),
    ],
)
def test_apply_edits_sets_and_unsets_variables(text, edits, expected):
    assert edited(text, *edits) == expected


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("PYTORCH_ALLOC_CONF=a:1,b:2", "b:3,c:4", "PYTORCH_ALLOC_CONF=a:1,b:3,c:4"),
        ("PYTORCH_CUDA_ALLOC_CONF=a:1", "b:2", "PYTORCH_CUDA_ALLOC_CONF=a:1,b:2"),
        ("PYTORCH_ALLOC_CONF=a:1,b:2", "a:", "PYTORCH_ALLOC_CONF=b:2"),
        ('PYTORCH_ALLOC_CONF="$OLD"', "b:2", 'PYTORCH_ALLOC_CONF="$OLD,b:2"'),
        ("PYTORCH_ALLOC_CONF=broken", "b:2", "PYTORCH_ALLOC_CONF=b:2"),
    ],
)
def test_apply_edits_merges_the_allocator_setting(before, change, after):
    assert edited(f"{before} {SERVE}", env("PYTORCH_ALLOC_CONF", change)) == f"{after} {SERVE}"


def test_apply_edits_drops_an_allocator_setting_that_became_empty():
    assert edited("PYTORCH_ALLOC_CONF=a:1 " + SERVE, env("PYTORCH_ALLOC_CONF", "a:", "a:1")) == SERVE


@pytest.mark.parametrize(
    ("head", "edit", "expected"),
    [
        ("docker run --gpus all img", env("A", "1"), "docker run --gpus all -e A=1 img"),
        ("docker run -e A=0 img", env("A", "1 2"), "docker run -e A='1 2' img"),
        ('docker run -e "A=0" img', env("A", "1"), "docker run -e A=1 img"),
        ("docker run --env=A=0 img", env("A", "1"), "docker run --env=A=1 img"),
        ("docker run -e A=0 -e B=1 img", env("A", None, "0"), "docker run -e B=1 img"),
        ("docker run -e A img", env("A", "1"), "docker run -e A=1 img"),
        ("docker run img", env("A", None), "docker run img env -u A"),
        ("docker run \\\n  --rm \\\n  img", env("A", "1"), "docker run \\\n  --rm \\\n  -e A=1 \\\n  img"),
    ],
)
def test_apply_edits_sets_variables_of_a_container(head, edit, expected):
    assert edited(f"{head} {SERVE}", edit) == f"{expected} {SERVE}"


def test_apply_edits_writes_into_a_single_quoted_script():
    text = f"bash -c '{SERVE}'"
    assert edited(text, flag("--served-model-name", "a b")) == f"""bash -c '{SERVE} --served-model-name "a b"'"""
    assert edited(text, env("A", "1")) == f"bash -c 'A=1 {SERVE}'"


def test_apply_edits_writes_into_a_double_quoted_script():
    edit = flag("--json-model-override-args", '{"a": 1}')
    expected = rf'''bash -c "{SERVE} --json-model-override-args '{{\"a\": 1}}'"'''
    assert edited(f'bash -c "{SERVE}"', edit) == expected


VALUES = st.text(alphabet="ab 1'\"$\\`{}:,=-~#é", min_size=1, max_size=12).filter(lambda text: text.strip("-") == text)
TEMPLATES = st.sampled_from(
    [
        SERVE,
        "sglang serve m --served-model-name x --tp 8",
        'sglang serve --served-model-name="x" m',
        "docker run img " + SERVE,
        f"bash -c '{SERVE}'",
        f'bash -c "{SERVE}"',
        "x:\n  command: " + SERVE,
        'x:\n  command: ["sglang", "serve", "m", "--tp", "8"]',
        "x:\n  command:\n  - sglang\n  - serve\n  - m\n",
        'x:\n  command: ["bash", "-c", "sglang serve m"]',
        "x:\n  command: |\n    sglang serve m\n",
        "x:\n  command:\n    sglang serve m\n    --tp 8\n",
        "commands:\n  - pip list\n  - sglang serve m\n    --tp 8\n",
        f'ssh h "cd /x && {SERVE}"',
        f"ssh h '{SERVE}'",
        f"ssh h \"bash -c '{SERVE}'\"",
        f"kubectl exec p -- {SERVE}",
        f"ssh h {SERVE}",
        f"ssh h env B=2 {SERVE}",
        f"bash -c 'docker run img {SERVE}'",
        f"ExecStart={SERVE}",
        'run(["sglang", "serve", path, "--tp", "8"])',
    ]
)


@settings(deadline=None)
@given(text=TEMPLATES, value=VALUES)
def test_apply_edits_gives_the_program_the_value_whatever_it_contains(text, value):
    result = edited(text, flag("--served-model-name", value))
    uses = [use for use in read_uses(parse_command(result), NEWEST) if use.dest == "served_model_name"]
    assert [word.value for word in uses[-1].values] == [value]


@settings(deadline=None)
@given(text=TEMPLATES, value=VALUES)
def test_apply_edits_sets_a_variable_to_any_value(text, value):
    result = edited(text, env("NAME", value))
    assert [item.value for item in parse_command(result).env if item.name == "NAME"] == [value]
