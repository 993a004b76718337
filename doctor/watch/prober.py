"""Ask the server over HTTP, one question at a time, in a thread: health, identity, and a real completion."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from doctor.errors import DoctorError
from doctor.watch.launch import Address
from doctor.watch.model import Answer, Readiness
from doctor.watch.sockets import find_listeners, owns_socket

HEALTH_SECONDS = 25.0
"""SGLang answers 503 by itself after 20 s (SGLANG_HEALTH_CHECK_TIMEOUT, 0.4.10 to 0.5.23)."""

COMPLETION_SECONDS = 120.0
"""The first request after the warm-up may still compile kernels."""

_MOST_BYTES = 1 << 20
_PROMPT = "The capital of France is"
_TOKENS = 48


class Target(NamedTuple):
    """The server to ask: where, which processes it has, and the model it should serve ("" when not known)."""

    address: Address
    pids: tuple[int, ...]
    model: str


def fetch(address: Address, method: str, path: str, seconds: float, body: bytes | None = None) -> Answer:
    """Send one request without any proxy; never raises, reads at most 1 MiB, ends after `seconds` a read."""
    import http.client
    import ssl

    begin = time.monotonic()
    headers = {"Content-Type": "application/json", "User-Agent": "sglang-doctor", "Connection": "close"}
    if address.key:
        headers["Authorization"] = f"Bearer {address.key}"
    try:
        if address.secure:
            # the certificate names the public host, and this is a question to our own child
            context = ssl._create_unverified_context()  # noqa: SLF001, S323
            link: http.client.HTTPConnection = http.client.HTTPSConnection(
                address.host, address.port, timeout=seconds, context=context
            )
        else:
            link = http.client.HTTPConnection(address.host, address.port, timeout=seconds)
        try:
            link.request(method, path, body, headers)
            reply = link.getresponse()
            data = reply.read(_MOST_BYTES)
            return Answer(path, reply.status, time.monotonic() - begin, time.monotonic(), data)
        finally:
            link.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        return Answer(path, 0, time.monotonic() - begin, time.monotonic(), b"", reason[:200])


def check_readiness(target: Target, fetch: Callable[..., Answer] = fetch) -> Readiness:
    """Find out whether this very server completes a text."""
    begin = time.monotonic()
    listeners = find_listeners(target.address.port)
    if listeners and not owns_socket(target.pids, listeners):
        words = f"port {target.address.port} belongs to another program"
        return Readiness("failed", begin, "foreign-server", words)
    info = fetch(target.address, "GET", "/model_info", 10.0)
    if info.status == 404:
        info = fetch(target.address, "GET", "/get_model_info", 10.0)  # until 0.5.5
    facts = _read_object(info.body) if info.status == 200 else {}
    served = facts.get("model_path")
    if target.model and isinstance(served, str) and served != target.model:
        words = f"port {target.address.port} serves {served}, not {target.model}"
        return Readiness("failed", begin, "foreign-server", words)
    if facts.get("is_generation") is False:
        return Readiness("passed", begin, "", "fired up; the model does not generate text, so none was asked for")
    return _check_completion(target, begin, fetch)


def _check_completion(target: Target, begin: float, fetch: Callable[..., Answer]) -> Readiness:
    body = {"text": _PROMPT, "sampling_params": {"max_new_tokens": _TOKENS, "temperature": 0}}
    answer = fetch(target.address, "POST", "/generate", COMPLETION_SECONDS, json.dumps(body).encode())
    if answer.status in (401, 403):
        return Readiness(
            "passed", begin, "unasked", "fired up; no completion was asked for, since the key is not known"
        )
    if answer.status == 404:
        return Readiness("passed", begin, "unasked", "fired up; this server has no /generate")
    if answer.status != 200:
        what = f"HTTP {answer.status}" if answer.status else answer.reason
        return Readiness(
            "failed", begin, "no-completion", f"the first completion failed after {answer.seconds:.0f} s: {what}"
        )
    words = f"fired up, and the first completion came after {answer.seconds:.1f} s"
    return Readiness("passed", begin, "", words, judge_answer(answer.body))


def judge_answer(body: bytes) -> str:
    """Say what looks wrong in a completion, "" when nothing does."""
    from doctor.logs.degenerate import judge_response
    from doctor.logs.response import read_response

    try:
        verdict = judge_response(read_response(body))
    except DoctorError as error:
        return f"the first completion cannot be read: {error.message}"
    if not verdict.degenerate:
        return ""
    return f"the first completion looks degenerate ({verdict.kinds[0]}): {verdict.explanation}"


def _read_object(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Prober:
    """Runs one question at a time in a thread of its own; the answer goes to `post`, not into this thread's caller."""

    def __init__(self, post: Callable[[Answer | Readiness], None]) -> None:
        self._post = post
        self._thread: threading.Thread | None = None

    def ask(self, kind: str, target: Target) -> bool:
        """Begin; False while the last one is under way."""
        if self._thread is not None and self._thread.is_alive():
            return False
        self._thread = threading.Thread(target=self._run, args=(kind, target), name="prober", daemon=True)
        self._thread.start()
        return True

    def forget(self) -> None:
        """Let an answer that is still to come go nowhere: it is about a server that is gone."""
        self._thread = None

    def _run(self, kind: str, target: Target) -> None:
        if kind == "ready":
            result: Answer | Readiness = check_readiness(target)
        else:
            result = fetch(target.address, "GET", "/health", HEALTH_SECONDS)
        if self._thread is threading.current_thread():
            self._post(result)
