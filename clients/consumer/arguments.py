"""Checks and converts the arguments of a consumer's constructor and methods. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from ...protocol.errors import ConfigError, SerializationError
from ...protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ..config import RESET_BY_DURATION
from ..durations import duration_ms
from ..foreign_names import refuse_mapping
from ..records import timestamp_to_ms
from ..serdes import deserializer, is_plain_bytes
from ..topic_names import check_topic_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..records import Record, TimestampLike
    from .fetch_collector import BadRecordAction, DeserializeField

# One partition, or a list: methods take partitions as arguments of their own, or as one list.
SomePartitions: TypeAlias = TopicPartition | Iterable[TopicPartition]


class BadRecordHandler(Protocol):
    """Called, in the thread or task that reads, for a record whose key or value cannot be deserialized."""

    def __call__(self, record: Record[bytes, bytes], error: SerializationError, /) -> Any:
        """The record to return in its place, such as `record.replace(value=...)`; None to skip it.

        `record` has the bytes of key and value; `error` names topic, partition, offset and field. An
        exception of the handler is raised by the consumer, and the position stays at the record."""


# "raise" (the position stays at the record), "skip" (with a WARNING line), or a handler.
OnDeserializeError = Literal["raise", "skip"] | BadRecordHandler


def deserializers_of(key: Any, value: Any) -> tuple[DeserializeField | None, DeserializeField | None]:
    """The deserializers of key and value, None for plain bytes. Errors: TypeError if one is no serde."""
    return (
        None if is_plain_bytes(key) else deserializer(key, "key"),
        None if is_plain_bytes(value) else deserializer(value, "value"),
    )


def bad_record_action(choice: Any, warn: Callable[[str, str], None]) -> BadRecordAction | None:
    """The action for on_deserialize_error, None to raise. `warn` logs (kind, text). Errors: ConfigError."""
    if choice == "raise":
        return None
    if choice == "skip":
        return _skipping(warn)
    if callable(choice):
        action: BadRecordAction = choice
        return action
    raise ConfigError(f"on_deserialize_error must be 'raise', 'skip' or a callable, not {choice!r}")


def _skipping(warn: Callable[[str, str], None]) -> BadRecordAction:
    def skip(_record: Any, error: SerializationError) -> None:
        warn("records skipped", f"skipped: {error}")

    return skip


def checked_topics(topics: Iterable[Any]) -> tuple[str, ...]:
    """Topic names without repetitions.

    Errors: ConfigError for a list instead of names; InvalidTopicError for an illegal name.
    """
    names: dict[str, None] = {}
    for topic in topics:
        refuse_mapping(topic)
        if not isinstance(topic, str):
            raise ConfigError(f"topics are given by name, each as an argument of its own, not {topic!r}")
        check_topic_name(topic)
        names[topic] = None
    return tuple(names)


def named_partitions(given: tuple[SomePartitions, ...]) -> tuple[TopicPartition, ...] | None:
    """The partitions of a method's arguments, without repetitions; None without arguments.

    Errors: as `checked_partitions`.
    """
    if not given:
        return None
    first: Any = given[0]
    is_list = len(given) == 1 and isinstance(first, Iterable) and not isinstance(first, str)
    if is_list and not (isinstance(first, tuple) and first and isinstance(first[0], str)):
        return checked_partitions(first)
    return checked_partitions(given)


def checked_partitions(tps: Iterable[Any]) -> tuple[TopicPartition, ...]:
    """Partitions without repetitions; a plain (topic, partition) is accepted.

    Errors: TypeError for anything else, InvalidTopicError for an illegal topic name.
    """
    partitions: dict[TopicPartition, None] = {}
    for tp in tps:
        match tp:
            case (str(topic), int(partition)):
                check_topic_name(topic)
                partitions[TopicPartition(topic, partition)] = None
            case _:
                raise TypeError(f"partitions are given as TopicPartition(topic, partition), not {tp!r}")
    return tuple(partitions)


def timestamps_of(times: Mapping[TopicPartition, TimestampLike]) -> dict[TopicPartition, int]:
    """Timestamps in ms."""
    return {tp: timestamp_to_ms(timestamp) for tp, timestamp in times.items()}


def reset_timestamp(policy: str, wall_ms: Callable[[], int]) -> int | None:
    """The ListOffsets timestamp for auto.offset.reset, None to raise NoOffsetError."""
    if policy.startswith(RESET_BY_DURATION):
        return max(wall_ms() - duration_ms(policy.removeprefix(RESET_BY_DURATION)), 0)
    return {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}.get(policy)


def checked_offset(offset: int) -> int:
    """An offset to seek to. Errors: ValueError if negative, TypeError."""
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"an offset is a whole number, not {offset!r}")
    if offset < 0:
        raise ValueError(f"an offset must not be negative: {offset}; see seek_to_beginning and seek_to_end")
    return offset
