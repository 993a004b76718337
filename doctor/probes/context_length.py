"""--context-length against what the model was trained for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from doctor.errors import DoctorError
from doctor.launch.edits import Edit
from doctor.memory import config as cfg
from doctor.probes.base.context import Context
from doctor.probes.base.result import Result, make_error, make_ok, make_unknown, make_void, make_warning

NAME = "context-length"
GROUP = "launch"
SUMMARY = "the context length is the model's or less"
NEEDS = ("paths",)
INSIDE = True

VARIABLE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def probe(context: Context) -> Iterator[Result]:
    """Compare as SGLang does (configs/model_config.py _derive_context_length, 0.5.23): longer needs a variable."""
    asked = context.value("context_length")
    if context.model is None or not isinstance(asked, int):
        yield make_void(NAME, "no --context-length to compare" if asked is None else "the model's config is not here")
        return
    try:
        config = cfg.make_config(cfg.read_json(Path(context.model) / "config.json"))
    except DoctorError as error:
        yield make_unknown(NAME, SUMMARY, error.message)
        return
    own = cfg.get_context_length(config)
    evidence = (f"--context-length {asked}; the model's own is {own}",)
    if asked <= own:
        yield make_ok(NAME, evidence[0])
        return
    if context.environment.get(VARIABLE, "").lower() in ("1", "true", "yes"):
        summary = f"{asked} tokens are more than the {own} the model knows; {VARIABLE} allows it"
        yield make_warning(NAME, summary, evidence, (f"--context-length {own}   # what it was trained for",))
        return
    edits = (Edit("flag", "--context-length", str(asked), str(own)),)
    fixes = (f"--context-length {own}", f"export {VARIABLE}=1   # if you know that the model can")
    yield make_error(
        NAME, f"--context-length {asked} is more than the model's {own}: SGLang refuses", evidence, fixes, edits
    )
