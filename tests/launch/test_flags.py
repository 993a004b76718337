from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.launch.flags import (
    Ambiguous,
    Exact,
    Prefix,
    Unknown,
    known_versions,
    load_table,
)
from doctor.launch.removed import find_removed
from doctor.launch.versions import sort_key

from .helpers import NEWEST

TABLES = {version: load_table(version) for version in known_versions()}


def test_known_versions_are_ordered_and_many():
    assert list(known_versions()) == sorted(known_versions(), key=sort_key)
    assert {"0.4.6.post5", "0.5.15.post1", "0.5.23"} <= set(known_versions())
    assert len(known_versions()) >= 15


@pytest.mark.parametrize(
    ("asked", "found", "exact"),
    [
        ("0.5.15.post1", "0.5.15.post1", True),
        ("v0.5.15.post1+cu130", "0.5.15.post1", True),
        ("0.5.13", "0.5.12.post1", False),
        ("0.5.15.post2", "0.5.15.post1", False),
        ("0.5.10rc0", "0.5.8", False),
        ("0.4.0", "0.4.6.post5", False),
        ("9.9.9", "0.5.23", False),
        (None, "0.5.23", False),
        ("main", "0.5.23", False),
    ],
)
def test_load_table_takes_the_nearest_older_version(asked, found, exact):
    table = load_table(asked)
    assert (table.version, table.exact) == (found, exact)


def test_load_table_knows_types_defaults_choices_and_aliases():
    flag = NEWEST.find("--tp")
    assert flag is not None
    assert (flag.name, flag.dest, flag.kind, flag.default) == ("--tp-size", "tp_size", "int", 1)
    assert flag.aliases == ("--tensor-parallel-size",)
    assert "bfloat16" in NEWEST.find("--dtype").choices
    assert NEWEST.find("--cuda-graph-bs-decode").takes_many
    assert NEWEST.find("--model").required


@pytest.mark.parametrize("version", ["0.4.6.post5", "0.5.6", "0.5.12"])
def test_load_table_maps_long_names_to_the_fields_of_the_dump(version):
    assert TABLES[version].find_dest("tp_size").name == "--tensor-parallel-size"
    assert TABLES[version].default("dp_size") == 1


def test_find_dest_prefers_the_flag_that_is_not_deprecated():
    table = TABLES["0.5.15.post1"]
    assert table.find_dest("cuda_graph_max_bs_decode").name == "--cuda-graph-max-bs-decode"
    assert table.find("--cuda-graph-max-bs").replaced_by == "--cuda-graph-max-bs-decode"


def test_default_of_an_unknown_field_is_none():
    assert NEWEST.default("no_such_field") is None


# What argparse says, from facts about the versions and from the recordings `flag_*` of 0.5.23.
@pytest.mark.parametrize(
    ("version", "typed", "kind"),
    [
        ("0.4.6.post5", "--ep", Ambiguous),
        ("0.5.6", "--ep", Exact),
        ("0.4.6.post5", "--pp", Prefix),
        ("0.5.6", "--pp", Ambiguous),
        ("0.4.6.post5", "--model", Prefix),
        ("0.5.6", "--attention", Prefix),
        ("0.5.10", "--attention", Ambiguous),
        ("0.5.10", "--context", Prefix),
        ("0.5.23", "--context", Ambiguous),
        ("0.5.23", "--tp", Prefix),
        ("0.5.23", "--tp=8", Prefix),
        ("0.5.23", "--tp-size=8", Exact),
        ("0.5.12", "--cuda-graph-max-bs", Exact),
        ("0.5.23", "--cuda-graph-max-bs", Ambiguous),
        ("0.5.23", "--tensor-paralel-size", Unknown),
        ("0.5.23", "--", Unknown),
        ("0.5.23", "-tp", Unknown),
        ("0.5.23", "-h", Exact),
    ],
)
def test_resolve_says_what_argparse_says(version, typed, kind):
    assert type(TABLES[version].resolve(typed)) is kind


def test_resolve_lists_the_candidates_of_the_recorded_error():
    assert set(NEWEST.resolve("--attention").options) == {
        "--attention-data-parallel-size",
        "--attention-context-parallel-size",
        "--attention-backend",
    }


def build_parser(table):
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    for flag in table.flags:
        names = [name for name in (flag.name, *flag.aliases) if name.startswith("--")]
        parser.add_argument(*names, dest=flag.dest)
    return parser


PARSERS = {version: build_parser(TABLES[version]) for version in ("0.4.6.post5", "0.5.12", "0.5.23")}
OPTIONS = sorted(NEWEST.options)


@settings(deadline=None)
@given(
    version=st.sampled_from(sorted(PARSERS)),
    option=st.sampled_from(OPTIONS),
    cut=st.integers(3, 40),
    value=st.sampled_from(["", "=", "=1", "=a=b"]),
)
def test_resolve_agrees_with_the_real_argparse(version, option, cut, value):
    typed = option[:cut] + value
    matches = PARSERS[version]._get_option_tuples(typed)
    found = TABLES[version].resolve(typed)
    if typed.partition("=")[0] in TABLES[version].options:
        assert isinstance(found, Exact)
    elif len(matches) > 1:
        assert isinstance(found, Ambiguous)
        assert {match[1] for match in matches} == set(found.options)
    elif matches:
        assert isinstance(found, Prefix)
        assert matches[0][1] == found.option
    else:
        assert isinstance(found, Unknown)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--max-model-len", "--context-length"),
        ("--gpu-memory-utilization=0.9", "--mem-fraction-static"),
        ("--max-num-seqs", "--max-running-requests"),
        ("--tensor-paralel-size", "--tensor-parallel-size"),
        ("--tp_size", "--tp-size"),
        ("--enforce-eager", "--disable-cuda-graph"),
        ("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode"),
        ("--mem-fraction-statik", "--mem-fraction-static"),
        ("-tp", "--tp-size"),
        ("--TP", "--tp-size"),
        ("---model-path", "--model-path"),
        ("--mem-fraction-static:", "--mem-fraction-static"),
    ],
)
def test_nearest_finds_what_was_meant(typed, expected):
    assert NEWEST.nearest(typed)[0] == expected


def test_nearest_of_something_else_is_empty():
    assert NEWEST.nearest("--qqqqqqqq") == ()


def test_find_removed_names_the_replacement_after_the_last_version():
    gone = find_removed("--cuda-graph-max-bs", "0.5.23")
    assert gone is not None
    assert (gone.last, gone.replacement) == ("0.5.19", ("--cuda-graph-max-bs-decode",))


def test_find_removed_is_none_while_the_flag_exists():
    assert find_removed("--cuda-graph-max-bs", "0.5.19") is None
    assert find_removed("--tp-size", "0.5.23") is None


def test_find_removed_agrees_with_the_tables():
    newest = set(NEWEST.options)
    for version, table in TABLES.items():
        for option in set(table.options) - newest:
            gone = find_removed(option, "0.5.23")
            assert gone is not None, option
            assert sort_key(gone.last) >= sort_key(version)
            assert option in TABLES[gone.last].options


def test_find_removed_names_replacements_that_exist_afterwards():
    for option in {option for table in TABLES.values() for option in table.options}:
        gone = find_removed(option, "0.5.23")
        for replacement in gone.replacement if gone else ():
            name, _, value = replacement.partition("=")
            flag = NEWEST.find(name)
            assert isinstance(NEWEST.resolve(name), Exact), replacement
            assert not value or not flag.choices or value in flag.choices, replacement


HELP = Path(__file__).parent / "help"


@pytest.mark.parametrize("version", ["0.4.10.post2", "0.5.15.post1", "0.5.23"])
def test_load_table_has_the_options_of_the_real_parser_and_no_others(version):
    """`help/` lists what ServerArgs.add_cli_args of the installed wheel registered: option strings, then nargs."""
    table = TABLES[version]
    rows = [line.split() for line in (HELP / f"{version}.txt").read_text(encoding="utf-8").splitlines()]
    assert {option for *options, _ in rows for option in options} == set(table.options)
    for first, *others, nargs in rows:
        flag = table.options[first]
        assert {first, *others} == {flag.name, *flag.aliases}
        assert nargs == (flag.nargs or ("1" if flag.takes_value else "0")), first
