from __future__ import annotations

import pytest

from doctor.errors import DoctorError
from doctor.launch.command import parse_command
from doctor.launch.render import apply_edits

from .helpers import edited, env, flag


def values(words):
    return [word.value for word in words]


COMPOSE = """\
services:
  web:
    command: nginx
  sglang:
    image: lmsysorg/sglang:latest
    environment:
      HF_TOKEN: abc   # secret
      B: "2"
    entrypoint: python3 -m sglang.launch_server
    command: --model-path m --tp 2
    ports: ["30000:30000"]
"""


def test_parse_command_reads_compose():
    command = parse_command(COMPOSE)
    assert values(command.entry) == ["python3", "-m", "sglang.launch_server"]
    assert values(command.arguments) == ["--model-path", "m", "--tp", "2"]
    assert [(item.name, item.value) for item in command.env] == [("HF_TOKEN", "abc"), ("B", "2")]
    assert apply_edits(command, (), None) == COMPOSE


def test_apply_edits_changes_one_line_of_compose():
    assert edited(COMPOSE, flag("--tp-size", "4")) == COMPOSE.replace("--tp 2", "--tp 4")
    assert edited(COMPOSE, env("B", "3")) == COMPOSE.replace('B: "2"', 'B: "3"')
    assert edited(COMPOSE, env("C", "x")) == COMPOSE.replace('B: "2"\n', 'B: "2"\n      C: "x"\n')
    assert edited(COMPOSE, env("B", None, "2")) == COMPOSE.replace('      B: "2"\n', "")


FOLDED = """\
services:
  sglang:
    command: >
      python3 -m sglang.launch_server
      --model-path m
      --tp 2
    environment:
      - A=1
      - "B=2"
"""


def test_apply_edits_adds_a_line_to_a_folded_scalar():
    expected = FOLDED.replace("--tp 2\n", "--tp 2\n      --page-size 16\n")
    assert edited(FOLDED, flag("--page-size", "16")) == expected


def test_apply_edits_edits_a_list_of_pairs():
    assert edited(FOLDED, env("A", "7"), env("B", "8")) == FOLDED.replace("A=1", "A=7").replace("B=2", "B=8")
    assert edited(FOLDED, env("C", "x y")) == FOLDED + "      - C=x y\n"


def test_apply_edits_drops_an_environment_that_became_empty():
    assert "environment" not in edited(FOLDED, env("A", None, "1"), env("B", None, "2"))


def test_apply_edits_unsets_a_variable_of_the_image():
    expected = FOLDED.replace("python3 -m", "env -u CUDA_VISIBLE_DEVICES python3 -m")
    assert edited(FOLDED, env("CUDA_VISIBLE_DEVICES", None)) == expected


LIST = """\
services:
  sglang:
    command:
      - --model-path
      - m
      - --tp=2  # two GPUs
    shm_size: 1g
"""


def test_apply_edits_keeps_the_form_of_list_items():
    assert edited(LIST, flag("--tp-size", "4")) == LIST.replace("--tp=2", "--tp=4")
    added = '      - --tp=2  # two GPUs\n      - --page-size\n      - "16"\n'
    assert edited(LIST, flag("--page-size", "16")) == LIST.replace("      - --tp=2  # two GPUs\n", added)
    assert edited(LIST, flag("--tp-size", None)) == LIST.replace("      - --tp=2  # two GPUs\n", "")


def test_apply_edits_adds_an_environment_where_there_is_none():
    assert edited(LIST, env("A", "1")) == LIST.replace("    shm_size", '    environment:\n      A: "1"\n    shm_size')


KUBERNETES = """\
spec:
  containers:
  - name: other
    command: [x]
  - name: sglang
    command: ["python3", "-m", "sglang.launch_server"]
    args:
    - "--model-path"
    - "m"
    - "--tp"
    - "2"
    env:
    - name: A
      value: "1"
    - name: B
      valueFrom:
        secretKeyRef: {name: x}
    resources: {}
"""


def test_parse_command_reads_kubernetes():
    command = parse_command(KUBERNETES)
    assert values(command.entry) == ["python3", "-m", "sglang.launch_server"]
    assert [(item.name, item.value) for item in command.env] == [("A", "1"), ("B", None)]


def test_apply_edits_edits_kubernetes():
    assert edited(KUBERNETES, flag("--tp-size", "4")) == KUBERNETES.replace('- "2"', '- "4"')
    added = KUBERNETES.replace('    - "2"\n', '    - "2"\n    - "--trust-remote-code"\n')
    assert edited(KUBERNETES, flag("--trust-remote-code", "")) == added
    assert edited(KUBERNETES, env("A", "7")) == KUBERNETES.replace('value: "1"', 'value: "7"')
    assert edited(KUBERNETES, env("B", "8")) == KUBERNETES.replace(
        "      valueFrom:\n        secretKeyRef: {name: x}\n", '      value: "8"\n'
    )
    new = '    - name: C\n      value: "9"\n    resources'
    assert edited(KUBERNETES, env("C", "9")) == KUBERNETES.replace("    resources", new)


SCRIPT = """\
containers:
- name: z
  command:
  - bash
  - -c
  - |
    set -e
    python3 -m sglang.launch_server \\
      --model-path m \\
      --tp 2
  resources: {}
"""


def test_apply_edits_edits_a_script_in_a_block_scalar():
    expected = SCRIPT.replace("--tp 2\n", "--tp 4 \\\n      --page-size 16\n")
    assert edited(SCRIPT, flag("--tp-size", "4"), flag("--page-size", "16")) == expected


@pytest.mark.parametrize("text", ['["sglang", "serve", "m", "--tp", "2"]', 'CMD ["sglang", "serve", "m", "--tp", "2"]'])
def test_apply_edits_edits_a_list_of_words(text):
    assert edited(text, flag("--tp-size", "4")) == text.replace('"2"', '"4"')
    assert edited(text, env("A", "1")) == text.replace('"sglang"', '"env", "A=1", "sglang"')
    assert edited(text, flag("--tp-size", None)) == text.replace(', "--tp", "2"', "")


def test_apply_edits_keeps_a_plain_scalar_valid_yaml():
    text = "x:\n  command: sglang serve m"
    result = edited(text, flag("--json-model-override-args", '{"a": 1}'))
    assert ": 1" not in result
    assert result.endswith("""--json-model-override-args '{"a":'' 1}'""")


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  a:\n    command: nginx -g x",
        "services:\n  a:\n    command: [a, b",
        'services:\n  a:\n    command: "sglang serve',
        "services:\n  a:\n    command:\n",
        '["echo", "x"]',
        "[]\ncommand:",
    ],
)
def test_parse_command_refuses_yaml_without_a_launch(text):
    with pytest.raises(DoctorError):
        parse_command(text)


OFFICIAL = """\
services:
  sglang:
    entrypoint: python3 -m sglang.launch_server
    command:
      --model-path m
      --port 30000
    environment:
      - HF_TOKEN=<secret>
    ipc: host
"""


def test_apply_edits_adds_to_a_plain_scalar_below_its_key():
    assert values(parse_command(OFFICIAL).arguments) == ["--model-path", "m", "--port", "30000"]
    changed = OFFICIAL.replace("30000\n", "30000\n      --tp-size 4\n")
    assert edited(OFFICIAL, flag("--tp-size", "4")) == changed
    assert edited(OFFICIAL, flag("--port", None)) == OFFICIAL.replace("\n      --port 30000", "")


DSTACK = """\
type: service
env:
  - MODEL_ID=m
commands:
  - pip list
  - python3 -m sglang.launch_server
     --model-path $MODEL_ID
     --port 8000
port: 8000
"""


def test_apply_edits_edits_a_list_of_shell_lines():
    command = parse_command(DSTACK)
    assert values(command.arguments) == ["--model-path", "$MODEL_ID", "--port", "8000"]
    assert [(item.name, item.value) for item in command.env] == [("MODEL_ID", "m")]
    assert edited(DSTACK, flag("--port", "9")) == DSTACK.replace("--port 8000", "--port 9")
    assert edited(DSTACK, env("A", "1")) == DSTACK.replace("=m\n", "=m\n  - A=1\n")


SKYPILOT = """\
envs:
  MODEL: m
run: |
  conda activate sglang
  python -m sglang.launch_server --model-path $MODEL \\
    --host localhost
"""


def test_apply_edits_edits_the_script_of_a_task():
    changed = edited(SKYPILOT, flag("--tp-size", "4"), env("A", "1"))
    assert changed == SKYPILOT.replace("localhost", "localhost \\\n    --tp-size 4").replace(
        "m\nrun", 'm\n  A: "1"\nrun'
    )


def test_parse_command_reads_variables_that_come_from_a_secret():
    text = KUBERNETES.replace("{name: x}", "\n          name: secret\n          key: token")
    assert [(item.name, item.value) for item in parse_command(text).env] == [("A", "1"), ("B", None)]


def test_apply_edits_edits_the_arguments_of_a_chart():
    text = 'engine:\n  extraArgs:\n    - --model-path\n    - m\n    - --tp\n    - "2"\n'
    assert edited(text, flag("--tp-size", "4")) == text.replace('"2"', '"4"')


BRACES = """\
x:
  command: sglang serve m
  environment: {HF_HOME: /hf, CUDA_VISIBLE_DEVICES: "0,1"}
"""


def test_apply_edits_edits_an_environment_in_braces():
    command = parse_command(BRACES)
    assert [(item.name, item.value) for item in command.env] == [("HF_HOME", "/hf"), ("CUDA_VISIBLE_DEVICES", "0,1")]
    assert edited(BRACES, env("A", "1")) == BRACES.replace("{HF", '{A: "1", HF')
    assert edited(BRACES, env("CUDA_VISIBLE_DEVICES", "2")) == BRACES.replace('"0,1"', '"2"')
    assert edited(BRACES, env("HF_HOME", None, "/hf")) == BRACES.replace("HF_HOME: /hf,", "")
    assert edited(BRACES, env("HF_HOME", "/x y")) == BRACES.replace("/hf", '"/x y"')


def test_apply_edits_edits_an_environment_in_brackets():
    text = BRACES.replace('{HF_HOME: /hf, CUDA_VISIBLE_DEVICES: "0,1"}', '["HF_HOME=/hf", B=2]')
    assert [(item.name, item.value) for item in parse_command(text).env] == [("HF_HOME", "/hf"), ("B", "2")]
    assert edited(text, env("A", "1")) == text.replace("[", '["A=1", ')
    assert edited(text, env("B", "3")) == text.replace("B=2", "B=3")
    assert edited(text, env("HF_HOME", None, "/hf")) == text.replace('"HF_HOME=/hf",', "")
    empty = text.replace('"HF_HOME=/hf", B=2', "")
    assert edited(empty, env("A", "1")) == empty.replace("[", '["A=1", ')


def test_parse_command_reads_command_and_args_of_other_formats():
    text = 'command = ["python3", "-m", "sglang.launch_server"]\nargs = ["--model-path", "m"]'
    assert values(parse_command(text).arguments) == ["--model-path", "m"]


@pytest.mark.parametrize("line", ["run: yesterday", "command: see below", "script: x", "args:"])
def test_parse_command_reads_a_shell_command_below_a_word_of_yaml(line):
    assert values(parse_command(f"{line}\nsglang serve m --tp 2\n").arguments) == ["m", "--tp", "2"]
