"""Keys and values as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from headrace.clients.serdes import bytes_, int64, utf8
from headrace.stream import Row, ValueAndTimestamp, VersionedRecord, Window, Windowed
from headrace.stream.query.json_forms import json_form, key_from_text

ID = UUID("12345678123456781234567812345678")


class Odd:
    """A value that JSON does not know."""

    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ({"a": [1, None, True, "x", 1.5]}, {"a": [1, None, True, "x", 1.5]}),
        (float("nan"), {"$float": "nan"}),
        (b"\xff\x00", {"$bytes": "/wA="}),
        ((1, {2}), [1, [2]]),
        ({1: "a"}, {"$entries": [[1, "a"]]}),
        (ValueAndTimestamp(b"a", 5), {"value": {"$bytes": "YQ=="}, "timestamp": 5}),
        (VersionedRecord(1, 5, None), {"value": 1, "timestamp": 5, "valid_to": None}),
        (Windowed("k", Window(1, 2)), {"key": "k", "start": 1, "end": 2}),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (Decimal("1.50"), "1.50"),
        (ID, str(ID)),
        (Row({"n": 2}), {"n": 2}),
        (Odd(), {"$type": "Odd", "$text": "odd"}),
    ],
)
def test_values_have_json_forms(value: Any, form: Any) -> None:
    """Each is JSON, and says what it was where JSON has no such value."""
    assert json_form(value) == form
    assert json.loads(json.dumps(json_form(value))) == form


def test_keys_from_texts() -> None:
    """The text where the serde takes it, else its JSON; or as the caller says."""
    assert key_from_text("5", "auto", utf8.dumps) == "5"
    assert key_from_text("5", "auto", int64.dumps) == 5
    assert key_from_text('"a"', "json", utf8.dumps) == "a"
    assert key_from_text("YQ==", "base64", bytes_.dumps) == b"a"
    for text, form in (("x", "auto"), ("x", "text"), ("{", "json"), ("*", "base64"), ("5", "xml")):
        with pytest.raises(ValueError, match=r"."):
            key_from_text(text, form, int64.dumps)
