"""The one place where text from outside becomes text for a screen or an issue: secrets out, escapes harmless."""

from __future__ import annotations

import re

REDACTED = "<redacted>"

_SECRETS = re.compile(
    r"""
    (?:
        # api_key='…', "HF_TOKEN": "…", password: …
        (?P<name>
            (?: (?i:(?:api|access|secret)[_-]key|(?:access|auth|refresh|hf|hub)[_-]token|password|(?<!/)passwd|secret)
              | \b[A-Z][A-Z0-9_]{0,60}_(?:TOKEN|SECRET|PASSWORD) )
            ['"]?[ \t]{0,40}[=:][ \t]{0,40}
        )
        # --api-key …, also as the next item of a JSON or YAML list
        | (?P<flag>--(?:admin-)?api-key|--ssl-keyfile-password|--hf-token)(?P<gap>=|['"]?,?\s{1,40}(?:-\s{1,4})?)
        # a name and value pair of Kubernetes
        | (?P<pair>\b(?:HF_TOKEN|[A-Z][A-Z0-9_]{0,60}_(?:TOKEN|SECRET|PASSWORD|API_KEY))['"]?\s{1,40}value:\s{0,40})
        | (?P<scheme>(?i:\bbearer|authorization['"]?\s{0,4}[:=]\s{0,4}['"]?(?:basic|token))\s{1,4}(?=[\w.~+/-]{8}))
    )
    (?!(?i:none|null|true|false)\b|''|"")
    (?:'(?:\\.|[^'\\\n])+'?|"(?:\\.|[^"\\\n])+"?|[^\s,)'"}\]]+)
    | \b(?:hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|nvapi-[\w-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16})
    | (?P<url>\b[a-z][a-z0-9+]{1,20}://)[^\s/:@'"]{0,80}:[^\s/@'"]{1,200}(?P<at>@)
    """,
    re.VERBOSE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
LONGEST_LINE = 400
"""Characters of an evidence line that are shown; the rest is counted."""


def redact(text: str) -> str:
    """Replace keys, passwords and tokens by a mark."""
    return _SECRETS.sub(_mark, text)


def _mark(found: re.Match[str]) -> str:
    groups = found.groupdict(default="")
    kept = "".join(groups[name] for name in ("name", "flag", "gap", "pair", "scheme", "url"))
    return f"{kept}{REDACTED}{groups['at']}"


def clean(text: str) -> str:
    """Redact and make harmless: no control, escape or direction-changing characters; tabs and newlines stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", redact(text))


def flatten(text: str) -> str:
    """Clean and bring to one line."""
    return " ".join(clean(text).split())


def shorten(text: str, limit: int = LONGEST_LINE) -> str:
    """Cut a long line in the middle of nowhere and say how much is gone."""
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit} more characters)"
