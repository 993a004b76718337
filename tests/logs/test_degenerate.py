"""Degenerate output is recognised, healthy answers are not, and every healthy text keeps its distance."""

import math
import random
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.logs.degenerate import MAX_CHARS, judge_output, judge_response, measure_output
from doctor.logs.degenerate_loops import measure_loop
from doctor.logs.degenerate_rules import RULES
from doctor.logs.degenerate_scripts import find_script, measure_scripts
from doctor.logs.degenerate_shape import split_tokens
from doctor.logs.response import read_response

FIXTURES = Path(__file__).parents[2] / "fixtures" / "responses"
HEALTHY = {path.name: path.read_text(encoding="utf-8") for path in sorted((FIXTURES / "healthy").glob("*.txt"))}

DEGENERATE = {
    "alternating_symbols.txt": "single-token",
    "alternating_words.txt": "repetition",
    "arabic_phrase.txt": "repetition",
    "bangs.response.json": "single-token",
    "bangs_generate.response.json": "single-token",
    "bangs_short.txt": "single-token",
    "base_model_garbage.response.json": "repetition",
    "broken_bytes.txt": "replacement-characters",
    "chinese_character.txt": "single-token",
    "chinese_noisy_stutter.txt": "repetition",
    "chinese_sentence.txt": "repetition",
    "emoji_flood.txt": "single-token",
    "empty_generate.response.json": "empty",
    "end_of_text_tokens.txt": "special-tokens",
    "few_words.txt": "repetition",
    "few_words_chat.response.json": "repetition",
    "good_start_endless_end.response.json": "repetition",
    "hyphenated_loop.txt": "repetition",
    "json_fragment.txt": "repetition",
    "json_fragment_pretty.txt": "repetition",
    "latin_salad.txt": "token-salad",
    "latin_salad_long.response.json": "token-salad",
    "multilingual_salad.response.json": "script-mixing",
    "multilingual_salad.txt": "script-mixing",
    "multilingual_salad_short.txt": "script-mixing",
    "nested_keys.txt": "single-token",
    "noisy_stutter.txt": "repetition",
    "nul_characters.txt": "replacement-characters",
    "one_paragraph.txt": "repetition",
    "one_sentence.txt": "repetition",
    "one_sentence_lines.txt": "repetition",
    "one_word_cut.response.json": "single-token",
    "one_word_five_times.txt": "single-token",
    "padding_tokens.txt": "special-tokens",
    "question_marks.txt": "single-token",
    "question_marks_cut.response.json": "single-token",
    "random_weights_cpu.response.json": "replacement-characters",
    "random_weights_h200.response.json": "replacement-characters",
    "raw_bpe_tokens.txt": "raw-tokens",
    "replacement_characters.txt": "replacement-characters",
    "special_tokens.txt": "special-tokens",
    "stopped_loop.response.json": "repetition",
    "stream_one_word.response.sse": "single-token",
    "thai_word.txt": "single-token",
    "the_the_the.txt": "single-token",
    "thought_loop.response.json": "repetition",
    "weights_nan.response.json": "empty",
    "whitespace_in_json.response.json": "empty",
    "whitespace_newlines.response.json": "empty",
    "whitespace_spaces.txt": "whitespace",
    "zeros_one_line.txt": "single-token",
}

MARGIN = 1.3
"""Least distance of a healthy text from every rule: some limit would have to move by 30 %."""

CATEGORIES = {"at_end", "spaced", "structured", "sentence", "lines", "cut", "stopped", "visible"}
"""Measures whose limits in the rules tell two kinds of text apart: being of the other kind is far."""


def judge(text, tokens=None, finish=None):
    return judge_output(measure_output(text, tokens, finish))


def read_degenerate(name):
    return read_response((FIXTURES / "degenerate" / name).read_bytes())


def measure_degenerate(name):
    found = read_degenerate(name)
    return [
        measure_output(*choice)
        for choice in zip(found.texts, found.completion_tokens, found.finish_reasons, strict=True)
    ]


def holds(rule, measures):
    return all(limit.holds(measures) for limit in rule.limits)


def measure_distance(limit, measures):
    """Return by which factor a measure is on the safe side of a limit; 1 when it is not."""
    if limit.holds(measures):
        return 1.0
    found = float(attrgetter(limit.measure)(measures))
    if limit.measure.rpartition(".")[2] in CATEGORIES and limit.value in (0, 1):
        return math.inf
    far, near = (limit.value, found) if limit.sign == ">=" else (found, limit.value)
    return far / near if near else math.inf


# The corpora


def test_corpora_are_large_and_all_listed():
    assert len(HEALTHY) >= 70
    assert {path.name for path in (FIXTURES / "degenerate").iterdir()} == set(DEGENERATE)


@pytest.mark.parametrize(("name", "kind"), DEGENERATE.items(), ids=DEGENERATE)
def test_degenerate_fixture_is_recognised(name, kind):
    verdict = judge_response(read_degenerate(name))
    assert verdict.degenerate
    assert verdict.kinds[0] == kind
    assert verdict.threshold
    assert "\n" not in verdict.explanation


@pytest.mark.parametrize("finish", [None, "stop", "length"])
@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_fixture_is_silent(name, finish):
    verdict = judge(HEALTHY[name], len(HEALTHY[name]) // 4 + 1, finish)
    assert not verdict.degenerate, verdict
    assert verdict.kinds == ()
    assert verdict.threshold == ""


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_fixture_cut_anywhere_is_silent(name):
    text = HEALTHY[name]
    for end in range(1, len(text), max(len(text) // 25, 1)):
        assert not judge(text[:end], None, "length").degenerate, text[:end][-60:]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.kind}-{RULES.index(rule)}")
def test_rule_keeps_its_distance_from_every_healthy_text(rule):
    margins = {}
    for name, text in HEALTHY.items():
        measures = measure_output(text, None, "length")
        margins[name] = max(measure_distance(limit, measures) for limit in rule.limits)
    closest = min(margins, key=margins.__getitem__)
    assert margins[closest] >= MARGIN, f"{closest} is within {margins[closest]:.2f} of {rule.kind}: {rule.limits}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.kind}-{RULES.index(rule)}")
def test_rule_is_needed_by_some_fixture(rule):
    assert any(holds(rule, measures) for name in DEGENERATE for measures in measure_degenerate(name))


# Empty answers


def test_judge_empty_answer_of_full_length_is_degenerate():
    assert judge("", 32, "length").kinds == ("empty",)


def test_judge_empty_answer_of_few_tokens_is_silent():
    assert not judge("", 2, "length").degenerate


def test_judge_empty_answer_that_stopped_is_silent():
    assert not judge("", 200, "stop").degenerate


def test_judge_empty_answer_without_count_is_silent():
    assert not judge("").degenerate


def test_judge_short_answer_of_many_tokens_is_degenerate():
    assert judge("  .\n", 300, "length").kinds[0] == "empty"


def test_judge_chinese_answer_with_few_characters_per_token_is_silent():
    assert not judge("你好，很高兴认识你。", 12, "stop").degenerate


# Loops


@pytest.mark.parametrize("text", ["!!!!!!", "!" * 200, "? " * 120, "的" * 200, "\u0000" * 70, "a" * 400])
def test_judge_one_character_is_a_single_token(text):
    assert "single-token" in judge(text).kinds


@pytest.mark.parametrize("text", ["!!!", "!!!!!", "......", "?????", "-" * 120, "0" * 64, "哈" * 20, "A" * 100])
def test_judge_short_run_of_one_character_is_silent(text):
    assert not judge(text).degenerate


def test_judge_requested_lines_that_stopped_are_silent():
    assert not judge("I will not talk in class.\n" * 100, 700, "stop").degenerate


def test_judge_same_lines_cut_by_length_are_degenerate():
    assert judge("I will not talk in class.\n" * 100, 700, "length").kinds == ("repetition",)


def test_judge_good_answer_that_ends_in_a_loop_is_degenerate_only_when_cut():
    text = HEALTHY["english_steps.txt"] + "and then check the wheel " * 20
    assert judge(text, None, "length").kinds == ("repetition",)
    assert not judge(text, None, "stop").degenerate


def test_judge_loop_in_the_middle_is_silent():
    assert not judge("Chorus: " + "oh yes " * 20 + HEALTHY["english_essay.txt"]).degenerate


def test_judge_table_of_numbers_is_silent_whatever_its_size():
    assert not judge("\n".join(" ".join(["0"] * 60) for _ in range(60)), None, "length").degenerate


def test_judge_closed_json_list_is_silent_whatever_its_size():
    assert not judge("[" + '{"x": 0, "ok": true}, ' * 200 + "{}]").degenerate


def test_judge_open_json_list_is_degenerate():
    assert judge("[" + '{"x": 0, "ok": true}, ' * 200).kinds == ("repetition",)


@given(st.permutations("abcdefghij klmnop\n"), st.integers(1, 18), st.integers(2, 60), st.text("xyz.", max_size=20))
def test_measure_loop_finds_every_unit_of_different_characters(chars, size, turns, start):
    unit = "".join(chars[:size])
    loop = measure_loop(start + unit * turns)
    if not set(loop.unit) <= set("xyz."):
        assert loop.chars >= size * turns
        assert len(loop.unit) == size


@pytest.mark.parametrize(
    "unit", ["aa ", "la la la li ", "x" * 40 + "y\n", "He said that he said so. ", "0 0 0 1 0 0 0 2 "]
)
def test_measure_loop_finds_units_that_repeat_inside(unit):
    for turns in (3, 12, 50):
        loop = measure_loop("Q" + unit * turns)
        assert (len(loop.unit), loop.turns, loop.at_end) == (len(unit), turns, True)


@given(st.text(max_size=120))
def test_measure_loop_is_really_in_the_text(text):
    loop = measure_loop(text)
    assert (loop.unit * (loop.turns + 1))[: loop.chars] in text
    assert (loop.chars >= 2 * len(loop.unit) > 0) or not loop.unit


def test_measure_loop_of_text_without_repetition_is_zero():
    assert measure_loop("abcdefg").turns == 0


# Scripts


def test_measure_scripts_counts_changes_inside_words():
    mix = measure_scripts("burujانزياحGiya мирחבר")
    assert (mix.glued, mix.glued_pairs, mix.scripts) == (3, 2, 4)


@pytest.mark.parametrize(
    "text", ["使用Python编写", "API를 호출", "ใช้GPSนำทาง", "Pythonで書く", "μm β-lactam NFκB", "漢字로 쓰다"]
)
def test_measure_scripts_ignores_pairs_that_languages_join(text):
    assert measure_scripts(text).glued == 0


@pytest.mark.parametrize(
    ("char", "script"),
    [
        ("a", "LATIN"),
        ("é", "LATIN"),
        ("ж", "CYRILLIC"),
        ("の", "HAN"),
        ("ﾈ", "HAN"),
        ("ー", "HAN"),
        ("中", "HAN"),
        ("한", "HANGUL"),
        ("ा", ""),
        ("́", ""),
        ("5", ""),
        ("Ａ", ""),
        ("𝐀", ""),
        ("ʰ", ""),
        ("\U000e0fff", ""),
        (" ", ""),
    ],
)
def test_find_script(char, script):
    assert find_script(char) == script


def test_judge_word_glued_in_two_scripts_is_silent():
    assert not judge("SMSка пришла, а потом ещё одна SMSка от IT-отдела. " * 3).degenerate


# Tokens


def test_split_tokens_drops_outer_punctuation_and_splits_chinese():
    assert split_tokens('He said: "no", don\'t — 你好。') == ["He", "said", "no", "don't", "—", "你", "好", "。"]


def test_judge_random_words_without_glue_are_silent():
    words = sorted(set(HEALTHY["random_word_list.txt"].split()))
    drawn = random.Random(1).choices(words, k=400)  # noqa: S311 - nothing secret
    assert not judge(" ".join(drawn), None, "length").degenerate


def test_judge_camel_case_identifiers_are_silent():
    assert not judge(HEALTHY["identifiers_one_line.txt"] * 3, None, "length").degenerate


def test_judge_random_draws_of_few_words_are_degenerate():
    drawn = random.Random(2).choices(["ris", "can", "use", "em", "Sho", "cas", "one", "help"], k=200)  # noqa: S311 - nothing secret
    assert judge(" ".join(drawn)).kinds == ("repetition",)


def test_judge_counting_in_words_is_silent():
    assert not judge(HEALTHY["counting_in_words.txt"], None, "length").degenerate


def test_judge_one_broken_character_is_silent():
    assert not judge("caf\ufffd", 3, "length").degenerate


# The verdict


def test_verdict_explains_itself_with_numbers_and_threshold():
    verdict = judge("I am here to help. " * 30)
    assert verdict.explanation == "'I am here to help.' repeats 30 times without a break, 100% of the answer"
    assert "loop.turns >= 10" in verdict.threshold
    assert verdict.confidence == "likely"


def test_verdict_escapes_what_a_terminal_would_obey():
    assert "\x1b" not in judge("\x1b[31mred" * 200).explanation


def test_judge_response_finds_the_degenerate_choice():
    found = read_degenerate("one_sentence.txt")
    healthy = "The capital of Peru is Lima."
    mixed = found._replace(texts=(healthy, *found.texts), finish_reasons=(None, None), completion_tokens=(None, None))
    assert judge_response(mixed).degenerate
    assert not judge_response(found._replace(texts=(healthy,))).degenerate


def test_measure_output_reads_a_bounded_part():
    assert measure_output("word " * MAX_CHARS).chars == MAX_CHARS


def test_measure_output_of_nothing():
    measures = measure_output("")
    assert (measures.chars, measures.shape.tokens, measures.loop.turns, measures.debris.visible) == (0, 0, 0, 0)


def test_rules_name_known_measures_and_explain_them():
    measures = measure_output("a b c")
    for rule in RULES:
        assert all(isinstance(attrgetter(limit.measure)(measures), int | float) for limit in rule.limits)
        assert rule.explanation.format(m=measures, unit="", echo="", char="")


@given(
    st.text(max_size=400), st.none() | st.integers(-5, 10**6), st.sampled_from([None, "stop", "length", "abort", "x"])
)
def test_judge_any_text(text, tokens, finish):
    verdict = judge(text, tokens, finish)
    assert verdict.degenerate == bool(verdict.kinds) == bool(verdict.threshold)
    assert verdict.confidence in {"likely", "possible"}
    assert verdict.explanation.isprintable()
