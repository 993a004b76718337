"""`doctor plan`: will this model fit, and with which numbers."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

from doctor.errors import DoctorError
from doctor.launch.command import parse_command
from doctor.launch.flags import FlagTable, load_table
from doctor.launch.model import Command
from doctor.memory.gpus import Machine, describe_machine
from doctor.memory.picture import render_plan
from doctor.memory.plan import Plan, plan_model, to_data
from doctor.memory.recipes import Advice, find_recipes
from doctor.memory.recipes_text import Launched, list_data, render_recipes
from doctor.redact import clean

MAX_SHOWN = 20
"""Problems of the command that are printed; a longer list means that it was no launch command."""


class Answer(NamedTuple):
    """Everything `doctor plan` found out: each part may be missing when its input was no good.

    `problems` are those of the launch arguments, one line each; `failure` is why there is no plan.
    """

    plan: Plan | None
    failure: DoctorError | None
    problems: tuple[str, ...]
    advice: Advice
    launched: Launched


def plan(options: argparse.Namespace) -> int:
    """Run the subcommand; 1 when the launch does not fit, is refused, or only a part could be answered.

    Raises DoctorError when nothing could be: the exit code is 2 then.
    """
    answer = make_answer(options)
    if answer.failure is not None and not (answer.problems or answer.advice.recipes or answer.advice.remark):
        raise answer.failure
    show = show_json if options.format == "json" else show_text
    show(answer)
    print(f"doctor: {summarise(answer)}", file=sys.stderr)
    refused = any(not problem.startswith(("warning", "note")) for problem in answer.problems)
    return int(refused or answer.plan is None or answer.plan.verdict == "does not fit")


def make_answer(options: argparse.Namespace) -> Answer:
    """Work out all parts, each on its own."""
    path = Path(options.model)
    if not path.exists():
        raise DoctorError(
            f"{options.model}: no such folder or file", "give a model folder or a config.json; nothing is downloaded"
        )
    table = load_table(options.sglang_version)
    arguments, problems = read_launch(options.launch, table)
    machine = find_machine(options)
    launched = Launched(str(path) if path.is_dir() else "", table)
    advice = advise(path, machine)
    try:
        found = plan_model(path, arguments, machine, table.version)
    except DoctorError as failure:
        return Answer(None, failure, problems, advice, launched)
    return Answer(found, None, problems, advice, launched)


def show_json(answer: Answer) -> None:
    """Write the answer as one JSON object."""
    data = {
        **(to_data(answer.plan) if answer.plan else {}),
        "failure": answer.failure.message if answer.failure else None,
        "problems": list(answer.problems),
        "recipes": list_data(answer.advice, answer.launched),
    }
    sys.stdout.write(json.dumps(data, indent=1) + "\n")


def show_text(answer: Answer) -> None:
    """Write the answer for people."""
    from doctor.report.interface import find_target

    width = find_target(sys.stdout, os.environ).width
    if answer.plan is not None:
        sys.stdout.write(render_plan(answer.plan, width))
    if answer.problems:
        print("\nThe launch arguments:")
    for problem in answer.problems:
        print(f"  - {problem}")
    sys.stdout.write(render_recipes(answer.advice, answer.launched, width))


def summarise(answer: Answer) -> str:
    """One line for stderr."""
    if answer.plan is None:
        failure = answer.failure
        return f"no plan: {failure.message}" if failure else "no plan"
    reason = f": {answer.plan.reasons[0]}" if answer.plan.reasons else ""
    verdict = answer.plan.verdict
    guess = f" (a guess: {answer.plan.guess} is unknown here)" if answer.plan.guess else ""
    return f"{verdict}{guess}{reason}" if verdict != "unknown" else "no GPU given, so nothing to compare with"


def advise(path: Path, machine: Machine) -> Advice:
    """Find recipes for the model; none when its config.json cannot be read, which the plan itself reports."""
    from doctor.memory import config as cfg

    file = path / "config.json" if path.is_dir() else path
    if file.suffix != ".json":
        return Advice((), "")
    try:
        return find_recipes(cfg.make_config(cfg.read_json(file)), machine)
    except DoctorError:
        return Advice((), "")


def read_launch(words: list[str], table: FlagTable) -> tuple[dict[str, object], tuple[str, ...]]:
    """Read the arguments after `--` as fields of ServerArgs, with what is wrong with them in one line each.

    Environment variables stand among the fields under their own names. One word with blanks is a whole command.
    """
    if not words:
        return {}, ()
    import shlex

    from doctor.diagnosis.commands import read_arguments

    text = words[0] if len(words) == 1 and len(words[0].split()) > 1 else shlex.join(words)
    try:
        command = parse_command(text)
    except DoctorError as error:
        return {}, (clean(f"not read, planned without them: {error.message}"),)
    variables = {item.name: item.value for item in command.env if item.value is not None}
    return {**read_arguments(command, table), **variables}, list_problems(command, table)


def list_problems(command: Command, table: FlagTable) -> tuple[str, ...]:
    """Return what was mended in a command, and what SGLang would refuse or change of it, a line each."""
    from doctor.launch.check import check_command

    problems = [clean(f"{item.severity}: {item.message}") for item in check_command(command, table)]
    notes = [clean(f"note: {note}") for note in command.notes]
    return (*notes, *problems[:MAX_SHOWN])


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
