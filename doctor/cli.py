"""Parse the command line and dispatch; nothing else is imported until a subcommand needs it."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn, TypeAlias

from doctor import __version__
from doctor.errors import DoctorError

_EXPLAIN_EXAMPLES = """\
examples:
  doctor explain server.log
  sglang serve --model-path MODEL 2>&1 | tee server.log | doctor explain -
  doctor explain server.log --command "sglang serve --model-path MODEL --tp 8"
  doctor explain server.log --kernel-log <(dmesg -T)
  doctor explain --response answer.json --command "sglang serve --model-path MODEL"
  doctor explain issue.md --format markdown
"""
_CHECK_EXAMPLES = """\
examples:
  doctor check
  doctor check -- sglang serve --model-path /models/Qwen3-32B --tp 2
  doctor check --python /srv/venv -- --model-path /models/Qwen3-32B
  doctor check --format markdown > environment.md
  doctor check --save good.json       (on the machine that works)
  doctor check --compare good.json    (on the one that fails)
"""
_PLAN_EXAMPLES = """\
examples:
  doctor plan /models/Qwen3-32B -- --tp 2 --context-length 32768
  doctor plan config.json --gpu "RTX 5090" --ram 96GiB -- --cpu-offload-gb 20
  doctor plan /models/DeepSeek-V3 --gpu H200 --gpus 8 -- sglang serve --model-path /models/DeepSeek-V3 --tp 8
"""
_RULE_EXAMPLES = """\
examples:
  doctor rule --list
  doctor rule GPU001
  doctor rule --lint my-rules/
"""
_RUN_EXAMPLES = """\
examples:
  doctor run -- sglang serve --model-path MODEL --tp 2
  doctor run --apply safe --log-dir /var/log/sglang -- --model-path MODEL
  doctor run --listen 0.0.0.0:9100 --events events.jsonl -- python -m sglang.launch_server --model-path MODEL

exit code: the server's, or 128 + the signal that ended it; never 0 after a fault
"""
_EXAMPLES = """\
examples:
  doctor check -- COMMAND              find before the launch what would end it
  doctor explain server.log            name the cause of a failed launch, and a command that works
  doctor run -- COMMAND                start it under a watchdog that explains, and restarts what may recover
  doctor plan MODEL_DIR -- --tp 2      say whether it will fit before an hour of loading
  doctor rule GPU001                   read what a finding means, offline

exit codes: 0 nothing found, 1 findings, 2 wrong usage or unreadable input, 3 internal error, 130 interrupted
"""


_Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"  # noqa: SLF001 - argparse has no public name for it

_TAKE_LAUNCH = ("check", "plan", "run")


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line like every other bad input: one line, and the command that helps."""

    def error(self, message: str) -> NoReturn:
        raise DoctorError(message, f"see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all subcommands."""
    parser = _Parser(
        prog="doctor",
        description="Diagnose SGLang: the one cause, its evidence, and a command that works.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sglang-doctor {__version__}")
    commands = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    _add_check(commands)
    _add_explain(commands)
    _add_plan(commands)
    _add_rule(commands)
    _add_run(commands)
    return parser


def _add_subcommand(
    commands: _Commands, name: str, summary: str, examples: str, usage: str | None = None
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=summary.capitalize() + ".",
        epilog=examples,
        usage=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_check(commands: _Commands) -> None:
    parser = _add_subcommand(
        commands,
        "check",
        "look at the machine, the Python stack and the launch before the server is started",
        _CHECK_EXAMPLES,
        "doctor check [options] [-- LAUNCH COMMAND]",
    )
    parser.add_argument("--model", metavar="DIR", help="check for the plainest launch of this model")
    parser.add_argument("--python", metavar="PATH", help="the interpreter, or its venv (default: the launch's own)")
    parser.add_argument("--only", metavar="NAMES", action="append", default=[], help="only these probes or groups")
    parser.add_argument("--skip", metavar="NAMES", action="append", default=[], help="without these probes or groups")
    parser.add_argument("--list", action="store_true", help="list the probes by group")
    parser.add_argument("--online", action="store_true", help="also ask whether the model hub answers")
    parser.add_argument("--save", metavar="FILE", help="also write the check to a file, to be compared with")
    parser.add_argument("--compare", metavar="FILE", help="say what differs from a saved check")
    _add_format(parser, "markdown", "junit")
    _add_fail_on(parser)


def _add_explain(commands: _Commands) -> None:
    parser = _add_subcommand(
        commands, "explain", "name the cause of a failed or sick server from its log", _EXPLAIN_EXAMPLES
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="log files, .gz, .zst, a folder of logs, or - for standard input",
    )
    parser.add_argument(
        "--command", metavar="TEXT", help="the launch command, to be corrected in the form you typed it"
    )
    parser.add_argument(
        "--response", metavar="FILE", help="a model's answer (JSON, SSE or text), to be checked for garbage"
    )
    parser.add_argument("--kernel-log", metavar="FILE", help="output of dmesg -T or journalctl -k, to be joined by pid")
    parser.add_argument("--follow", action="store_true", help="keep reading a growing or rotated log; stop with Ctrl-C")
    _add_format(parser, "markdown")
    _add_fail_on(parser)
    parser.add_argument(
        "--rules",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder with rules of your own, added to the built-in ones",
    )


def _add_plan(commands: _Commands) -> None:
    parser = _add_subcommand(
        commands,
        "plan",
        "say whether a model will fit, and with which numbers",
        _PLAN_EXAMPLES,
        "doctor plan [options] MODEL [-- SGLANG ARGS]",
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a model folder, a config.json or a .gguf file; no weight is read"
    )
    parser.add_argument("--gpu", metavar="NAME", help='plan for this GPU instead of the ones here, e.g. "RTX 5090"')
    parser.add_argument("--gpus", type=int, metavar="N", help="how many GPUs there are")
    parser.add_argument("--ram", metavar="SIZE", help="memory of the host, e.g. 96GiB")
    parser.add_argument("--sglang-version", metavar="VERSION", help="plan for this version (default: the newest known)")
    _add_format(parser)


def _add_rule(commands: _Commands) -> None:
    parser = _add_subcommand(commands, "rule", "show the page of a rule, or list and check rules", _RULE_EXAMPLES)
    parser.add_argument("id", nargs="?", metavar="ID", help="a rule's code or name, such as GPU001 or no-accelerator")
    parser.add_argument("--list", action="store_true", help="list all rules by family")
    parser.add_argument("--lint", metavar="DIR", help="check a folder of rules: every mistake is named with its file")
    _add_format(parser)
    parser.add_argument("--rules", metavar="DIR", action="append", default=[], help="a folder with rules of your own")


def _add_run(commands: _Commands) -> None:
    parser = _add_subcommand(
        commands,
        "run",
        "run a server under a watchdog",
        _RUN_EXAMPLES,
        "doctor run [options] -- LAUNCH COMMAND",
    )
    check = parser.add_mutually_exclusive_group()
    check.add_argument("--no-check", action="store_true", help="start without `doctor check` before it")
    check.add_argument("--check-only", action="store_true", help="check the launch and do not start it")
    parser.add_argument(
        "--restart",
        choices=("on-failure", "never"),
        default="on-failure",
        help="start again what may recover, with pauses and a budget (default: on-failure)",
    )
    parser.add_argument(
        "--apply", choices=("safe", "never"), default="never", help="relaunch once with the safe edits of the diagnosis"
    )
    parser.add_argument("--log-dir", metavar="DIR", help="also write the output there, rotated")
    parser.add_argument(
        "--log-size", metavar="SIZE", default="64MiB", help="size of one of 8 log files (default: 64MiB)"
    )
    parser.add_argument("--events", metavar="FILE", help="append what happens as JSON lines")
    parser.add_argument(
        "--evidence", metavar="DIR", help="where evidence folders go (default: beside the log or ~/.local)"
    )
    parser.add_argument("--listen", metavar="HOST:PORT", help="serve /livez, /readyz and /metrics")
    parser.add_argument(
        "--host-reserve",
        metavar="SIZE",
        help="stop the server when less host memory is left (default: 4 %% of it, 256 MiB to 4 GiB; 0: off)",
    )
    parser.add_argument(
        "--stall-after",
        type=float,
        default=25.0,
        metavar="SECONDS",
        help="requests without any progress for this long are a hang (default: 25)",
    )
    parser.add_argument(
        "--patience", type=float, default=1.0, metavar="FACTOR", help="multiplies how long a start may be silent"
    )
    parser.add_argument(
        "--stop-after",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="from the forwarded signal to SIGKILL (default: 30)",
    )
    parser.add_argument("--keep", action="store_true", help="let the server live when the doctor itself is killed")


def _add_format(parser: argparse.ArgumentParser, *more: str) -> None:
    parser.add_argument(
        "--format", choices=("text", "json", *more), default="text", help="output format (default: text)"
    )


def _add_fail_on(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "never"),
        default="error",
        help="lowest severity that gives exit code 1 (default: error)",
    )


def split_launch(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split at the first `--` of a subcommand that takes a launch command: (the doctor's own words, the launch)."""
    if arguments[:1] not in ([name] for name in _TAKE_LAUNCH) or "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def main(arguments: list[str]) -> int:
    """Run one subcommand and give its exit code."""
    own, launch = split_launch(arguments)
    options = build_parser().parse_args(own)
    options.launch = launch
    if options.subcommand == "check":
        from doctor.commands.check import check

        return check(options)
    if options.subcommand == "explain":
        from doctor.commands.explain import explain

        return explain(options)
    if options.subcommand == "plan":
        from doctor.commands.plan import plan

        return plan(options)
    if options.subcommand == "run":
        from doctor.commands.run import run as run_server

        return run_server(options)
    from doctor.commands.rule import show_rule

    return show_rule(options)


def run() -> None:
    """Entry point of the scripts: one error boundary around everything."""
    from doctor.boundary import guard

    sys.exit(guard(main, sys.argv[1:]))
