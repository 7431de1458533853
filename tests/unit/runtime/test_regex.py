"""Expressions over topic names: RE2's syntax, whole names, and nothing that runs for ever."""

from __future__ import annotations

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
def test_what_expressions_match(expression: str, expected: list[str]) -> None:
    """Whole names only."""
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
def test_what_is_no_expression(expression: str) -> None:
    """Not RE2's, or larger than may be."""
    with pytest.raises(InvalidRegularExpressionError):
        compile_regex(expression)


def test_expressions_that_take_others_for_ever_do_not_here() -> None:
    """Nested repetitions, which make backtracking explode."""
    names = ["a" * 248 + "b", "a" * 249]
    assert _matching("(a+)+", names) == [names[1]]
    assert _matching("(a|a)*b", names) == [names[0]]
    assert _matching("(.*.*.*.*.*.*.*)*x", names) == []


def test_work_is_bounded() -> None:
    """An expression with very many states over names that lead into all of them is given up, with an
    error."""
    regex = compile_regex("(a|b)*a(a|b){100}(c|(a|b)?){200}")
    digits = [f"{number:b}".rjust(249, "0") for number in range(0, 1 << 60, 1 << 44)]
    names = [each.replace("0", "a").replace("1", "b") for each in digits]
    with pytest.raises(InvalidRegularExpressionError, match="too long"):
        regex.resolve(names, 1, 2)
    assert regex.work < MAX_WORK + 10_000


@pytest.mark.parametrize("expression", ["(a?){700}b*", "((.?){2}){400}x", "((a?){30}){30}"])
def test_work_is_bounded_within_a_single_step(expression: str) -> None:
    """Where one character leads to all nodes, each of which leads to all others."""
    regex = compile_regex(expression)
    with pytest.raises(InvalidRegularExpressionError, match="too long"):
        regex.resolve(["a" * 249], 1, 2)
    assert regex.work < MAX_WORK + 10_000


def test_record_says_when_and_at_what_it_was_resolved() -> None:
    """Sorted topics, the version of the metadata, the wall time."""
    found = compile_regex("[ab]").resolve(["b", "c", "a"], 7, 123)
    assert (found.topics, found.version, found.timestamp_ms) == (("a", "b"), 7, 123)


_chars = st.sampled_from("ab.-1")
_atoms = st.one_of(
    _chars.map(re.escape),
    st.just("."),
    st.sampled_from([r"\d", r"\w", "[ab]", "[^a]", "[a-c1]", "^", "$"]),
)


def _grow(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeat = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{1,}", "*?", "+?", "??"])
    return st.one_of(
        st.lists(parts, min_size=1, max_size=4).map("".join),
        st.lists(parts, min_size=2, max_size=3).map("|".join).map("({})".format),
        st.tuples(parts, repeat).map(lambda each: f"(?:{each[0]}){each[1]}"),
    )


@given(
    st.recursive(_atoms, _grow, max_leaves=8),
    st.lists(st.text("abc.-1", min_size=1, max_size=8), max_size=8),
)
def test_it_matches_what_python_matches(expression: str, names: list[str]) -> None:
    """On what both understand. Python's $ also stands before a last newline, which no name has."""
    assert set(_matching(expression, names)) == {name for name in names if re.fullmatch(expression, name)}


@given(st.text(string.printable, max_size=20) | st.text("()[]{}|*+?^$\\.-,:<>PiQEx1a", max_size=20))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    """Never another error."""
    try:
        regex = compile_regex(text)
    except InvalidRegularExpressionError:
        return
    assert regex.matches("topic") in (True, False)
