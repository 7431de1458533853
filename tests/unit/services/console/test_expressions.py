"""The expressions of searches."""

import contextlib

import pytest
from headrace.services.console.expressions import ExpressionError, compile_expression, is_like
from hypothesis import given
from hypothesis import strategies as st

RECORD = {
    "key": "customer-7",
    "value": {
        "amount": 120,
        "tags": ["new", "eu"],
        "card": {"no": "4111"},
        "ok": True,
        "odd name": 1,
        "f": 1.0,
    },
    "headers": {"source": "web"},
    "offset": 41,
    "partition": 3,
    "timestamp": 1_769_860_800_000,
    "size": 64,
}


@pytest.mark.parametrize(
    "text",
    [
        "value.amount > 100",
        "value.amount >= 120 and value.amount <= 120",
        "value.amount == 120.0",
        'key == "customer-7"',
        "key == 'customer-7'",
        'key startswith "cust" and key endswith "-7"',
        'key like "*omer-?"',
        '"eu" in value.tags',
        'value.tags contains "new"',
        'value.card.no == "4111"',
        'value["odd name"] == 1',
        'value.tags[1] == "eu"',
        'headers.source == "web"',
        "not value.missing",
        "value.missing == null",
        "value.ok == true and value.ok != 1",
        "len(value.tags) == 2",
        'lower("ABC") == "abc"',
        'timestamp >= time("2026-01-31") and timestamp < time("2026-02-01T00:00:00+00:00")',
        "offset in [40, 41] && !(partition == 2) || false",
        'value contains "card"',
        "size == 64",
        "-5 < 0",
    ],
)
def test_true_expressions(text: str) -> None:
    assert compile_expression(text)(RECORD)


@pytest.mark.parametrize(
    "text",
    [
        'value.amount > "100"',
        'value.amount == "120"',
        "value.ok == 1",
        "value.tags < value.tags",
        "value.tags[9] == 1",
        "key.x.y.z == 1",
        'key like "*omer"',
        "value.amount > 100 and not value.ok",
        'time("never") == 0',
    ],
)
def test_false_expressions(text: str) -> None:
    """Values of different types are unequal, and members that are not there are null."""
    assert not compile_expression(text)(RECORD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("value.amount >", "position 15: expected an operand, found the end"),
        ("value.amount 5", "position 14: expected an operator, found '5'"),
        ("amount > 5", "'amount' is none of key, value"),
        ("__import__('os')", "'__import__' is none of"),
        ("(key == 1", "expected ')'"),
        ("value[key]", "the name or number of a member"),
        ("key ~ 1", "position 5: '~ 1' is no operator"),
        ("(" * 60 + "1" + ")" * 60, "nested at most 40 deep"),
        ("1 == " * 1_000, "at most 2000 characters"),
        ("len(key", "expected ')'"),
    ],
)
def test_errors_have_the_position(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        compile_expression(text)
    assert message in str(error.value)


@given(st.text(alphabet="ab", max_size=12), st.text(alphabet="ab*?", max_size=8))
def test_like_is_the_pattern_of_a_shell(text: str, pattern: str) -> None:
    """Compared with fnmatch, for these characters."""
    from fnmatch import fnmatchcase

    assert is_like(text, pattern) == fnmatchcase(text, pattern)


@given(st.text(max_size=40))
def test_any_text_compiles_or_is_an_expression_error(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        compile_expression(text)(RECORD)
