"""The one place where exceptions become exit codes and messages; no traceback is shown for bad input."""

from __future__ import annotations

import errno
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
        return _guard(main, arguments)
    except KeyboardInterrupt:
        _silence(sys.stdout.fileno)
        return 130
    except BrokenPipeError:
        _silence(sys.stdout.fileno)
        _silence(sys.stderr.fileno)
        return 0


def _guard(main: Callable[[list[str]], int], arguments: list[str]) -> int:
    try:
        code = main(arguments)
        sys.stdout.flush()
    except DoctorError as error:
        _complain(error)
        return 2
    except (SystemExit, BrokenPipeError):
        sys.stdout.flush()  # argparse has printed help; a closed pipe is noticed here and not at exit
        raise
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _report_bug(arguments)
        _silence(sys.stdout.fileno)
        _complain(DoctorError(f"cannot write: {error.strerror}", "send the output somewhere with room"))
        return 2
    except Exception:  # noqa: BLE001 - this is the boundary
        return _report_bug(arguments)
    return code


def _make_streams_safe() -> None:
    """Print what the terminal's encoding cannot show as escapes instead of failing; do without a closed stream."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open to the end
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - same
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")


def _complain(error: DoctorError) -> None:
    from doctor.redact import flatten

    hint = f"; {flatten(error.hint)}" if error.hint else ""
    print(f"doctor: {flatten(error.message)}{hint}", file=sys.stderr)


def _silence(fileno: Callable[[], int]) -> None:
    """Keep the interpreter from complaining about a closed pipe when it flushes at exit."""
    import contextlib

    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), fileno())


def _report_bug(arguments: list[str]) -> int:
    """Print a block to paste; give the exit code."""
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
    return 3
