"""Up to where records of which partitions are to be deleted: the JSON of kafka-delete-records.sh. Pure."""

from __future__ import annotations

import json
from typing import Any

from ..protocol.errors import ConfigError
from ..protocol.model import TopicPartition

MAX_FILE_BYTES = 64 << 20  # Bound: some hundred thousand partitions
ALL_COMMITTED = -1


def offsets_of(text: str) -> dict[TopicPartition, int]:
    """By partition the offset, -1 for all committed records. Errors: ConfigError that says what is wrong."""
    try:
        stated = json.loads(text)
        version, entries = stated.get("version", 1), stated["partitions"]
        offsets = {_place(entry): _number(entry["offset"], ALL_COMMITTED) for entry in entries}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            'it is not JSON like {"version": 1, "partitions": '
            f'[{{"topic": "t", "partition": 0, "offset": 10}}]}}: {error!r}'
        ) from error
    if version != 1:
        raise ConfigError(f"version {version!r}, only 1 is known")
    if not offsets or len(offsets) != len(entries):
        raise ConfigError("it names at least one partition, and none of them twice")
    return offsets


def _place(entry: Any) -> TopicPartition:
    topic = entry["topic"]
    if not isinstance(topic, str):
        raise TypeError(f"topic {topic!r} is no text")
    return TopicPartition(topic, _number(entry["partition"], 0))


def _number(value: Any, low: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < 1 << 63:
        raise ValueError(f"{value!r} is no number from {low} on")
    return value
