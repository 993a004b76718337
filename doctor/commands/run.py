"""`doctor run`: the server under a watchdog."""

from __future__ import annotations

import argparse
import os
import sys

from doctor.errors import DoctorError
from doctor.watch.model import Settings


def run(options: argparse.Namespace) -> int:
    """Run the subcommand; give the server's exit code, or 128 + its signal."""
    if not sys.platform.startswith("linux"):
        raise DoctorError("doctor run needs Linux", "doctor explain reads a log anywhere")
    from doctor.watch.launch import check_executable, read_launch

    launch = read_launch(options.launch)
    check_executable(launch, os.environ)
    if launch.command and (options.check_only or not options.no_check):
        from doctor.watch.preflight import run_preflight

        code = run_preflight(launch.words)
        if code or options.check_only:
            return code
    from doctor.watch.watch import watch

    return watch(launch, read_settings(options), options)


def read_settings(options: argparse.Namespace) -> Settings:
    """Turn options into settings. Raises DoctorError for a size that means nothing."""
    reserve = None
    if options.host_reserve is not None:
        from doctor.memory.units import parse_size

        reserve = 0 if options.host_reserve == "0" else parse_size(options.host_reserve)
    return Settings(
        options.restart,
        options.apply == "safe",
        options.stop_after,
        options.stall_after,
        options.patience,
        reserve,
        options.keep,
    )
