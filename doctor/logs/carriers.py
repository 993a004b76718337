"""Take off what carried a log line here: containers, journals, quotes, exports as JSON, web pages, terminals."""

from __future__ import annotations

import re

from doctor.logs.prefixes import Prefixes, unescape

_QUOTE = re.compile(rb"(?:> ?)+")
_CONTAINER = re.compile(
    rb"""
    (?P<compose>(?:[\w.-]{0,100}\d\s+|[\w.-]{1,100}\s{2,})\|(?:\s|$))         # docker compose logs, padded names
    | \[(?P<pod>pod/[^\]\s]+)\]\s                                            # kubectl logs --prefix
    | (?P<journal>(?:[A-Z][a-z]{2}\s[\s\d]\d\s\d\d:\d\d:\d\d|20\d\d-\d\d-\d\dT[\d:.+-]+)
        \s[\w.-]+\s[\w./@:-]+?(?:\[\d+\])?:\s)
    | (?P<k8s>20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:?\d\d)\s(?:std(?:out|err)\s[FP]\s)?)   # CRI, docker -t
    | \[(?P<torch>rank\d+)\]:\s?(?!\[[WEIF])                                 # torchrun, excepthook of torch.distributed
    | \((?P<ray>(?:[\w:]+\s)?pid=\d+(?:,\sip=[\d.]+)?)\)\s?                  # Ray
    """,
    re.VERBOSE,
)
_PAINT = re.compile(
    rb"(?:\^\[|\\x1[bB]|\\u001[bB]|\\033|\\e|#033|\xe2\x90\x9b|\xef\xbf\xbd)?\[(?:\d{1,3}(?:;\d{1,3}){0,5})?m"
)
"""Colours whose escape character was lost or written out: by `cat -v`, an editor, syslog, a web page."""

_ENTITIES = {b"quot": b'"', b"lt": b"<", b"gt": b">", b"amp": b"&", b"apos": b"'", b"nbsp": b" "}
_ENTITY = re.compile(rb"&(quot|lt|gt|amp|apos|nbsp|#[xX]0{0,4}(?:2[267]|3[CEce])|#0{0,4}(?:3[489]|60|62));")
_QUOTES = ((b"\xe2\x80\x9c", b'"'), (b"\xe2\x80\x9d", b'"'), (b"\xe2\x80\x98", b"'"), (b"\xe2\x80\x99", b"'"))
_BREAKS = (b"<br>", b"<br/>", b"<br />", b"</pre>", b"</code>")

_JSON = re.compile(
    rb'"(log|message|msg|MESSAGE|Message|@message|textPayload|line)"\s{0,4}:\s{0,4}"'
    rb"(?=\[20\d\d-|Traceback \(most|  File |INFO:  |server_args=|Init torch dist|Load weight |usage: )"
)
"""A field of a JSON record that begins like a log line: docker, journald, Loki, CloudWatch, Datadog, GCP, fluentd."""

_OF_JSON = (b"{", b"}", b"[", b"]", b'"')
_OTHER_FIELDS = re.compile(rb'"[\w@]{1,40}": .{0,500}|[\[\]{},]{1,4}')

_SOURCE = re.compile(rb'"(?:pod_name|pod|container_name|_HOSTNAME|hostname|host)"\s{0,4}:\s{0,4}"([\w./-]{1,80})"')


class Carriers:
    """What carried one file here, learned as it is read."""

    def __init__(self) -> None:
        self._prefixes = Prefixes()
        self._field: re.Pattern[bytes] | None = None
        self._painted = False

    @property
    def used(self) -> bool:
        """True once no line may be taken as it stands."""
        return bool(self._prefixes.learned) or self._painted or self._field is not None

    def strip(self, number: int, line: bytes) -> tuple[str, list[bytes]]:
        """Give the process that wrote a line and the line as it was written: several when it held newlines."""
        if self._painted or b"[0m" in line:
            self._painted = True
            line = _PAINT.sub(b"", line)
        if b"\xe2\x80" in line:
            line = _straighten_quotes(line)
        if line[-1:] == b">":
            line = _strip_breaks(line)
        if b"&" in line:
            line = unescape_entities(line)
        bare = line.lstrip() if line[:1] in (b" ", b"\t") else line
        if bare[:1] in _OF_JSON and (text := self._read_field(bare)) is not None:
            source = _SOURCE.search(bare)
            return source[1].decode() if source else "", _split(text) if text else []
        outer, line = strip_container(line)
        inner, line = self._prefixes.strip(number, line)
        if b"\\n" in line and _is_escaped(line):
            line = unescape(line)
        return f"{outer} {inner}" if outer and inner else outer or inner, _split(line) if b"\n" in line else [line]

    def _read_field(self, line: bytes) -> bytes | None:
        """Read the text of a JSON record, empty for a line of its other fields; None for what is no such record."""
        if self._field is None:
            found = _JSON.search(line)
            if found is None:
                return None
            self._field = re.compile(rb'"%s"\s{0,4}:\s{0,4}"' % re.escape(found[1]))
        field = self._field.search(line)
        if field is None:
            return b"" if _OTHER_FIELDS.fullmatch(line) else None
        return unescape(line[field.end() : _find_quote(line, field.end())])


def _straighten_quotes(line: bytes) -> bytes:
    """Undo what a chat or a word processor makes of quotes."""
    for curved, straight in _QUOTES:
        line = line.replace(curved, straight)
    return line


def _strip_breaks(line: bytes) -> bytes:
    for tag in _BREAKS:
        line = line.removesuffix(tag)
    return line


def _split(text: bytes) -> list[bytes]:
    return text.rstrip(b"\n").split(b"\n")


def _find_quote(line: bytes, at: int) -> int:
    """Find the quote that ends a JSON text; the end of the line when it was cut."""
    while (end := line.find(b'"', at)) >= 0:
        begin = end
        while begin > at and line[begin - 1 : begin] == b"\\":
            begin -= 1
        if (end - begin) % 2 == 0:
            return end
        at = end + 1
    return len(line)


def _is_escaped(line: bytes) -> bool:
    """True for a log that was copied as one text with its newlines written out."""
    return b"\\n[20" in line or (line.startswith(b"Traceback (most") and b"\\n" in line)


def unescape_entities(line: bytes) -> bytes:
    """Undo what a web page needs to show a text: `&quot;File&quot;`."""
    return _ENTITY.sub(_unescape_entity, line)


def _unescape_entity(found: re.Match[bytes]) -> bytes:
    name = found[1]
    if name[:1] != b"#":
        return _ENTITIES[name]
    digits = name[1:].lower()
    return bytes([int(digits.lstrip(b"x"), 16 if digits[:1] == b"x" else 10)])


def strip_container(line: bytes) -> tuple[str, bytes]:
    """Split what docker, kubectl, journald, Ray or a Markdown quote put before the line: (process, line)."""
    if line[:1] == b">":
        line = line[_QUOTE.match(line).end() :]  # type: ignore[union-attr]
    process = ""
    for _ in range(3):
        if line[:1] == b"[" and not line.startswith((b"[pod/", b"[rank")):
            break
        found = _CONTAINER.match(line)
        if found is None:
            break
        name = found[found.lastgroup or 0]
        if found.lastgroup in ("compose", "pod", "ray", "torch"):
            process = name.decode("utf-8", "replace").strip(" |")
        line = line[found.end() :]
    return process, line
