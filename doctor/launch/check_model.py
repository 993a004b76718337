"""Check flags against the model that the command names, as far as its name tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from doctor.launch.edits import Edit
from doctor.launch.flags import Exact, FlagTable, Prefix
from doctor.launch.problem import Problem
from doctor.launch.uses import FlagUse
from doctor.launch.values import Values

# The beginning of a parser's name, and words one of which a model of that family has in its name. From the
# parser names of 0.5.23 (srt/function_call/parser_names.py, srt/parser/reasoning_parser_names.py).
FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "qwen": ("qwen", "qwq"),
        "deepseek": ("deepseek", "dpsk"),
        "kimi": ("kimi", "moonshot", "moonlight"),
        "glm": ("glm",),
        "gpt-oss": ("gpt-oss", "gpt_oss"),
        "llama3": ("llama",),
        "mistral": ("mistral", "mixtral", "magistral", "devstral", "codestral", "pixtral"),
        "minimax": ("minimax",),
        "step3": ("step",),
        "hunyuan": ("hunyuan", "hy-"),
        "interns1": ("intern",),
        "gemma": ("gemma",),
        "mimo": ("mimo",),
        "lfm": ("lfm",),
        "nemotron": ("nemotron",),
        "granite": ("granite",),
        "cohere": ("cohere", "command", "c4ai"),
        "apertus": ("apertus",),
    }
)
# R1's tags are those of QwQ, too, and of what was distilled from R1 under other names.
ALSO_FITS: Mapping[str, tuple[str, ...]] = MappingProxyType({"deepseek-r1": ("qwq", "r1")})
# `Qwen3-8B-Base`, `llama-3-base`: checkpoints before any chat training.
_BASE = re.compile(r"(?:^|[-_])base(?:$|[-_])", re.IGNORECASE)
PARSERS = ("tool_call_parser", "reasoning_parser")


def check_model(uses: Sequence[FlagUse], values: Values, table: FlagTable) -> Iterator[Problem]:
    """Yield the flags that do not fit the model's name."""
    model = values.given.get("model_path")
    if not isinstance(model, str):
        return
    name = model.rstrip("/").rpartition("/")[2]
    is_base = _BASE.search(name) is not None
    for use in uses:
        if use.dest in PARSERS and isinstance(use.found, Exact | Prefix) and use.values:
            if is_base:
                message = f"{name} is a base checkpoint: it never learned to write what {use.typed} reads"
                yield Problem("parser", "warning", use.typed, message, (Edit("flag", use.found.flag.name, None, None),))
            else:
                yield from check_family(use, model, table)


def check_family(use: FlagUse, model: str, table: FlagTable) -> Iterator[Problem]:
    """Yield a problem when parser and model are of different known families."""
    parser = use.values[0].value
    words = next((words for start, words in FAMILIES.items() if parser.startswith(start)), None)
    lowered = model.lower()
    others = [word for family in FAMILIES.values() for word in family if word in lowered]
    if words is None or not others or any(word in lowered for word in (*words, *ALSO_FITS.get(parser, ()))):
        return
    flag = table.find(use.typed)
    if flag is not None:
        automatic = "auto" if "auto" in flag.choices else None
        fix = Edit("flag", flag.name, parser, automatic)
        message = f"the parser {parser} is for {words[0]} models, and this one is called {model}"
        yield Problem("parser", "warning", use.typed, message, (fix,))
