"""Translates between kio's entities and headrace's messages where both have the same fields. Pure."""

from __future__ import annotations

import datetime
import uuid
from functools import cache
from typing import Any

import msgspec

from .entities import id_of, ms_of

_MISSING: Any = object()


def message(kind: type[Any], body: Any, **given: Any) -> Any:
    """The message with the fields of `body` of the same names, an ending in `_ms` aside, and those in
    `given`. Fields that a version lacks, or has null where the message cannot, have their defaults."""
    values = given
    for name, kafka_name, default in _fields(kind):  # type: ignore[arg-type]  # types can be hashed
        if name in given:
            continue
        value = getattr(body, kafka_name, _MISSING)
        if value is _MISSING or (value is None and default is not None):
            continue
        values[name] = _plain(value)
    return kind(**values)


def fields(answer: Any, **renamed: str) -> dict[str, Any]:
    """The fields of a message under their own names, or the names in Kafka's schemas."""
    reply = {renamed.get(name, name): getattr(answer, name) for name in answer.__struct_fields__}
    if "error_detail" in reply:
        reply["error_message"] = reply.pop("error_detail") or None
    return reply


def each(answers: Any, **renamed: str) -> list[dict[str, Any]]:
    """The fields of some messages."""
    return [fields(answer, **renamed) for answer in answers]


@cache
def _fields(kind: type[Any]) -> list[tuple[str, str, Any]]:
    """Name, Kafka's name and default of each field."""
    return [(each.name, each.name.removesuffix("_ms"), each.default) for each in msgspec.structs.fields(kind)]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return ms_of(value)
    if isinstance(value, uuid.UUID):
        return id_of(value)
    return value


def by_topic(
    results: Any, partitions: str = "partitions", number: str = "partition_index", **renamed: str
) -> list[dict[str, Any]]:
    """Results with topic and partition, grouped by topic in the order of their first results. `partitions`
    and `number` are the names of Kafka's fields."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        reply = fields(result, partition=number, **renamed)
        topics.setdefault(reply.pop("topic"), []).append(reply)
    return [{"name": topic, partitions: reply} for topic, reply in topics.items()]
