"""Keys and values of stores as JSON, both ways. Pure.

Values of JSON types are unchanged. Bytes are {"$bytes": base64}, a float that is no number {"$float": "nan"},
times
and UUIDs texts, tuples and sets lists; ValueAndTimestamp, VersionedRecord and Windowed are objects of their
fields; anything else is {"$type": name, "$text": str(value)}.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from ...clients.serdes import BAD_DATA
from ..records import ValueAndTimestamp, VersionedRecord, Windowed

KEY_FORMATS = ("auto", "text", "json", "base64")


def json_form(value: Any) -> Any:
    """The value in a form that `json.dumps` accepts."""
    for kinds, form in _FORMS:
        if isinstance(value, kinds):
            return form(value)
    return {"$type": type(value).__name__, "$text": str(value)}


def _version(value: VersionedRecord[Any]) -> Any:
    return {"value": json_form(value.value), "timestamp": value.timestamp, "valid_to": value.valid_to}


def _object(value: Mapping[Any, Any]) -> Any:
    if all(isinstance(key, str) for key in value):
        return {key: json_form(each) for key, each in value.items()}
    return {"$entries": [[json_form(key), json_form(each)] for key, each in value.items()]}


_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((bool, int, str, type(None)), lambda value: value),
    (float, lambda value: value if isfinite(value) else {"$float": str(value)}),
    ((bytes, bytearray, memoryview), lambda value: {"$bytes": b64encode(bytes(value)).decode()}),
    (ValueAndTimestamp, lambda value: {"value": json_form(value.value), "timestamp": value.timestamp}),
    (VersionedRecord, _version),
    (
        Windowed,
        lambda value: {"key": json_form(value.key), "start": value.window.start, "end": value.window.end},
    ),
    (Mapping, _object),
    ((list, tuple, set, frozenset), lambda value: [json_form(each) for each in value]),
    ((datetime, date, time), lambda value: value.isoformat()),
    ((UUID, Decimal), str),
)


def key_from_text(text: str, form: str, dumps: Callable[[Any], bytes]) -> Any:
    """The key for a text: with `auto`, the text itself if the serde accepts it, otherwise its JSON. Errors:
    ValueError for one that the serde refuses, or an unknown form."""
    if form not in KEY_FORMATS:
        raise ValueError(f"key_format {form!r} is none of {', '.join(KEY_FORMATS)}")
    if form == "base64":
        return _checked(b64decode(text, validate=True), dumps)
    if form == "json":
        return _checked(json.loads(text), dumps)
    if form == "text":
        return _checked(text, dumps)
    try:
        return _checked(text, dumps)
    except ValueError as error:
        try:
            return _checked(json.loads(text), dumps)
        except ValueError:
            raise error from None


def _checked(key: Any, dumps: Callable[[Any], bytes]) -> Any:
    try:
        dumps(key)
    except BAD_DATA as error:
        raise ValueError(f"key {key!r} does not fit the serde of the store: {error}") from error
    return key
