"""`doctor plan`: will this model fit, and with which numbers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from doctor.errors import DoctorError
from doctor.launch.command import parse_command
from doctor.launch.flags import load_table
from doctor.memory.gpus import Machine, describe_machine
from doctor.memory.picture import render_plan
from doctor.memory.plan import Plan, plan_model, to_data


def plan(options: argparse.Namespace) -> int:
    """Run the subcommand; 1 when the launch does not fit."""
    if not Path(options.model).exists():
        raise DoctorError(
            f"{options.model}: no such folder or file", "give a model folder or a config.json; nothing is downloaded"
        )
    table = load_table(options.sglang_version)
    arguments = read_launch(options.launch, options.sglang_version)
    machine = find_machine(options)
    answer = plan_model(Path(options.model), arguments, machine, table.version)
    if options.format == "json":
        sys.stdout.write(json.dumps(to_data(answer), indent=1) + "\n")
    else:
        from doctor.commands.explain import find_target

        sys.stdout.write(render_plan(answer, find_target(sys.stdout).width))
    print(f"doctor: {summarise(answer)}", file=sys.stderr)
    return int(answer.verdict == "does not fit")


def summarise(answer: Plan) -> str:
    """One line for stderr."""
    reason = f": {answer.reasons[0]}" if answer.reasons else ""
    return f"{answer.verdict}{reason}" if answer.verdict != "unknown" else "no GPU given, so nothing to compare with"


def read_launch(words: list[str], version: str | None) -> dict[str, object]:
    """Read the arguments after `--` as fields of ServerArgs; environment variables stand under their own names."""
    if not words:
        return {}
    import shlex

    from doctor.diagnosis.commands import read_arguments

    command = parse_command(shlex.join(words))
    known = read_arguments(command, load_table(version))
    return {**known, **{item.name: item.value for item in command.env if item.value is not None}}


def find_machine(options: argparse.Namespace) -> Machine:
    """Take the machine from --gpu, --gpus and --ram, else look at this one.

    Raises DoctorError for sizes and names that mean nothing.
    """
    if options.gpu:
        return describe_machine(options.gpu, options.gpus or 1, options.ram or "")
    from doctor.commands.machine import look_at_machine

    machine = look_at_machine(options.gpus)
    if options.ram:
        from doctor.memory.units import parse_size

        memory = parse_size(options.ram)
        machine = machine._replace(ram=memory, ram_available=memory)
    if machine.gpu is None:
        print(
            'doctor: no GPU found here; give one to plan for, for example: --gpu "RTX 5090" --ram 96GiB',
            file=sys.stderr,
        )
    return machine
