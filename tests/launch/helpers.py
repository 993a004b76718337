"""Shortcuts shared by the tests of launch commands."""

from __future__ import annotations

from doctor.launch.command import parse_command
from doctor.launch.edits import Edit
from doctor.launch.flags import FlagTable, load_table
from doctor.launch.render import apply_edits

NEWEST = load_table("0.5.23")


def flag(name: str, after: str | None, before: str | None = None) -> Edit:
    return Edit("flag", name, before, after)


def env(name: str, after: str | None, before: str | None = None) -> Edit:
    return Edit("env", name, before, after)


def edited(text: str, *edits: Edit, table: FlagTable | None = NEWEST) -> str:
    """Apply edits, and make sure that applying them again changes nothing."""
    once = apply_edits(parse_command(text), edits, table)
    assert apply_edits(parse_command(once), edits, table) == once
    return once
