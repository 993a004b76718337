"""Read a model's answer from what people save: a response body, a stream, curl's output, the bare text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from doctor.errors import DoctorError

MAX_RESPONSE = 4 << 20
"""Bytes read of a saved response: a 128k-token answer is about 0.6 MB of text and 2 MB of escaped JSON."""

_SAVE_HINT = "save the whole body (at most 4 MB), for example: curl -s ... -o response.json"
_LOG_HINT = "the cause is in the server's log: doctor explain LOG"
_RESPONSE_MARKS = ('"choices"', '"meta_info"', '"chat.completion')
_STREAM_STARTS = ("data:", "event:", "id:", ":")
_BODY_STARTS = ("{", "[", '"', *_STREAM_STARTS[:3])
_CURL_MARKS = ("\n< HTTP/", "% Received % Xferd")
_FAILED = re.compile(r"HTTP/\S{1,8} [45]\d\d")
_MAX_HEADS = 8
"""Header blocks before a body: one for each redirect and each interim answer."""

_MAX_OBJECTS = 10_000
_BETWEEN = " \t\r\n,"
_SHORT_BLANK = 64
"""A file of fewer blanks is a failed save, in characters; a longer one is an answer of blanks."""


class Response(NamedTuple):
    """The answers in one saved response; the three tuples have one entry for each choice.

    A text joins reasoning, content, and the names and arguments of tool calls. `completion_tokens` leaves
    out reasoning that was counted but not shown.
    `source` is "chat", "completion", "generate", "stream" or "text".
    """

    texts: tuple[str, ...]
    finish_reasons: tuple[str | None, ...]
    completion_tokens: tuple[int | None, ...]
    model: str | None
    source: str


class _Piece(NamedTuple):
    """What one JSON object says of one choice."""

    choice: int
    text: str
    finish: str | None


class _Reply(NamedTuple):
    """One JSON object from the server: its pieces, the tokens of all its choices, its model and kind."""

    pieces: list[_Piece]
    tokens: int | None
    model: str | None
    source: str
    cumulative: bool = False


class ErrorAnswerError(DoctorError):
    """The server answered with an error; `text` is its message ("" for none), which rules may know."""

    def __init__(self, text: str) -> None:
        super().__init__(f"the server answered with an error: {text[:300] or 'it gives no message'}", _LOG_HINT)
        self.text = text


def read_response(data: bytes) -> Response:
    """Find the answers in a saved response; only the first 4 MB (`MAX_RESPONSE`) are read.

    Takes OpenAI chat and text completions, SGLang's /generate, server-sent events of these, several JSON
    objects in a row, a JSON string, curl's output with headers, and plain text. Raises DoctorError for an
    empty or binary file, broken JSON, and an error message of the server.
    """
    text = _decode_text(data[:MAX_RESPONSE], cut=len(data) > MAX_RESPONSE)
    text = _drop_headers(text)
    body = text.strip("\ufeff \t\r\n")
    if not body:
        if len(text) < _SHORT_BLANK:
            raise DoctorError("the response file is empty", _SAVE_HINT)
        return _wrap_text(text)
    if body.startswith(_STREAM_STARTS):
        replies = list(_read_stream(body))
        return _join_stream(replies) if replies else _wrap_text(text)
    return _read_json(body) or _wrap_text(text)


def _wrap_text(text: str) -> Response:
    return Response((_mend_text(text),), (None,), (None,), None, "text")


def _mend_text(text: str) -> str:
    """Replace lone surrogates, which JSON can spell but no terminal or file can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _decode_text(data: bytes, *, cut: bool) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    try:
        return data[: _find_whole_end(data) if cut else None].decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    if data.startswith(b"\x1f\x8b"):
        raise DoctorError("the response file is gzip-compressed", "decompress it, or use: curl --compressed")
    if b"\0" in data:
        raise DoctorError("the response file is binary, not text or JSON", _SAVE_HINT)
    return data.decode("cp1252", "replace")


def _find_whole_end(data: bytes) -> int:
    """Return where the last whole UTF-8 character ends: the cut may have split one of up to four bytes."""
    end = len(data)
    for back in range(1, min(4, end) + 1):
        if data[end - back] & 0xC0 != 0x80:
            return end if data[end - back] < 0x80 else end - back
    return end


def _drop_headers(text: str) -> str:
    """Drop what `curl -i` and `curl -v` print before the body."""
    if any(mark in text[:8192] for mark in _CURL_MARKS):
        return _drop_curl_chatter(text)
    status = ""
    for _ in range(_MAX_HEADS):
        if text.startswith("HTTP/"):
            head, _, text = text.replace("\r\n", "\n").partition("\n\n")
            status = head.partition("\n")[0][:80]
    if status and not text.strip():
        raise DoctorError(f"the server sent no body: {status}", _LOG_HINT)
    if _FAILED.match(status):
        raise DoctorError(f"the server refused the request: {status}: {text.strip()[:300]}", _LOG_HINT)
    return text


def _drop_curl_chatter(text: str) -> str:
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(_BODY_STARTS) and not line.startswith("{ ["):
            return "\n".join(lines[number:])
    raise DoctorError("the response file holds curl's messages but no body", _SAVE_HINT)


def _read_stream(body: str) -> Iterator[_Reply]:
    """Yield the replies in the `data:` lines; a broken last line is a stream that was interrupted."""
    # NOTE: str.splitlines would also split at U+2028 and U+0085, which JSON leaves unescaped inside strings.
    lines = [line[5:].strip() for line in body.split("\n") if line.startswith("data:")]
    for number, line in enumerate(lines, 1):
        if not line.startswith("{"):
            continue
        found, problem = _parse_objects(line)
        if problem and number < len(lines):
            raise DoctorError(f"event {number} of the stream is broken: {problem}", _SAVE_HINT)
        for value in found:
            reply = _read_object(value)
            if reply:
                yield reply


def _join_stream(replies: list[_Reply]) -> Response:
    texts: dict[int, list[str]] = {}
    finishes: dict[int, str | None] = {}
    for reply in replies:
        for piece in reply.pieces:
            parts = texts.setdefault(piece.choice, [])
            # NOTE: /generate streams the whole text so far, unless the server is told to stream increments.
            if reply.cumulative and parts and piece.text.startswith(parts[-1]):
                parts.pop()
            parts.append(piece.text)
            finishes[piece.choice] = piece.finish or finishes.get(piece.choice)
    if not texts:
        raise DoctorError("the stream holds no answer", "save it from its first line to [DONE]")
    order = sorted(texts)
    tokens = max((reply.tokens for reply in replies if reply.tokens is not None), default=None)
    return Response(
        tuple(_mend_text("".join(texts[index])) for index in order),
        tuple(finishes[index] for index in order),
        (_share_tokens(tokens, len(order)),) * len(order),
        next((reply.model for reply in replies if reply.model), None),
        "stream",
    )


def _share_tokens(tokens: int | None, choices: int) -> int | None:
    """Divide a count of all choices evenly: SGLang counts no tokens for a single choice."""
    return None if tokens is None else tokens // max(choices, 1)


def _read_json(body: str) -> Response | None:
    """Read JSON from the server; None when the text is not that, but perhaps JSON that the model wrote."""
    found, problem = _parse_objects(body)
    if len(found) == 1 and isinstance(found[0], str):
        return _wrap_text(found[0])
    objects = [value for entry in found for value in (entry if isinstance(entry, list) else [entry])]
    replies = [reply for reply in map(_read_object, objects) if reply]
    if replies:
        return _join_stream(replies) if _is_chunk(objects[0]) else _join_replies(replies)
    if problem and body.startswith(("{", "[")) and any(mark in body for mark in _RESPONSE_MARKS):
        raise DoctorError(f"the response is not valid JSON: {problem}", _SAVE_HINT)
    return None


def _is_chunk(value: Any) -> bool:
    return isinstance(value, dict) and value.get("object") == "chat.completion.chunk"


def _join_replies(replies: list[_Reply]) -> Response:
    shares = [_share_tokens(reply.tokens, len(reply.pieces)) for reply in replies]
    pieces = [(piece, share) for reply, share in zip(replies, shares, strict=True) for piece in reply.pieces]
    if not pieces:
        raise DoctorError('the response has no answer: "choices" is empty', _SAVE_HINT)
    return Response(
        tuple(_mend_text(piece.text) for piece, _ in pieces),
        tuple(piece.finish for piece, _ in pieces),
        tuple(share for _, share in pieces),
        next((reply.model for reply in replies if reply.model), None),
        replies[0].source,
    )


def _parse_objects(text: str) -> tuple[list[Any], str | None]:
    """Parse JSON values one after another; return them and what stopped the parser before the end."""
    import json

    decoder = json.JSONDecoder(strict=False)
    found: list[Any] = []
    position = 0
    while position < len(text) and len(found) < _MAX_OBJECTS:
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            return found, f"{error.msg}: line {error.lineno} column {error.colno}"
        except (ValueError, RecursionError) as error:
            return found, f"{type(error).__name__}: {str(error)[:80]}"
        found.append(value)
        if not isinstance(value, dict | list):
            return found, "a bare value among objects" if len(found) > 1 else None
        while position < len(text) and text[position] in _BETWEEN:
            position += 1
    return found, None


def _read_object(value: Any) -> _Reply | None:
    """Read one JSON object as a reply of the server; None for anything else, as a model's own JSON."""
    if not isinstance(value, dict):
        return None
    _refuse_error(value)
    if isinstance(value.get("choices"), list):
        return _read_openai(value)
    if isinstance(value.get("meta_info"), dict):
        return _read_generate(value)
    if value.get("role") == "assistant" and "content" in value:
        return _Reply([_Piece(0, _join_message(value), None)], None, None, "chat")
    return None


def _refuse_error(value: dict[str, Any]) -> None:
    """Raise when the object is an error: SGLang's own, OpenAI's nested one, or FastAPI's `detail`."""
    error = value.get("error")
    holder = value if value.get("object") == "error" else error
    if isinstance(holder, dict) or list(value) == ["detail"]:
        message = holder.get("message") if isinstance(holder, dict) else value["detail"]
        raise ErrorAnswerError(message if isinstance(message, str) else "")


def _read_openai(value: dict[str, Any]) -> _Reply:
    choices = [choice for choice in value["choices"] if isinstance(choice, dict)]
    pieces = [_read_choice(choice, position) for position, choice in enumerate(choices)]
    chat = str(value.get("object", "")).startswith("chat.") or any("message" in choice for choice in choices)
    source = "chat" if chat else "completion"
    return _Reply(pieces, _count_tokens(value.get("usage"), choices), _find_text(value.get("model")), source)


def _read_choice(choice: dict[str, Any], position: int) -> _Piece:
    message = choice.get("message") or choice.get("delta")
    text = _join_message(message) if isinstance(message, dict) else _join_text(choice.get("text"))
    number = choice.get("index")
    finish = _read_finish(choice.get("finish_reason"))
    return _Piece(number if isinstance(number, int) else position, text, finish)


def _join_message(message: dict[str, Any]) -> str:
    reasoning = _join_text(message.get("reasoning_content") or message.get("reasoning"))
    parts = [reasoning, _join_text(message.get("content")), *_list_calls(message.get("tool_calls"))]
    return "".join(parts) if len(list(filter(None, parts))) < 2 else "\n".join(filter(None, parts))


def _list_calls(calls: Any) -> Iterator[str]:
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield _join_text(function.get("name")) + _join_text(function.get("arguments"))


def _join_text(value: Any) -> str:
    """Return a content as text: a string, or a list of parts that hold `text`; anything else holds none."""
    parts = [part.get("text") for part in value if isinstance(part, dict)] if isinstance(value, list) else [value]
    return "".join(part for part in parts if isinstance(part, str))


def _find_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _read_finish(value: Any) -> str | None:
    """Return the reason as a word: /generate wraps it as `{"type": "length", "length": 8}`."""
    return _find_text(value.get("type") if isinstance(value, dict) else value)


def _count_tokens(usage: Any, choices: Iterable[dict[str, Any]]) -> int | None:
    """Count the completion tokens that are shown: reasoning is subtracted when no choice shows it."""
    total = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if not isinstance(total, int):
        return None
    hidden = usage.get("reasoning_tokens")
    messages = (choice.get("message") or choice.get("delta") for choice in choices)
    shown = any(isinstance(message, dict) and message.get("reasoning_content") for message in messages)
    return total if shown or not isinstance(hidden, int) else max(total - hidden, 0)


def _read_generate(value: dict[str, Any]) -> _Reply:
    """Read a reply of /generate, where a list of prompts gives a list of these objects."""
    meta = value["meta_info"]
    tokens = meta.get("completion_tokens")
    number = value.get("index") if isinstance(value.get("index"), int) else 0
    piece = _Piece(number or 0, _join_text(value.get("text")), _read_finish(meta.get("finish_reason")))
    return _Reply([piece], tokens if isinstance(tokens, int) else None, None, "generate", cumulative=True)
