"""Expressions of rules: what they may say, what unknown facts do, and that nothing else is ever evaluated."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from doctor.diagnosis.expressions import (
    ExpressionError,
    check_expression,
    evaluate,
    fill,
    holds,
    list_holes,
    list_names,
    parse_expression,
)

FACTS = {
    "args.tp_size": 8,
    "args.name": "Base-Model",
    "mem.left": 3.5,
    "seen.ready": True,
    "gpu.list": [1, 2, 3],
    "zero": 0,
    "empty": "",
    "version": "0.5.15.post1",
}

VALUES = {
    "args.tp_size * 2 + 1": 17,
    "args.tp_size // 3": 2,
    "args.tp_size % 3": 2,
    "args.tp_size / 16": 0.5,
    "args.tp_size - mem.left": 4.5,
    "-args.tp_size": -8,
    "min(args.tp_size, 4)": 4,
    "max(1, args.tp_size // 2)": 4,
    "clamp(args.tp_size, 1, 4)": 4,
    "round(mem.left)": 4,
    "int(mem.left)": 3,
    "len(gpu.list)": 3,
    "join(gpu.list)": "1, 2, 3",
    "numbers(3)": "0,1,2",
    "lower(args.name)": "base-model",
    "replace(args.name, 'Base-', '')": "Model",
    "basename('/a/b/c/')": "c",
    "'x' if seen.ready else 'y'": "x",
    "args.name + '!'": "Base-Model!",
    "not seen.ready": False,
    "seen.ready and args.tp_size": 8,
    "zero or 'other'": "other",
    "1 < args.tp_size <= 8": True,
    "args.tp_size in [2, 4, 8]": True,
    "args.tp_size not in (2, 4)": True,
    "'Base' in args.name": True,
    "2 in gpu.list": True,
    "args.tp_size == 8 and args.name != 'x'": True,
    "nothing is None": True,
    "args.tp_size is not None": True,
    "version(version) < version('0.5.16')": True,
    "matches(args.name, '^Base')": True,
    "abs(-2)": 2,
    "float(1)": 1.0,
}


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_value(text: str, value: object) -> None:
    check_expression(text)
    assert evaluate(text, FACTS) == value


@pytest.mark.parametrize(
    "text",
    [
        "nothing + 1",
        "1 - nothing",
        "-nothing",
        "-args.name",
        "-gpu.list",
        "nothing.more * 2",
        "min(nothing, 1)",
        "len(nothing)",
        "nothing",
        "lower(nothing)",
        "args.tp_size / zero",
        "args.tp_size % zero",
        "args.name * 2",
        "args.tp_size + args.name",
        "args.name % 2",
        "len(args.tp_size)",
        "int(args.name)",
        "min(1)",
        "round(args.name)",
    ],
)
def test_what_cannot_be_known_is_none(text: str) -> None:
    assert evaluate(text, FACTS) is None


@pytest.mark.parametrize(
    "text",
    [
        "nothing > 1",
        "nothing < 1",
        "1 <= nothing",
        "args.name > 1",
        "nothing in gpu.list",
        "1 in nothing",
        "nothing",
        "nothing and seen.ready",
        "empty",
        "1 in args.name",
    ],
)
def test_condition_over_unknown_facts_does_not_hold(text: str) -> None:
    assert not holds(text, FACTS)


def test_empty_condition_holds() -> None:
    assert holds("", {})


FORBIDDEN = [
    "__import__('os').system('x')",
    "open('/etc/passwd')",
    "().__class__",
    "args.tp_size.__class__()",
    "[x for x in gpu.list]",
    "lambda: 1",
    "1 ** 9",
    "1 << 9",
    "~args.tp_size",
    "gpu.list[0]",
    "{'a': 1}",
    "f'{args.name}'",
    "min(*gpu.list)",
    "min(a=1)",
    "(x := 1)",
    "args.tp_size; 1",
    "import os",
    "",
    "(",
    "1 if",
    "x" * 501,
    "(" * 200,
    "a.b.c()",
    "'a'.join(gpu.list)",
]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, FACTS)
    with pytest.raises(ExpressionError):
        check_expression(text)


def test_refusal_hides_behind_no_other_branch() -> None:
    """A forbidden part that is not reached at run time is still found by the linter."""
    with pytest.raises(ExpressionError):
        check_expression("nothing and open('/x')")


@pytest.mark.parametrize(
    "text", ["args.name * 1000000000", "1000000000 * args.name", "gpu.list * 1000000000", "args.name % 1000000000"]
)
def test_no_expression_fills_the_memory(text: str) -> None:
    assert evaluate(text, {**FACTS, "args.name": "%999999999d"}) is None


def test_numbers_are_bounded() -> None:
    assert evaluate("numbers(1000000000)", {}).count(",") == 63


def test_list_names() -> None:
    assert list_names("args.tp_size > 1 and min(mem.left, x) < 2 or len(gpu.list)") == {
        "args.tp_size",
        "mem.left",
        "x",
        "gpu.list",
    }


# templates


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("tp is {args.tp_size}", "tp is 8"),
        ("{mem.left:.2f} GiB of {args.tp_size * 2}", "3.50 GiB of 16"),
        ("{nothing}", "unknown"),
        ("{nothing:.1f}", "unknown"),
        ("{args.name:.1f}", "Base-Model"),
        ("{join(gpu.list)}", "1, 2, 3"),
        ("{'a:b'}", "a:b"),
        ("no holes, {}", "no holes, {}"),
        ("{seen.ready}", "True"),
    ],
)
def test_fill(template: str, text: str) -> None:
    assert fill(template, FACTS) == text


@pytest.mark.parametrize("hole", ["open('x')", "a if", "a ** 9", "[a for a in b]", "lambda: 1"])
def test_hole_that_is_not_allowed_costs_only_itself(hole: str) -> None:
    assert fill(f"before {{{hole}}} after {{degrees}}", {"degrees": 90}) == "before unknown after 90"


def test_fill_does_not_fill_what_it_filled_in() -> None:
    assert fill("{a}", {"a": "{b}", "b": "geheim"}) == "{b}"


def test_fill_bounds_what_a_log_gave() -> None:
    assert len(fill("{a}", {"a": "x" * 100_000})) <= 2001


def test_fill_of_a_number_without_bounds_is_no_crash() -> None:
    assert fill("{a:.1f}", {"a": 10**400}).startswith("1000")


def test_list_holes() -> None:
    assert list_holes("{a.b} and {c:.1f}, {'x:y'}") == ["a.b", "c", "'x:y'"]


@given(st.text(max_size=60))
def test_any_text_is_a_value_or_refused(text: str) -> None:
    try:
        parse_expression(text)
    except ExpressionError:
        return
    try:
        evaluate(text, FACTS)
    except ExpressionError:
        return


@given(
    st.text(max_size=80),
    st.dictionaries(
        st.sampled_from(["a", "b.c"]),
        st.none() | st.text(max_size=5) | st.integers() | st.floats() | st.lists(st.integers(), max_size=2),
    ),
)
def test_any_known_template_is_filled(text: str, facts: dict) -> None:
    assert isinstance(fill(text.replace("{", "").replace("}", "") + "{a} {b.c:.2f} {a + b.c}", facts), str)
