"""Masked fields of REST documents."""

import base64
import json
from typing import Any

import msgspec
import pytest
from headrace.services.console.masking import MASK, mask_rule
from headrace.services.rest.restrictions import MaskedRecords, Restrictions
from headrace.services.web.problems import Problem

ORDER = b'{"card": {"number": 4711}, "total": 7}'
RULES = (mask_rule("orders*:value.card.number"), mask_rule("people:key"), mask_rule("*:headers.token"))


def data_of(masked: MaskedRecords, value: bytes | None, wanted: str) -> tuple[str, Any] | None:
    found = masked.shown("value", value, wanted)
    return None if found is None else (found.type, json.loads(msgspec.json.encode(found.data)))


def test_member_is_masked_and_the_rest_is_shown() -> None:
    masked = MaskedRecords(RULES, "orders-1")
    assert data_of(masked, ORDER, "AUTO") == ("JSON", {"card": {"number": MASK}, "total": 7})
    escaped = ORDER.replace(b"card", b"c\\u0061rd")
    assert data_of(masked, escaped, "JSON") == ("JSON", {"card": {"number": MASK}, "total": 7})
    assert json.loads(bytes(masked.embedded("value", ORDER, "JSON")))["card"] == {"number": MASK}
    assert data_of(masked, None, "AUTO") is None
    assert data_of(MaskedRecords(RULES, "people"), ORDER, "AUTO") == ("JSON", json.loads(ORDER))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (ORDER, "STRING"),
        (ORDER, "BINARY"),
        (ORDER[:-1], "AUTO"),
        (b"4711", "AUTO"),
        (b"\xff", "AUTO"),
        (b"[" * 200 + b"]" * 200, "JSON"),
    ],
)
def test_value_without_members_is_masked_as_a_whole(value: bytes, wanted: str) -> None:
    """No other format, and no broken JSON, reveals the field."""
    masked = MaskedRecords(RULES, "orders")
    assert data_of(masked, value, wanted) == ("MASKED", None)
    shown = masked.embedded("value", value, "BINARY")
    assert base64.b64decode(shown).decode() == MASK


def test_numbers_beyond_64_bits() -> None:
    """They do not fail the response."""
    found = data_of(MaskedRecords(RULES, "orders"), b'{"card": {"number": 1}, "n": %d}' % 10**30, "JSON")
    assert found is not None
    assert found[1] is None or found[1]["card"] == {"number": MASK}


def test_key_and_headers() -> None:
    masked = MaskedRecords(RULES, "people")
    shown = masked.shown("key", b"ann", "STRING")
    assert shown is not None
    assert (shown.type, shown.data, shown.size) == ("MASKED", None, 3)
    assert masked.embedded("key", b"ann", "JSON") == MASK
    headers = masked.headers([("token", b"secret"), ("token", None), ("other", b"x")])
    values = [None if each.value is None else base64.b64decode(each.value) for each in headers]
    assert values == [MASK.encode(), MASK.encode(), b"x"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "BREW"])
def test_read_only_server_refuses_changes(method: str) -> None:
    with pytest.raises(Problem) as refused:
        Restrictions(is_read_only=True).check_method(method)
    assert (refused.value.status, refused.value.error_code) == (403, 40301)
    Restrictions(is_read_only=True).check_method("GET")
    Restrictions().check_method(method)
