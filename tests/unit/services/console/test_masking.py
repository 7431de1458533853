"""Masked fields cannot be seen, searched for, or revealed by another format."""

from types import SimpleNamespace
from typing import Any

import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.console.decoding import decode
from headrace.services.console.masking import MASK, Masks, mask_rule, mask_rules
from headrace.services.console.search import Matcher, Search, cursor_of

RULES = mask_rules("# cards\norders-*:value.card.number\norders-*:headers.token  # secret\npeople:key\n")
VALUE = b'{"card": {"number": "4111", "kind": "x"}, "items": [1]}'


def record(**changes: Any) -> Any:
    found = {
        "topic": "orders-eu",
        "partition": 0,
        "offset": 5,
        "timestamp": 1_000,
        "key": b"k",
        "value": VALUE,
        "headers": (("token", b"abc"), ("source", b"web")),
    }
    return SimpleNamespace(**{**found, **changes})


def row(search: Search, **changes: Any) -> Any:
    return Matcher(search).row(record(**changes))


def search(**options: Any) -> Search:
    return Search("orders-eu", masks=Masks(RULES, "orders-eu"), **options)


def test_member_is_masked_and_the_others_stay() -> None:
    found = row(search())
    assert "4111" not in found.value.text
    assert '"kind": "x"' in found.value.text
    assert dict(found.headers) == {"token": MASK, "source": "web"}


@pytest.mark.parametrize("form", ["hex", "utf-8", "int64", "msgpack"])
def test_other_formats_mask_the_whole_value(form: str) -> None:
    found = row(search(value_format=form))
    assert found.value.text == MASK


def test_lists_of_members_are_masked() -> None:
    masks = Masks([mask_rule("t:value.cards.number")], "t")
    decoded = masks.applied("value", decode(b'{"cards": [{"number": 1}, {"number": {"a": 2}}]}'))
    assert decoded.value == {"cards": [{"number": MASK}, {"number": MASK}]}


@pytest.mark.parametrize(
    "options",
    [
        {"expression": 'value.card.number == "4111"'},
        {"expression": 'headers.token == "abc"'},
        {"header": "token=abc"},
        {"text": "4111"},
    ],
)
def test_searches_do_not_see_masked_values(options: dict[str, str]) -> None:
    """A search for the secret must not tell that it is there."""
    assert row(search(**options)) is None


def test_masked_key_is_not_searched() -> None:
    people = Search("people", masks=Masks(RULES, "people"), key="k")
    assert Matcher(people).row(record(topic="people")) is None


def test_rules_of_other_topics_do_not_apply() -> None:
    found = Matcher(Search("clicks", masks=Masks(RULES, "clicks"))).row(record(topic="clicks"))
    assert found is not None
    assert "4111" in found.value.text


@pytest.mark.parametrize("text", ["orders", "orders:", "orders:amount", ":value", "orders:value..x"])
def test_bad_rules_are_errors(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a mask such as"):
        mask_rule(text)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"text": "web"}, False),
        ({"text": "kind"}, True),
        ({"key": "k"}, True),
        ({"key": "K"}, False),
        ({"header": "source"}, True),
        ({"header": "source=web"}, True),
        ({"header": "source=we"}, False),
        ({"until_ms": 999}, False),
        ({"until_ms": 1_000}, True),
        ({"expression": "offset == 5"}, True),
    ],
)
def test_filters(options: dict[str, Any], found: bool) -> None:
    assert (row(search(**options)) is not None) is found


@pytest.mark.parametrize(
    "options",
    [
        {"start": "middle"},
        {"value_format": "avro"},
        {"limit": 5_000},
        {"text": "x" * 501},
        {"start": "offset"},
        {"expression": "value >"},
    ],
)
def test_bad_searches_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        search(**options)


def test_bad_cursors_are_errors() -> None:
    assert cursor_of("0:5,3:7") == {0: 5, 3: 7}
    with pytest.raises(ConfigError, match="partition:offset"):
        cursor_of("0:-5")
