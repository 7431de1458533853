"""The user's settings of one consumer, turned into what the engine takes. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ...protocol.errors import ConfigError, SerializationError
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ..config import RESET_BY_DURATION
from ..durations import duration_ms
from ..records import timestamp_to_ms
from ..serdes import deserializer, is_plain_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..records import TimestampLike
    from .handout import Loads, OnBadRecord

log = logging.getLogger("headrace.client.consumer")

# "raise", "skip" (logged), or a callable that gets the record as it came and the error, and returns the
# record to hand out, or None to skip it.
OnDeserializeError = Literal["raise", "skip"] | Callable[[Any, SerializationError], Any]


def loads_of(key: Any, value: Any) -> tuple[Loads | None, Loads | None]:
    """The deserialisers of key and value, None for plain bytes. Errors: TypeError for no serde."""
    return (
        None if is_plain_bytes(key) else deserializer(key, "key"),
        None if is_plain_bytes(value) else deserializer(value, "value"),
    )


def bad_record_action(choice: Any) -> OnBadRecord | None:
    """What on_deserialize_error asks for; None to raise. Errors: ConfigError."""
    if choice == "raise":
        return None
    if choice == "skip":
        return _skip
    if callable(choice):
        action: OnBadRecord = choice
        return action
    raise ConfigError(f"on_deserialize_error must be 'raise', 'skip' or a callable, not {choice!r}")


def _skip(_record: Any, error: SerializationError) -> None:
    log.warning("skipped: %s", error)


def checked_topics(topics: Iterable[Any]) -> tuple[str, ...]:
    """Topic names, each once. Errors: ConfigError for what is not text (a list instead of its items)."""
    names: dict[str, None] = {}
    for topic in topics:
        if not isinstance(topic, str):
            raise ConfigError(f"topics are given by name, each as an argument of its own, not {topic!r}")
        names[topic] = None
    return tuple(names)


def checked_partitions(tps: Iterable[Any]) -> tuple[TopicPartition, ...]:
    """Partitions, each once; a plain (topic, partition) will do. Errors: TypeError for anything else."""
    wanted: dict[TopicPartition, None] = {}
    for tp in tps:
        match tp:
            case (str(topic), int(partition)):
                wanted[TopicPartition(topic, partition)] = None
            case _:
                raise TypeError(f"partitions are given as TopicPartition(topic, partition), not {tp!r}")
    return tuple(wanted)


def timestamps_of(wanted: Mapping[TopicPartition, TimestampLike]) -> dict[TopicPartition, int]:
    """Timestamps in ms by partition."""
    return {tp: timestamp_to_ms(timestamp) for tp, timestamp in wanted.items()}


def reset_timestamp(policy: str, wall_ms: Callable[[], int]) -> int | None:
    """Where auto.offset.reset leads: the timestamp to look up, None to raise NoOffsetError."""
    if policy.startswith(RESET_BY_DURATION):
        return max(wall_ms() - duration_ms(policy.removeprefix(RESET_BY_DURATION)), 0)
    return {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}.get(policy)


def checked_offset(offset: int) -> int:
    """An offset to seek to. Errors: ValueError when negative, TypeError."""
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"an offset is a whole number, not {offset!r}")
    if offset < 0:
        raise ValueError(f"an offset must not be negative: {offset}; see seek_to_beginning and seek_to_end")
    return offset
