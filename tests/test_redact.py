"""Secrets out, escapes harmless: whatever the report shows went through here."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from doctor.redact import LONGEST_LINE, REDACTED, clean, flatten, redact, shorten

SECRET = "geheim-8f31"  # noqa: S105 - made up
FORMS = [
    "api_key='{}'",
    'api_key="{}"',
    "api_key={}, port=1",
    "admin_api_key='{}', x=1",
    "{{'api_key': '{}', 'port': 1}}",
    '{{"admin_api_key": "{}"}}',
    "ssl_keyfile_password='{}'",
    "--api-key {}",
    "--api-key={}",
    "--api-key '{}'",
    "--admin-api-key {} --port 1",
    "--ssl-keyfile-password {}",
    '["--api-key", "{}", "--port"]',
    "- --api-key\n      - {}\n      - --tp",
    "HF_TOKEN={}",
    "export HUGGING_FACE_HUB_TOKEN={}",
    "-e HF_TOKEN={} image",
    "HF_TOKEN: {}",
    '"HF_TOKEN": "{}"',
    "- name: HF_TOKEN\n  value: {}",
    "OPENAI_API_KEY={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "MY_SERVICE_PASSWORD={}",
    "password: {}",
    "password={}",
    "Authorization: Bearer {}",
    "authorization: bearer {}",
    "'Authorization': 'Basic {}'",
    "X-API-Key: {}",
    "https://user:{}@host/path",
    "redis://:{}@host:6379",
    "?access_token={}",
    "auth_token={}",
    "api_key='{}",
]


@pytest.mark.parametrize("form", FORMS)
def test_secret_is_replaced_and_its_name_stays(form: str) -> None:
    text = redact(form.format(SECRET))
    assert SECRET not in text
    assert REDACTED in text
    assert text[:4] == form.format(SECRET)[:4]


@pytest.mark.parametrize("form", FORMS)
def test_redacting_twice_changes_nothing(form: str) -> None:
    once = redact(form.format(SECRET))
    assert redact(once) == once


@pytest.mark.parametrize(
    "secret",
    [
        "hf_" + "a1B2" * 8,
        "sk-" + "abcDEF12" * 4,
        "nvapi-" + "x_Y-9" * 6,
        "ghp_" + "a1B2c3D4" * 5,
        "AKIA" + "A1B2C3D4E5F6G7H8",
    ],
)
def test_token_of_a_known_form_is_replaced_wherever_it_stands(secret: str) -> None:
    assert redact(f"pulling with {secret} now") == f"pulling with {REDACTED} now"


@pytest.mark.parametrize("length", [1, 200, 201, 5000])
def test_secret_of_any_length(length: int) -> None:
    assert redact(f"api_key='{'x' * length}', port=1") == f"api_key={REDACTED}, port=1"
    assert redact(f"--api-key {'x' * length} --port 1") == f"--api-key {REDACTED} --port 1"


def test_quote_inside_a_secret() -> None:
    assert redact("api_key='it\\'s', port=1") == f"api_key={REDACTED}, port=1"


@pytest.mark.parametrize(
    "text",
    [
        "api_key=None, admin_api_key=None, port=1",
        "'api_key': None",
        '"api_key": null',
        "api_key='', x=1",
        "max_total_num_tokens=58238694, eos_token='</s>', #token: 40, token usage: 0.00",
        "gen throughput (token/s): 5.33",
        "the secret is out",
        "a password is required",
        "password:\n[2026-04-24 06:29:19] next",
        "is_secret=False",
        "Bearer token missing",
        "https://github.com/sgl-project/sglang/issues/1@x",
        "dist_init_addr='10.0.0.1:5000', user@host",
        "--api-key-file",
        "hf_transformers_utils.py:193",
        "sk-learn is not installed",
        "AKIA",
    ],
)
def test_redact_near_miss(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "character",
    [
        "\x00",
        "\x07",
        "\x08",
        "\x0b",
        "\r",
        "\x1b",
        "\x7f",
        "\x85",
        "\x9b",
        "\u061c",
        "\u200e",
        "\u200f",
        "\u2028",
        "\u2029",
        "\u202a",
        "\u202e",
        "\u2066",
        "\u2069",
        "\ufeff",
    ],
)
def test_control_and_direction_characters_are_made_visible(character: str) -> None:
    assert clean(f"a{character}b") == "a\ufffdb"


def test_tabs_newlines_and_every_script_stay() -> None:
    text = "\tعربي 显存不足 Ошибка ✓\n"
    assert clean(text) == text


def test_name_of_the_password_file_is_no_secret() -> None:
    assert redact("/etc/passwd: no interpreter") == "/etc/passwd: no interpreter"


def test_flatten_gives_one_line() -> None:
    assert flatten(" a\n\tb\x1b[2J\n") == "a b\ufffd[2J"


def test_shorten_counts_what_is_gone() -> None:
    assert shorten("x" * LONGEST_LINE) == "x" * LONGEST_LINE
    assert shorten("x" * (LONGEST_LINE + 7)) == "x" * LONGEST_LINE + " … (7 more characters)"


@given(st.text(max_size=300))
def test_any_text_comes_out_harmless(text: str) -> None:
    shown = clean(text)
    assert clean(shown) == shown
    assert not any(ord(character) < 32 and character not in "\t\n" for character in shown)


@given(st.text(alphabet="abcXYZ019_-./", min_size=8, max_size=60), st.text(max_size=40))
def test_key_of_the_dump_never_shows(secret: str, around: str) -> None:
    marked = f"QQ{secret}QQ"
    assert marked not in redact(f"{around} ServerArgs(api_key={marked!r}, port=1) {around}")


@pytest.mark.parametrize(
    "text",
    [
        "A" * 100_000,
        "a+" * 50_000,
        "api_key='" * 20_000,
        "api_key='" + "\\" * 100_000,
        "--api-key" + " " * 100_000,
        "HF_TOKEN " * 10_000,
        "authorization:" * 10_000,
        "A_TOKEN_" * 10_000,
        "://" * 50_000,
    ],
)
def test_hostile_text_ends_in_time(text: str) -> None:
    assert redact(text)
