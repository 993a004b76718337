"""Ranges of versions in rules, and versions recognised by their flags."""

import pytest

from doctor.diagnosis.versions import is_within, recognise_version
from doctor.launch.flags import TABLES, known_versions, load_table


@pytest.mark.parametrize(
    ("version", "applies", "expected"),
    [
        ("0.5.4", ">=0.5.4", True),
        ("0.5.4", ">0.5.4", False),
        ("0.5.4.post1", ">0.5.4", True),
        ("0.5.3", ">=0.5.4,<0.5.19", False),
        ("0.5.18", ">=0.5.4,<0.5.19", True),
        ("0.5.19", ">=0.5.4,<0.5.19", False),
        ("0.5.10rc0", "<0.5.10", True),
        ("0.5.10rc0", ">=0.5.10", False),
        ("0.5.15.post1", "==0.5.15.post1", True),
        ("0.5.15", "==0.5.15.post1", False),
        ("0.5.9", "<0.5.10", True),
        ("0.5.9", "<=0.5.9", True),
        ("v0.5.9", " >= 0.5.2 , < 1 ", True),
        ("0.5.9", "", True),
        (None, ">=9", True),
        ("nightly", ">=9", True),
        ("0.5.9.dev3+g123", ">=0.5.9", True),
    ],
)
def test_is_within(version: str | None, applies: str, expected: bool) -> None:
    assert is_within(version, applies) is expected


@pytest.mark.parametrize("applies", ["banana", "0.5.4", "~=0.5", ">=", ">=x", ">=0.5.4 <0.6"])
def test_range_that_is_none(applies: str) -> None:
    with pytest.raises(ValueError, match="not a version range"):
        is_within("0.5.9", applies)


def list_dests(version: str) -> set[str]:
    return {flag.dest for flag in load_table(version).flags}


@pytest.mark.parametrize("version", known_versions())
def test_whole_dump_is_recognised_or_one_with_the_same_flags(version: str) -> None:
    recognised = recognise_version(list_dests(version))
    assert recognised is not None
    assert list_dests(recognised) == list_dests(version)


@pytest.mark.parametrize("version", ["0.5.2", "0.5.15.post1", "0.5.23"])
def test_dump_with_a_few_unknown_fields_is_recognised(version: str) -> None:
    assert recognise_version(list_dests(version) | {"of_a_fork", "another"}) == recognise_version(list_dests(version))


@pytest.mark.parametrize("version", ["0.5.2", "0.5.23"])
def test_usage_text_is_recognised(version: str) -> None:
    assert recognise_version(load_table(version).options, options=True) is not None


@pytest.mark.parametrize(
    "names", [set(), {"model_path"}, {"model_path", "tp_size", "port"}, {f"field_{number}" for number in range(200)}]
)
def test_excerpt_or_foreign_dump_is_not_recognised(names: set[str]) -> None:
    assert recognise_version(names) is None


def test_half_a_dump_is_not_recognised() -> None:
    names = sorted(list_dests("0.5.23"))
    assert recognise_version(names[: len(names) // 2]) is None


def test_tables_are_where_versions_look() -> None:
    assert all((TABLES / f"{version}.json").exists() for version in known_versions())
