"""Parse a launch command as people paste it: shell text, a list of flags, or compose and Kubernetes YAML."""

from __future__ import annotations

from doctor.errors import DoctorError
from doctor.launch import excerpt, line_ends
from doctor.launch.clean_text import clean_text
from doctor.launch.excerpt import cut_command
from doctor.launch.line_ends import mend_lines
from doctor.launch.model import Assignment, Command, Layout, Word
from doctor.launch.shell_command import Source, read_shell
from doctor.launch.yaml_command import NoCommandError, looks_like_yaml, read_yaml

__all__ = ["Assignment", "Command", "Layout", "Word", "parse_command"]

# The longest command line that Linux accepts for one argument list by default is 2 MiB; a pasted one that is
# longer than this is a log or a script.
MAX_CHARACTERS = 262_144


def parse_command(text: str) -> Command:
    """Parse a launch command; nothing in it is executed or expanded.

    Raises DoctorError for text without a launch command, with an open quote, or of unreasonable length.
    """
    if len(text) > MAX_CHARACTERS:
        raise DoctorError(f"the launch command is longer than {MAX_CHARACTERS} characters")
    if not text.strip():
        raise DoctorError("the launch command is empty")
    cleaned, notes = clean_text(text)
    if looks_like_yaml(cleaned):
        try:
            return read_yaml(cleaned)._replace(notes=notes)
        except NoCommandError:
            if cut_command(cleaned) is None:
                raise
    try:
        command = read_shell(Source(cleaned, int, ()), cleaned)
    except DoctorError:
        cut = cut_command(cleaned)
        if cut is None or cut == cleaned:
            raise
        command, notes = read_shell(Source(cut, int, ()), cut), (*notes, excerpt.NOTE)
    mended = mend_lines(command)
    if mended != command.text:
        command, notes = read_shell(Source(mended, int, ()), mended), (*notes, line_ends.NOTE)
    return command._replace(notes=(*notes, *command.notes))
