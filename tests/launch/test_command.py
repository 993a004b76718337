from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import DoctorError
from doctor.launch.command import MAX_CHARACTERS, parse_command
from doctor.launch.render import apply_edits

PLAIN = "python3 -m sglang.launch_server --model-path m --tp 8"


def values(words):
    return [word.value for word in words]


def parts(text):
    command = parse_command(text)
    env = [(item.name, item.value) for item in command.env]
    return env, values(command.wrapper), values(command.entry), values(command.arguments)


PYTHON = ["python3", "-m", "sglang.launch_server"]
ARGS = ["--model-path", "m", "--tp", "8"]


@pytest.mark.parametrize(
    ("text", "env", "wrapper", "entry"),
    [
        (PLAIN, [], [], PYTHON),
        (f"A=1 B='x y' {PLAIN}", [("A", "1"), ("B", "x y")], [], PYTHON),
        (f"env A=1 {PLAIN}", [("A", "1")], [], PYTHON),
        (f"export A=1\nexport B=2\n{PLAIN}", [("A", "1"), ("B", "2")], [], PYTHON),
        (f"cd /x && A=1 {PLAIN} 2>&1 | tee log", [("A", "1")], [], PYTHON),
        (f"nohup {PLAIN} > out.log 2> err.log &", [], ["nohup"], PYTHON),
        (f"numactl --cpunodebind=0 -m 0 {PLAIN}", [], ["numactl", "--cpunodebind=0", "-m", "0"], PYTHON),
        (f"timeout 60 {PLAIN}", [], ["timeout", "60"], PYTHON),
        (f"srun -N 2 env A=1 {PLAIN}", [("A", "1")], ["srun", "-N", "2", "env", "A=1"], PYTHON),
        ("sglang serve --model-path m --tp 8", [], [], ["sglang", "serve"]),
        ("/opt/v/bin/sglang serve --model-path m --tp 8", [], [], ["/opt/v/bin/sglang", "serve"]),
        (
            "torchrun --nproc 1 -m sglang.launch_server --model-path m --tp 8",
            [],
            ["torchrun", "--nproc", "1"],
            ["-m", "sglang.launch_server"],
        ),
        (
            "/x/python3.12 -u sglang/launch_server.py --model-path m --tp 8",
            [],
            [],
            ["/x/python3.12", "-u", "sglang/launch_server.py"],
        ),
        ("--model-path m --tp 8", [], [], []),
        ("--model-path m\n--tp 8\n", [], [], []),
        (
            "~/bin/wrap serve --context 8 -- --model-path m --tp 8",
            [],
            ["~/bin/wrap", "serve", "--context", "8", "--"],
            [],
        ),
        (f"sudo -E A=1 {PLAIN}", [("A", "1")], [], PYTHON),
        ("uv run python3 -m sglang.launch_server --model-path m --tp 8", [], ["uv", "run"], PYTHON),
    ],
)
def test_parse_command_sorts_the_words(text, env, wrapper, entry):
    assert parts(text) == (env, wrapper, entry, ARGS)


def test_parse_command_joins_continued_lines():
    assert parts("python3 -m sglang.launch_server \\\n  --model-path m \\\n  --tp 8")[3] == ARGS


def test_parse_command_keeps_variables_and_substitutions():
    arguments = parts('sglang serve "$MODEL" --port ${PORT:-30000} --host $(hostname -I) "${ARGS[@]}"')[3]
    assert arguments == ["$MODEL", "--port", "${PORT:-30000}", "--host", "$(hostname -I)", "${ARGS[@]}"]


def test_parse_command_reads_json_values():
    arguments = parts("""sglang serve m --a '{"x": "y z"}' --b "{\\"x\\": 1}" """)[3]
    assert arguments == ["m", "--a", '{"x": "y z"}', "--b", '{"x": 1}']


def test_parse_command_takes_placeholders_for_words():
    assert parts("sglang serve --model-path <model> --tp <n>")[3] == ["--model-path", "<model>", "--tp", "<n>"]


def test_parse_command_ignores_redirections_and_comments():
    text = "# start it\nsglang serve m --tp 8 >log.txt 2>&1 # eight GPUs"
    assert parts(text)[3] == ["m", "--tp", "8"]


DOCKER = (
    "docker run --gpus all --shm-size 32g -p 30000:30000 -v ~/.cache:/root/.cache --env HF_TOKEN=t -e A -eB=2 "
    "--env=C=3 --ipc=host -it lmsysorg/sglang:latest "
)


def test_parse_command_reads_docker_run():
    env, wrapper, entry, arguments = parts(DOCKER + PLAIN)
    assert env == [("HF_TOKEN", "t"), ("A", None), ("B", "2"), ("C", "3")]
    assert wrapper[-1] == "lmsysorg/sglang:latest"
    assert (entry, arguments) == (PYTHON, ARGS)


def test_parse_command_reads_docker_run_with_the_entry_point_of_the_image():
    assert parts(DOCKER + "--model-path m --tp 8")[3] == ARGS


@pytest.mark.parametrize("script", ["'export A=1; {}'", '"A=1 {}"', "'set -e\nA=1 {}'"])
def test_parse_command_looks_into_a_shell_script(script):
    env, wrapper, entry, arguments = parts("docker run --rm img bash -c " + script.format(PLAIN))
    assert env == [("A", "1")]
    assert wrapper[-2:] == ["bash", "-c"]
    assert (entry, arguments) == (PYTHON, ARGS)


def test_parse_command_places_words_of_a_script_in_the_outer_text():
    text = 'bash -lc "sglang serve \\"my model\\" --tp 8"'
    command = parse_command(text)
    assert [text[word.start : word.end] for word in command.arguments] == ['\\"my model\\"', "--tp", "8"]


@pytest.mark.parametrize(
    ("pasted", "meant"),
    [
        ("user@host:~/x$ " + PLAIN, PLAIN),
        ("$ " + PLAIN, PLAIN),
        ("(venv) root@a1b2:/sgl# " + PLAIN, PLAIN),
        ("# " + PLAIN, PLAIN),
        ("```bash\n" + PLAIN + "\n```", PLAIN + "\n"),
        ("sglang serve –tp 8 —port 1", "sglang serve --tp 8 --port 1"),
        ("python －m sglang.launch_server －－tp 8", "python -m sglang.launch_server --tp 8"),
        ("sglang serve ‑‑tp 8", "sglang serve --tp 8"),
        ("python –m sglang.launch_server --tp–size 8", "python -m sglang.launch_server --tp-size 8"),
        ("sglang serve --served-model-name “my model”", 'sglang serve --served-model-name "my model"'),
        ("sglang serve --a ‘b c’", "sglang serve --a 'b c'"),
        ("sglang serve\u00a0--tp 8\u200b", "sglang serve --tp 8"),
        ("sglang serve m \\  \n --tp 8", "sglang serve m \\\n --tp 8"),
    ],
)
def test_parse_command_undoes_what_pasting_did(pasted, meant):
    command = parse_command(pasted)
    assert command.text == meant
    assert command.notes


@pytest.mark.parametrize(
    "text",
    [
        "sglang serve --served-model-name 'A – B'",
        'sglang serve m --chat-template "it’s"',
        "sglang serve m --port $PORT # costs $5",
        "sglang serve 'a  b'",
    ],
)
def test_parse_command_leaves_ordinary_text_alone(text):
    command = parse_command(text)
    assert (command.text, command.notes) == (text, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  \n ", "empty"),
        ("sglang serve --a 'b", "line 1: ' is opened"),
        ('sglang serve m \\\n --a "b', 'line 2: " is opened'),
        ("sglang serve $(cat x", "never closed"),
        ("sglang serve `cat x", "never closed"),
        ("echo hello", "no SGLang launch command"),
        ("export A=1", "no SGLang launch command"),
        ("docker run", "no SGLang launch command"),
        ("a" * (MAX_CHARACTERS + 1), "longer than"),
    ],
)
def test_parse_command_refuses(text, message):
    with pytest.raises(DoctorError, match=message.replace("$", r"\$")):
        parse_command(text)


WORDS = st.sampled_from(
    [
        "--tp",
        "8",
        "--a=b",
        "'x y'",
        '"p q"',
        '"$V"',
        "$V",
        "\\\n",
        "{}",
        "é",
        "# note\n",
        "--json '{\"a\": 1}'",
        "\\ ",
        "-1",
    ]
)


@settings(deadline=None)
@given(words=st.lists(WORDS), gaps=st.sampled_from([" ", "  ", " \\\n  ", "\t"]))
def test_parse_then_render_is_the_identity(words, gaps):
    text = "A=1 python3 -m sglang.launch_server --model m " + gaps.join(words)
    try:
        command = parse_command(text)
    except DoctorError:
        return
    assert not command.notes or "backslash" in command.notes[0]
    assert apply_edits(command, (), None) == command.text
    assert command.notes or command.text == text


@settings(deadline=None)
@given(text=st.text(max_size=80))
def test_parse_command_never_fails_otherwise(text):
    for candidate in (text, "sglang serve " + text, "--x\n" + text, "services:\n a:\n  command: " + text):
        try:
            command = parse_command(candidate)
        except DoctorError:
            continue
        for word in (*command.arguments, *command.wrapper, *command.entry):
            assert 0 <= word.start <= word.end <= len(command.text)
