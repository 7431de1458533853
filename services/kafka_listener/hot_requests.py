"""Hand-written decoders of Produce and Fetch requests, which every batch of every client passes. Pure.

One pass over the frame does what `skimming` and kio do in two, and makes only what handlers use. Anything
unusual (tagged fields, null for a list, invalid lengths, very many elements) is left to those two, which know
what to refuse: a decoder returns None then. A test compares each version with kio. Fields have the names of
Kafka's schemas; times are ms, ids 16 bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from .codes import FETCH, PRODUCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Read = Callable[[memoryview, int], Any]
    Part = Callable[[memoryview, int], tuple[Any, int]]

# Bound: topics, and partitions of all of them, that are decoded here.
_MAX_ELEMENTS = 1_000
_SHORT, _INT = struct.Struct(">h").unpack_from, struct.Struct(">i").unpack_from
_SHORT_INT, _TWO_INTS = struct.Struct(">hi").unpack_from, struct.Struct(">ii").unpack_from
_LIMITS = struct.Struct(">iiib").unpack_from


class _UnusualError(Exception):
    """Left to kio."""


# What an invalid frame raises here; kio and `skimming` report what is wrong with it.
_NOT_HERE = (_UnusualError, IndexError, struct.error, UnicodeDecodeError)


class ProduceBody:
    """A Produce request."""

    __slots__ = ("acks", "timeout", "topic_data", "transactional_id")

    def __init__(
        self, transactional_id: str | None, acks: int, timeout: int, topic_data: list[NamedTopic | TopicById]
    ) -> None:
        self.transactional_id, self.acks = transactional_id, acks
        self.timeout, self.topic_data = timeout, topic_data


class FetchBody:
    """A Fetch request. Versions without sessions ask for none."""

    __slots__ = (
        "forgotten_topics_data",
        "isolation_level",
        "max_bytes",
        "max_wait",
        "min_bytes",
        "rack_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(self, max_wait: int, min_bytes: int, max_bytes: int, isolation_level: int) -> None:
        self.max_wait, self.min_bytes, self.max_bytes = max_wait, min_bytes, max_bytes
        self.isolation_level = isolation_level
        self.session_id, self.session_epoch, self.rack_id = 0, -1, ""
        self.topics: Sequence[NamedTopic | TopicById] = ()
        self.forgotten_topics_data: Sequence[NamedTopic | TopicById] = ()


class NamedTopic:
    """A topic by name: the field `name` of Produce and `topic` of Fetch."""

    __slots__ = ("name", "partitions")

    def __init__(self, name: str, partitions: list[Any]) -> None:
        self.name, self.partitions = name, partitions

    @property
    def topic(self) -> str:
        return self.name

    @property
    def partition_data(self) -> list[Any]:
        """Produce's name of the field."""
        return self.partitions


class TopicById:
    """A topic in requests that name topics by id."""

    __slots__ = ("partitions", "topic_id")

    def __init__(self, topic_id: bytes, partitions: list[Any]) -> None:
        self.topic_id, self.partitions = topic_id, partitions

    @property
    def partition_data(self) -> list[Any]:
        """Produce's name of the field."""
        return self.partitions


class ProducePart:
    """A partition's batch, in the memory of the frame, which is reused after the request's turn."""

    __slots__ = ("index", "records")

    def __init__(self, index: int, records: memoryview) -> None:
        self.index, self.records = index, records


class FetchPart:
    """A partition of a Fetch."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "partition",
        "partition_max_bytes",
    )

    def __init__(self, partition: int, epoch: int, offset: int, last_epoch: int, max_bytes: int) -> None:
        self.partition, self.current_leader_epoch = partition, epoch
        self.fetch_offset, self.last_fetched_epoch = offset, last_epoch
        self.partition_max_bytes = max_bytes


class _Encoding(NamedTuple):
    """How a version encodes lengths and strings."""

    is_flexible: bool
    by_id: bool
    size: Callable[[memoryview, int], tuple[int, int]]  # of an array, or of bytes; -1 for null
    text: Callable[[memoryview, int], tuple[str | None, int]]

    def topics(self, frame: memoryview, at: int, part: Part) -> tuple[list[NamedTopic | TopicById], int]:
        """The topics, with partitions decoded by `part`, and the offset behind them."""
        count, is_flexible = self.size, self.is_flexible
        topics, at = count(frame, at)
        found: list[NamedTopic | TopicById] = []
        total = 0
        for _ in range(_few(topics)):
            name: bytes | str | None
            if self.by_id:
                name, at = bytes(frame[at : at + 16]), at + 16
            else:
                name, at = self.text(frame, at)
            partitions, at = count(frame, at)
            parts: list[Any] = []
            total += _few(partitions)
            _few(total)
            for _ in range(partitions):
                one, at = part(frame, at)
                parts.append(one)
            if name is None:
                raise _UnusualError
            found.append(TopicById(name, parts) if isinstance(name, bytes) else NamedTopic(name, parts))
            if is_flexible:
                at = _no_tags(frame, at)
        return found, at


def _form(*, is_flexible: bool, by_id: bool) -> _Encoding:
    if is_flexible:
        return _Encoding(True, by_id, _compact, _compact_text)
    return _Encoding(False, by_id, _plain_count, _plain_text)


def produce_reader(version: int) -> Read:
    """The decoder of this version of Produce."""
    form = _form(is_flexible=version >= 9, by_id=version >= 13)
    is_flexible, size = form.is_flexible, form.size

    def part(frame: memoryview, at: int) -> tuple[ProducePart, int]:
        (index,) = _INT(frame, at)
        length, at = size(frame, at + 4)
        end = at + length
        if end > len(frame) or length < 0:
            raise _UnusualError
        made = ProducePart(index, frame[at:end])
        if is_flexible:
            if frame[end]:
                raise _UnusualError
            end += 1
        return made, end

    def read(frame: memoryview, at: int) -> ProduceBody | None:
        try:
            transactional_id, at = form.text(frame, at)
            acks, timeout = _SHORT_INT(frame, at)
            topics, at = form.topics(frame, at + 6, part)
            if is_flexible:
                _no_tags(frame, at)
        except _NOT_HERE:
            return None
        return ProduceBody(transactional_id, acks, timeout, topics)

    return read


def fetch_reader(version: int) -> Read:
    """The decoder of this version of Fetch."""
    form = _form(is_flexible=version >= 12, by_id=version >= 13)
    has_session, has_rack = version >= 7, version >= 11
    before = 0 if version >= 15 else 4  # the replica id of a follower
    part = _fetch_part(version)

    def read(frame: memoryview, at: int) -> FetchBody | None:
        try:
            body = FetchBody(*_LIMITS(frame, at + before))
            at += before + 13
            if has_session:
                body.session_id, body.session_epoch = _TWO_INTS(frame, at)
                at += 8
            body.topics, at = form.topics(frame, at, part)
            if has_session:
                body.forgotten_topics_data, at = form.topics(frame, at, _number)
            rack, at = form.text(frame, at) if has_rack else ("", at)
            if rack is None:
                return None
            body.rack_id = rack
            if form.is_flexible:
                _no_tags(frame, at)
        except _NOT_HERE:
            return None
        return body

    return read


def _fetch_part(version: int) -> Part:
    """The decoder of a partition."""
    has_epoch, has_start, is_newest = version >= 9, version >= 5, version >= 12
    form = struct.Struct(f">i{'i' * has_epoch}q{'i' * is_newest}{'q' * has_start}i")
    unpack, size = form.unpack_from, form.size

    def newest(frame: memoryview, at: int) -> tuple[FetchPart, int]:
        partition, epoch, offset, last_epoch, _, max_bytes = unpack(frame, at)
        return FetchPart(partition, epoch, offset, last_epoch, max_bytes), _no_tags(frame, at + size)

    def older(frame: memoryview, at: int) -> tuple[FetchPart, int]:
        partition, *rest = unpack(frame, at)
        epoch = rest.pop(0) if has_epoch else -1
        return FetchPart(partition, epoch, rest[0], -1, rest[-1]), at + size

    return newest if is_newest else older


def elements_of(body: ProduceBody | FetchBody) -> int:
    """The number of topics and partitions that were decoded."""
    if isinstance(body, ProduceBody):
        return _elements(body.topic_data)
    return _elements(body.topics) + _elements(body.forgotten_topics_data)


def _elements(topics: Sequence[NamedTopic | TopicById]) -> int:
    count = len(topics)
    for topic in topics:
        count += len(topic.partitions)
    return count


def _number(frame: memoryview, at: int) -> tuple[int, int]:
    return _INT(frame, at)[0], at + 4


def _few(count: int) -> int:
    if not 0 <= count <= _MAX_ELEMENTS:
        raise _UnusualError
    return count


def _no_tags(frame: memoryview, at: int) -> int:
    if frame[at]:
        raise _UnusualError
    return at + 1


def _compact(frame: memoryview, at: int) -> tuple[int, int]:
    """A count or length, -1 for null, and the offset behind it."""
    byte = frame[at]
    if byte < 0x80:
        return byte - 1, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = frame[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - 1, at + 1
        shift += 7
        if shift > 28:
            raise _UnusualError


def _plain_count(frame: memoryview, at: int) -> tuple[int, int]:
    return _INT(frame, at)[0], at + 4


def _compact_text(frame: memoryview, at: int) -> tuple[str | None, int]:
    length, at = _compact(frame, at)
    return _text(frame, at, length)


def _plain_text(frame: memoryview, at: int) -> tuple[str | None, int]:
    return _text(frame, at + 2, _SHORT(frame, at)[0])


def _text(frame: memoryview, at: int, length: int) -> tuple[str | None, int]:
    if length < 0:
        if length < -1:
            raise _UnusualError
        return None, at
    end = at + length
    if end > len(frame):
        raise _UnusualError
    return str(frame[at:end], "utf-8"), end


HOT_REQUESTS: dict[int, Callable[[int], Read]] = {PRODUCE: produce_reader, FETCH: fetch_reader}
