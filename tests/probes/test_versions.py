"""Versions and requirements, against the rules of PEP 440 and PEP 508."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.probes.base.versions import applies, order_version, satisfies, split_requirement

LINUX = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.12"}
ARM = 'sys_platform == "linux" and (platform_machine == "aarch64" or platform_machine == "arm64")'


@pytest.mark.parametrize(
    ("version", "specifier", "good"),
    [
        ("2.11.0+cu130", "==2.11.0", True),
        ("2.11.1", "==2.11.0", False),
        ("2.11", "==2.11.0", True),
        ("0.0.9.post1", ">=0.0.9.post1", True),
        ("0.0.9", ">=0.0.9.post1", False),
        ("4.0.0b15", "==4.0.0b15", True),
        ("4.0.0b15", ">=4.0.0", False),
        ("0.14.2", "<0.15,>=0.14.1", True),
        ("0.15.0", "<0.15,>=0.14.1", False),
        ("1.4.5", "~=1.4.2", True),
        ("1.5.0", "~=1.4.2", False),
        ("0.9.3", "==0.9.*", True),
        ("0.10.0", "==0.9.*", False),
        ("1.0", "", True),
        ("1.0.dev3", "<1.0", True),
    ],
)
def test_satisfies(version, specifier, good):
    assert satisfies(version, specifier) is good


def test_requirement_with_extras_and_marker():
    found = split_requirement('flashinfer_python[cu13]==0.6.12; extra == "all"')
    assert found == ("flashinfer-python", "[cu13]", "==0.6.12", 'extra == "all"')


def test_requirement_that_is_no_requirement():
    assert split_requirement("!!!")[0] == ""


@pytest.mark.parametrize(
    ("marker", "good"),
    [
        ("", True),
        ('extra == "all"', False),
        (ARM, False),
        ('sys_platform != "linux" or (sys_platform == "linux" and platform_machine != "aarch64")', True),
        ('python_version >= "3.11"', True),
        ('python_version < "3.9"', False),
        ('platform_machine in "x86_64 AMD64"', True),
    ],
)
def test_marker(marker, good):
    assert applies(marker, LINUX) is good


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_judged_without_an_error(version, text):
    order_version(version)
    assert satisfies(version, text) in (True, False)
    assert applies(text, LINUX) in (True, False)
    assert len(split_requirement(text)) == 4


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_releases_are_ordered_like_their_numbers(first, second):
    width = 4
    pad = lambda parts: parts + [0] * (width - len(parts))  # noqa: E731
    texts = [".".join(map(str, parts)) for parts in (first, second)]
    assert (order_version(texts[0]) < order_version(texts[1])) is (pad(first) < pad(second))
