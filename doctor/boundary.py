"""The one place where exceptions become exit codes and messages; no traceback is shown for bad input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from doctor.errors import DoctorError

_BUG = """\
doctor: internal error; nothing you did wrong. Please report it with this block:

```text
sglang-doctor {version}, Python {python} on {platform}
command: {command}
{trace}```
"""


def guard(main: Callable[[list[str]], int], arguments: list[str]) -> int:
    """Run `main`; give 2 for DoctorError, 130 for Ctrl-C, 3 for a bug, and stay quiet when a pipe closes."""
    _make_streams_safe()
    try:
        code = main(arguments)
        sys.stdout.flush()
    except DoctorError as error:
        _complain(error)
        return 2
    except KeyboardInterrupt:
        _silence_stdout()
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except Exception:  # noqa: BLE001 - this is the boundary
        _report_bug(arguments)
        return 3
    return code


def _make_streams_safe() -> None:
    """Print what the terminal's encoding cannot show as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")


def _complain(error: DoctorError) -> None:
    from doctor.redact import clean

    print(f"doctor: {clean(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {clean(error.hint)}", file=sys.stderr)


def _silence_stdout() -> None:
    """Keep the interpreter from complaining about a closed pipe when it flushes at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass


def _report_bug(arguments: list[str]) -> None:
    import platform
    import shlex
    import traceback

    from doctor import __version__
    from doctor.redact import clean

    trace = "".join(traceback.format_exc(limit=-12))
    text = _BUG.format(
        version=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        command=shlex.join(["doctor", *arguments]),
        trace=trace,
    )
    print(clean(text), file=sys.stderr)
