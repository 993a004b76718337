import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.errors import DoctorError
from doctor.memory import units


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("96GiB", 96 << 30),
        ("96 g", 96 << 30),
        ("1.5TB", 1_500_000_000_000),
        ("512m", 512 << 20),
        ("100", 100),
        ("64kb", 64_000),
    ],
)
def test_parse_size_of_common_spellings(text, size):
    assert units.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "12 parsecs", "-1GB", "1e999", "nan", "inf", "9" * 50, "1.2.3GB"])
def test_parse_size_of_nonsense_is_an_error(text):
    with pytest.raises(DoctorError, match="not a size"):
        units.parse_size(text)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_parse_size_of_any_text_returns_or_raises_doctor_error(text):
    with contextlib.suppress(DoctorError):
        assert units.parse_size(text) >= 0


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (2048, "2 KiB"),
        (5 << 20, "5 MiB"),
        (3 << 30, "3.00 GiB"),
        (143 << 30, "143 GiB"),
        (-(2 << 30), "-2.00 GiB"),
    ],
)
def test_format_size(size, text):
    assert units.format_size(size) == text


@pytest.mark.parametrize(
    ("count", "text"), [(4096, "4096"), (131_072, "131K"), (1_085_065, "1.09M"), (58_238_694, "58M")]
)
def test_format_count(count, text):
    assert units.format_count(count) == text


@settings(deadline=None)
@given(st.integers(0, 1 << 40), st.integers(1, 1 << 20))
def test_round_up_is_the_next_multiple(number, step):
    rounded = units.round_up(number, step)
    assert rounded % step == 0
    assert 0 <= rounded - number < step
