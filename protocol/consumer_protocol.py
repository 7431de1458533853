"""Consumer subscriptions and assignments inside the classic group protocol.

Both begin with a version; later versions append fields, so a reader decodes the fields it knows and ignores
the rest. No compact or tagged fields. Source: Kafka ConsumerProtocolSubscription.json,
ConsumerProtocolAssignment.json, ConsumerProtocol.java.
"""

from __future__ import annotations

import struct
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from .errors import InvalidRequestError
from .model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

PROTOCOL_TYPE = "consumer"
MAX_VERSION = 3
NO_GENERATION = -1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class Subscription(NamedTuple):
    """A member's topics, its owned partitions (from version 1 on), the generation of these (2), and its rack
    (3)."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


class Assignment(NamedTuple):
    """The assignment of one member, chosen by the group leader."""

    version: int
    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Kafka's bytes in the subscription's version, without fields of later versions."""
    version = _known(subscription.version)
    parts = [_INT16.pack(version), _INT32.pack(len(subscription.topics))]
    parts += [_string(topic) for topic in sorted(subscription.topics)]
    parts.append(_nullable_bytes(subscription.user_data))
    if version >= 1:
        parts.append(_partitions(subscription.owned))
    if version >= 2:
        parts.append(_INT32.pack(subscription.generation_id))
    if version >= 3:
        rack = subscription.rack_id
        parts.append(_INT16.pack(-1) if rack is None else _string(rack))
    return b"".join(parts)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription. Errors: InvalidRequestError if it is truncated or invalid."""
    reader = _Reader(data, "subscription")
    given = reader.version()
    version = min(given, MAX_VERSION)
    topics = tuple(reader.string() for _ in range(reader.count(2)))
    return Subscription(
        given,
        topics,
        reader.nullable_bytes(),
        reader.partitions() if version >= 1 else (),
        reader.int32() if version >= 2 else NO_GENERATION,
        reader.nullable_string() if version >= 3 else None,
    )


def encode_assignment(assignment: Assignment) -> bytes:
    """Kafka's bytes in the assignment's version; all versions have the same fields."""
    version = _INT16.pack(_known(assignment.version))
    return version + _partitions(assignment.partitions) + _nullable_bytes(assignment.user_data)


def decode_assignment(data: bytes) -> Assignment:
    """Decode an assignment; empty bytes are an empty assignment, as of a member that the leader did not
    assign.

    Errors: InvalidRequestError if it is truncated or invalid.
    """
    if not data:
        return Assignment(0, ())
    reader = _Reader(data, "assignment")
    return Assignment(reader.version(), reader.partitions(), reader.nullable_bytes())


def encode_claims(partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
    """The user data of the sticky assignor: a member's partitions and their generation.

    Source: Kafka StickyAssignor.java, STICKY_ASSIGNOR_USER_DATA_V1.
    """
    return _partitions(partitions) + _INT32.pack(generation_id)


def decode_claims(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """Decode the user data of the sticky assignor. Errors: InvalidRequestError."""
    reader = _Reader(data, "user data")
    return reader.partitions(), reader.int32()


def _known(version: int) -> int:
    if not 0 <= version <= MAX_VERSION:
        raise ValueError(f"the version must be within 0..{MAX_VERSION}, not {version}")
    return version


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _nullable_bytes(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


def _partitions(tps: Iterable[TopicPartition]) -> bytes:
    by_topic = [(topic, list(group)) for topic, group in groupby(sorted(set(tps)), attrgetter("topic"))]
    parts = [_INT32.pack(len(by_topic))]
    for topic, group in by_topic:
        parts += [_string(topic), _INT32.pack(len(group))]
        parts.append(struct.pack(f">{len(group)}i", *(tp.partition for tp in group)))
    return b"".join(parts)


class _Reader:
    """Reads fields in order. Bound: counts that exceed the remaining bytes are rejected."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._what, self._at = data, what, 0

    def version(self) -> int:
        version = self._int16()
        if version < 0:
            raise self._bad(f"version {version} is unknown")
        return version

    def int32(self) -> int:
        value: int = _INT32.unpack(self._take(4))[0]
        return value

    def count(self, least_bytes: int) -> int:
        """The number of following items of at least `least_bytes` each."""
        count = self.int32()
        if count < 0 or count * least_bytes > len(self._data) - self._at:
            raise self._bad(f"{count} entries exceed the remaining bytes")
        return count

    def string(self) -> str:
        """A required string."""
        text = self.nullable_string()
        if text is None:
            raise self._bad("a name is missing")
        return text

    def nullable_string(self) -> str | None:
        """A string, or None."""
        length = self._int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise self._bad("text is not UTF-8") from error

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.count(6)):
            topic = self.string()
            count = self.count(4)
            for partition in struct.unpack(f">{count}i", self._take(4 * count)):
                if partition < 0:
                    raise self._bad(f"{topic} has invalid partition {partition}")
                found.append(TopicPartition(topic, partition))
        return tuple(found)

    def _int16(self) -> int:
        value: int = _INT16.unpack(self._take(2))[0]
        return value

    def _take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) < length:
            raise self._bad(f"{length} bytes expected at position {self._at}, {len(taken)} are left")
        self._at += length
        return taken

    def _bad(self, why: str) -> InvalidRequestError:
        return InvalidRequestError(f"invalid {self._what} of a consumer: {why}")
