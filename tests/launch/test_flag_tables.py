"""The tool that reads the tables, on small packages written like SGLang's three ways of declaring flags."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(TOOLS), *sys.path])
    return importlib.import_module("flag_tables")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root / "sglang"


CALLS = """
from sglang.srt.names import MORE
CHOICES = ["a", "b"]
class ServerArgs:
    tp_size: int = 1
    host: str = "127.0.0.1"
    limit: int = os.getpid()
    @staticmethod
    def add_cli_args(parser):
        found = list(Parsers.known.keys())
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int, default=ServerArgs.tp_size)
        parser.add_argument("--host", type=str, default=ServerArgs.host, choices=CHOICES + [MORE])
        parser.add_argument("--parser", choices=found)
        parser.add_argument("--sizes", type=int, nargs="+")
        parser.add_argument("--limit", type=int, default=ServerArgs.limit)
        parser.add_argument("--old", action=DeprecatedAction, help="NOTE: --old is deprecated. Please use '--new' instead.")
        parser.add_argument("--on", action="store_true")
    @classmethod
    def from_cli_args(cls, args):
        args.tp_size = args.tensor_parallel_size
class Parsers:
    known = {"x": Something, "y": Other}
"""


def test_read_flags_of_add_argument_calls(tool, tmp_path, capsys):
    package = write(tmp_path, {"srt/server_args.py": CALLS, "srt/names.py": 'MORE = "c"'})
    flags = tool.read_flags(package)
    assert flags["--tensor-parallel-size"] == {
        "aliases": ["--tp-size"],
        "dest": "tp_size",
        "type": "int",
        "default": 1,
    }
    assert flags["--host"] == {"choices": ["a", "b", "c"], "default": "127.0.0.1"}
    assert flags["--parser"] == {"choices": ["x", "y"]}
    assert flags["--sizes"] == {"type": "int", "nargs": "+"}
    assert flags["--old"] == {"type": "flag", "default": False, "deprecated": True, "replaced_by": "--new"}
    assert flags["--on"] == {"type": "flag", "default": False}
    assert flags["--limit"] == {"type": "int"}
    assert "not constant: os.getpid" in capsys.readouterr().err


FIELDS = """
class Group(msgspec.Struct):
    tp_size: A[int, Arg(help="x", aliases=["--tensor-parallel-size"])] = 1
    model_path: A[str, Arg(help="x", aliases=["--model"])]
    names: A[Optional[List[str]], "x"] = None
    paths: A[List[str], Arg(help="x", nargs="*")] = msgspec.field(default_factory=list)
    mode: A[Literal["p", "q"], "x"] = "p"
    level_of: A[Optional[Literal[1, 2]], "x"] = 1
    most: A[int, "x"] = sys.maxsize
    length: A[Optional[int], Arg(help="x", type_parser=human_readable_int)] = None
    share: A[Optional[float], Arg(help="x", fallback=0.8)] = None
    toggle: A[bool, Arg(help="x", action=argparse.BooleanOptionalAction)] = True
    hidden: A[int, Arg(help="x", no_cli=True)] = 3
    plain: int = 3
    on: A[bool, "(Deprecated, use --mode) x"] = False
"""
MANUAL = """
from sglang.srt.modes import Mode
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--plain", type=int, default=_declared_default("plain"), choices=modes())
        parser.add_argument("--level", choices=[m.name.lower() for m in Mode])
        parser.add_argument("--gone", action=DeprecatedStoreConstAction, dest="mode", const_value=Mode.P, new_flag="--mode=p")
def modes():
    from sglang.srt.modes import NAMES
    return list(NAMES)
"""
MODES = "class Mode:\n    P = 'p'\n    Q = 'q'\nNAMES = (1, 2)\n"


def test_read_flags_of_annotated_fields(tool, tmp_path):
    files = {"srt/server_args.py": MANUAL, "srt/arg_groups/fields/group.py": FIELDS, "srt/modes.py": MODES}
    flags = tool.read_flags(write(tmp_path, files))
    assert flags["--tp-size"] == {"aliases": ["--tensor-parallel-size"], "type": "int", "default": 1}
    assert flags["--model-path"] == {"aliases": ["--model"], "required": True}
    assert flags["--names"] == {"nargs": "+"}
    assert flags["--paths"] == {"nargs": "*", "default": []}
    assert flags["--mode"] == {"choices": ["p", "q"], "default": "p"}
    assert flags["--level-of"] == {"type": "int", "choices": [1, 2], "default": 1}
    assert flags["--most"] == {"type": "int", "default": 2**63 - 1}
    assert flags["--length"] == {"type": "human-int"}
    assert flags["--share"] == {"type": "float", "fallback": 0.8}
    assert flags["--toggle"] == {"aliases": ["--no-toggle"], "type": "toggle", "default": True}
    assert flags["--on"] == {"type": "flag", "default": False, "deprecated": True, "replaced_by": "--mode"}
    assert flags["--plain"] == {"type": "int", "choices": [1, 2], "default": 3}
    assert flags["--level"] == {"choices": ["p", "q"]}
    assert flags["--gone"] == {
        "dest": "mode",
        "type": "flag",
        "const": "p",
        "deprecated": True,
        "replaced_by": "--mode=p",
    }
    assert "--hidden" not in flags


def test_write_table_writes_one_flag_per_line(tool, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tool, "TABLES", tmp_path)
    write(tmp_path / "cache" / "9.9", {"srt/server_args.py": CALLS, "srt/names.py": 'MORE = "c"'})
    lines = tool.write_table("9.9", tmp_path / "cache").read_text(encoding="utf-8").splitlines()
    assert lines[1] == '"--help": {"aliases": ["-h"], "type": "help"},'
    assert len(lines) == 2 + 8
    assert "9.9: 8 flags" in capsys.readouterr().out
