import pytest

from doctor.logs.events import http
from tests.logs.events.helpers import parse


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '[2026-04-24 06:29:19] INFO:     127.0.0.1:52000 - "GET /health HTTP/1.1" 503 Service Unavailable',
            ("GET", "/health", 503),
        ),
        (
            'INFO:     10.0.0.1:9 - "POST /v1/chat/completions?key=secret HTTP/1.1" 500 Internal Server Error',
            ("POST", "/v1/chat/completions", 500),
        ),
        (
            '[2026-04-24 06:29:19] INFO:     [::1]:9 - "GET /x HTTP/2" 404 Not Found'.replace("HTTP/2", "HTTP/1.0"),
            ("GET", "/x", 404),
        ),
    ],
)
def test_status_that_is_not_200(line: str, expected: tuple) -> None:
    (event,) = parse(http, line)
    assert (event.method, event.path, event.status) == expected


@pytest.mark.parametrize(
    "line",
    [
        'INFO:     127.0.0.1:52000 - "GET /health HTTP/1.1" 200 OK',
        'a log of "GET /x HTTP/1.1" 500',
        'INFO: 1.1.1.1:1 - "GET ' + "/x" * 500 + ' HTTP/1.1" 500',
    ],
)
def test_http_near_miss(line: str) -> None:
    assert parse(http, line) == []
