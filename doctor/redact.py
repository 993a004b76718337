"""The one place where text from outside becomes text for a screen, a file or an issue: secrets out, escapes harmless."""

from __future__ import annotations

import re

REDACTED = "<redacted>"

_SECRETS = re.compile(
    r"""
    (?P<keep>(?:admin_api_key|api_key|ssl_keyfile_password|hf_token|password|passwd|secret|access_key)['"]?\s*[=:]\s*)
        (?!None\b|null\b|''|"")(?P<value>'[^']{1,200}'|"[^"]{1,200}"|[^\s,)'"}]{1,200})
    | (?P<flag>--(?:admin-)?api-key(?:=|\s+)|--ssl-keyfile-password(?:=|\s+))(?P<argument>'[^']*'|"[^"]*"|\S+)
    | (?P<env>\b(?:HF_TOKEN|HUGGING_FACE_HUB_TOKEN|HUGGINGFACE_HUB_TOKEN|OPENAI_API_KEY|WANDB_API_KEY|AWS_SECRET_ACCESS_KEY)=)(?P<token>\S+)
    | (?P<bearer>[Bb]earer\s+)[\w.~+/-]{8,}=*
    | \bhf_[A-Za-z0-9]{20,}
    | \bsk-[A-Za-z0-9_-]{20,}
    | (?P<url>\b[a-z]{2,8}://)[^\s/:@'"]{1,80}:[^\s/@'"]{1,200}@
    """,
    re.VERBOSE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")
LONGEST_LINE = 400
"""Characters of an evidence line that are shown; the rest is counted."""


def redact(text: str) -> str:
    """Replace keys, passwords and tokens by a mark."""
    return _SECRETS.sub(_mark, text)


def _mark(found: re.Match[str]) -> str:
    groups = found.groupdict()
    kept = next((groups[name] for name in ("keep", "flag", "env", "bearer", "url") if groups[name]), "")
    return f"{kept}{REDACTED}{'@' if groups['url'] else ''}"


def clean(text: str) -> str:
    """Redact and make harmless: no control, escape or direction-changing characters; tabs and newlines stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", redact(text))


def shorten(text: str, limit: int = LONGEST_LINE) -> str:
    """Cut a long line in the middle of nowhere and say how much is gone."""
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit} more characters)"
