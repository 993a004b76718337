from __future__ import annotations

from pathlib import Path

import pytest

from doctor.errors import DoctorError
from doctor.launch.check import check_command
from doctor.launch.command import parse_command
from doctor.launch.config_file import MAX_BYTES, merge_config, read_config

from .helpers import NEWEST

TEXT = """\
# options
model-path: "my model"
tp_size: 4
trust-remote-code: true
enable-metrics: false
log-requests: yes
cuda-graph-bs-decode: [1, 2]
lora-paths:
- a=/p
- b=/q
json-model-override-args: '{"a": 1}'
"""


def merged(text, command="sglang serve --config x.yaml"):
    return [word.value for word in merge_config(parse_command(command), text, NEWEST).arguments]


def test_merge_config_writes_the_options_as_arguments():
    assert merged(TEXT)[:-2] == [
        *("--model-path", "my model", "--tp-size", "4", "--trust-remote-code", "--log-requests"),
        *("--cuda-graph-bs-decode", "1", "2", "--lora-paths", "a=/p", "b=/q"),
        *("--json-model-override-args", '{"a": 1}'),
    ]


def test_merge_config_lets_the_command_line_win():
    assert merged("tp: 4\nport: 1\n", "sglang serve m --tp-size 2") == ["m", "--port", "1", "--tp-size", "2"]


def test_merge_config_makes_its_faults_visible():
    command = merge_config(parse_command("sglang serve m --config x.yaml"), "tp: two\nnope: 1\n", NEWEST)
    assert [(item.kind, item.flag) for item in check_command(command, NEWEST)] == [
        ("type", "--tp"),
        ("unknown", "--nope"),
    ]


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text\n", "a:\n  b: 1\n", "a: [1\n"])
def test_merge_config_refuses(text):
    with pytest.raises(DoctorError):
        merged(text)


def test_read_config_reads_yaml(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(TEXT)
    assert read_config(path) == TEXT


@pytest.mark.parametrize("name", ["x.json", "missing.yaml"])
def test_read_config_refuses(tmp_path, name):
    with pytest.raises(DoctorError, match=name):
        read_config(tmp_path / name)


def test_read_config_refuses_a_huge_file(tmp_path):
    path: Path = tmp_path / "x.yml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(DoctorError, match="more than"):
        read_config(path)
