"""The offset file of DeleteRecords: the JSON of kafka-delete-records.sh. Pure."""

from __future__ import annotations

import json
from typing import Any

from ..protocol.errors import ConfigError
from ..protocol.model import TopicPartition

MAX_FILE_BYTES = 64 << 20  # Bound: some hundred thousand partitions
ALL_COMMITTED = -1


def offsets_of(text: str) -> dict[TopicPartition, int]:
    """The offset by partition, -1 for all committed records. Errors: ConfigError with the reason."""
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
        raise ConfigError(f"version {version!r} is not supported: use 1")
    if not offsets or len(offsets) != len(entries):
        raise ConfigError("the file must name at least one partition, and each only once")
    return offsets


def _place(entry: Any) -> TopicPartition:
    topic = entry["topic"]
    if not isinstance(topic, str):
        raise TypeError(f"topic {topic!r} is not a string")
    return TopicPartition(topic, _number(entry["partition"], 0))


def _number(value: Any, low: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value < 1 << 63:
        raise ValueError(f"{value!r} is not an integer >= {low}")
    return value
