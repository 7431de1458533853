"""Expressions over topic names: RE2's syntax, whole names, and nothing that runs for ever."""

import re
import string

import pytest
from headrace.protocol.errors import InvalidRegularExpressionError
from headrace.runtime.regex import MAX_DEPTH, MAX_LENGTH, MAX_WORK, compile_regex
from hypothesis import given
from hypothesis import strategies as st

NAMES = ["a", "b", "ab", "abc", "topic", "Topic-1", "topic.2", "topic_3", "x" * 249, "2024-01-31", "aaa", "A"]


def _matching(expression: str, names: list[str] = NAMES) -> list[str]:
    return list(compile_regex(expression).resolve(names, 1, 2).topics)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("topic", ["topic"]),
        ("topic.*", ["topic", "topic.2", "topic_3"]),
        (r"topic\.\d", ["topic.2"]),
        ("(?i)TOPIC.?\\d*", ["Topic-1", "topic", "topic.2", "topic_3"]),
        ("(?i:t)opic.1", ["Topic-1"]),
        ("(?i)t(?-i)opic.1", ["Topic-1"]),
        ("^a|b$", ["a", "b"]),
        ("a^b|ab", ["ab"]),
        ("a$b", []),
        ("(a|b)+c?", ["a", "aaa", "ab", "abc", "b"]),
        ("a{3}", ["aaa"]),
        ("a{1,2}b{0,1}c{,1}", []),
        ("a{2,}?", ["aaa"]),
        ("(?P<first>a)(?<second>b)", ["ab"]),
        ("[ab]{2}", ["ab"]),
        ("[^a-z]", ["A"]),
        ("[[:upper:]]", ["A"]),
        ("[[:^upper:]]", ["a", "b"]),
        (r"[\d-]+", ["2024-01-31"]),
        (r"\d{4}(-\d\d){2}", ["2024-01-31"]),
        ("[]a]", ["a"]),
        ("[a-]", ["a"]),
        (r"\Qtopic.2\E", ["topic.2"]),
        (r"\x61\x{62}", ["ab"]),
        (r"\Aab\z", ["ab"]),
        (r"\w+", ["A", "a", "aaa", "ab", "abc", "b", "topic", "topic_3", "x" * 249]),
        (r"\s", []),
        ("", []),
        ("()", []),
        ("é", []),
        ("(a*)*", ["a", "aaa"]),
        ("x{249}", ["x" * 249]),
    ],
)
def test_expressions_match_whole_names(expression: str, expected: list[str]) -> None:
    assert _matching(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "(",
        ")",
        "a)",
        "(a",
        "[",
        "[a",
        "[]",
        "[z-a]",
        r"[\d-z]",
        "*",
        "+a",
        "a|*",
        "a**",
        "a+{2}",
        "a{1001}",
        "a{2,1}",
        "\\",
        r"\1",
        r"\b",
        r"\C",
        r"\pL",
        r"\x",
        r"\x{110000}",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        "(?P=a)",
        "(?P<>a)",
        "(?<a-b>c)",
        "(?x)a",
        "(?",
        "(?i",
        "[[:nothing:]]",
        "a" * (MAX_LENGTH + 1),
        "(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1),
        "((a{1000}){1000}){1000}",
        "((){1000}){1000}",
        "(((){1000}){1000}){1000}",
    ],
)
def test_invalid_expressions_are_refused(expression: str) -> None:
    """Not in RE2's syntax, or too large."""
    with pytest.raises(InvalidRegularExpressionError):
        compile_regex(expression)


def test_nested_repetitions_take_linear_time() -> None:
    """Backtracking would explode."""
    names = ["a" * 248 + "b", "a" * 249]
    assert _matching("(a+)+", names) == [names[1]]
    assert _matching("(a|a)*b", names) == [names[0]]
    assert _matching("(.*.*.*.*.*.*.*)*x", names) == []


def test_work_is_bounded() -> None:
    """An expression with very many states over matching names is an error."""
    regex = compile_regex("(a|b)*a(a|b){100}(c|(a|b)?){200}")
    digits = [f"{number:b}".rjust(249, "0") for number in range(0, 1 << 60, 1 << 44)]
    names = [each.replace("0", "a").replace("1", "b") for each in digits]
    with pytest.raises(InvalidRegularExpressionError, match="too long"):
        regex.resolve(names, 1, 2)
    assert regex.work < MAX_WORK + 10_000


@pytest.mark.parametrize("expression", ["(a?){700}b*", "((.?){2}){400}x", "((a?){30}){30}"])
def test_work_of_a_single_step_is_bounded(expression: str) -> None:
    """One character leads to all nodes, each of which leads to all others."""
    regex = compile_regex(expression)
    with pytest.raises(InvalidRegularExpressionError, match="too long"):
        regex.resolve(["a" * 249], 1, 2)
    assert regex.work < MAX_WORK + 10_000


def test_record_has_topics_metadata_version_and_time() -> None:
    """Topics are sorted; the time is the wall time."""
    found = compile_regex("[ab]").resolve(["b", "c", "a"], 7, 123)
    assert (found.topics, found.version, found.timestamp_ms) == (("a", "b"), 7, 123)


_chars = st.sampled_from("ab.-1")
_atoms = st.one_of(
    _chars.map(re.escape), st.just("."), st.sampled_from([r"\d", r"\w", "[ab]", "[^a]", "[a-c1]", "^", "$"])
)


def _grow(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeat = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{1,}", "*?", "+?", "??"])
    return st.one_of(
        st.lists(parts, min_size=1, max_size=4).map("".join),
        st.lists(parts, min_size=2, max_size=3).map("|".join).map("({})".format),
        st.tuples(parts, repeat).map(lambda each: f"(?:{each[0]}){each[1]}"),
    )


@given(
    st.recursive(_atoms, _grow, max_leaves=8), st.lists(st.text("abc.-1", min_size=1, max_size=8), max_size=8)
)
def test_matches_equal_pythons(expression: str, names: list[str]) -> None:
    """On the common syntax. Python's $ also matches before a final newline, which no topic name has."""
    assert set(_matching(expression, names)) == {name for name in names if re.fullmatch(expression, name)}


@given(st.text(string.printable, max_size=20) | st.text("()[]{}|*+?^$\\.-,:<>PiQEx1a", max_size=20))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    try:
        regex = compile_regex(text)
    except InvalidRegularExpressionError:
        return
    assert regex.matches("topic") in (True, False)
