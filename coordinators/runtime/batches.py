"""Encodes the records of decisions into batches. Pure."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ...protocol.errors import InvalidRequestError, MessageTooLargeError
from ...protocol.records.codec import active_codec
from .ports import NO_PRODUCER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...protocol.records.header import Buffer
    from .ports import Outcome, ProducerIdAndEpoch, Record

    Encode = Callable[[Any, Any], tuple[bytes, bytes | None]]

_RECORD_BYTES = 40  # Bound: bytes of a record beside key and value: attributes and seven varints


def batches_of(
    outcome: Outcome, encode: Encode, limit_bytes: int, wall_ms: int
) -> list[tuple[Buffer, Sequence[Record]]]:
    """The records of one outcome as batches, each with its records: one batch, unless the outcome is
    divisible. Errors: MessageTooLargeError, InvalidRequestError."""
    records = outcome.records
    found: list[tuple[Buffer, Sequence[Record]]] = []
    begin = 0
    while begin < len(records):
        rest = islice(records, begin, None)
        batch, count = _encoded(rest, encode, outcome.producer, limit_bytes, wall_ms)
        if not count or (count < len(records) and not outcome.is_divisible):
            raise MessageTooLargeError(
                f"{len(records)} records do not fit into max.message.bytes, {limit_bytes}"
            )
        found.append((batch, records[begin : begin + count]))
        begin += count
    return found


def _encoded(
    records: Iterable[Record], encode: Encode, producer: ProducerIdAndEpoch, limit_bytes: int, wall_ms: int
) -> tuple[Buffer, int]:
    """A batch of as many records as fit, and their number. Errors: InvalidRequestError."""
    is_transactional = producer != NO_PRODUCER
    count = 0
    try:
        builder = active_codec().builder(
            max_bytes=limit_bytes,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            # as Kafka; base sequences of coordinators are not checked
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        for record in records:
            if builder.append(wall_ms, *encode(*record)) < 0:
                break
            count += 1
    except ValueError as error:
        raise InvalidRequestError(str(error)) from error
    if builder.size_bytes > limit_bytes:  # a single record exceeds the limit
        count = 0
    return builder.finish(), count


class JointBatch:
    """One batch for the records of several decisions; a decision is added whole or not at all. Reusable after
    each `take`."""

    def __init__(self, encode: Encode, limit_bytes: int) -> None:
        self._encode = encode
        self._limit_bytes = limit_bytes
        self.count = 0
        self._builder: Any = None

    def add(self, records: Sequence[Record], wall_ms: int) -> bool:
        """Add all records; False if they do not fit or cannot be encoded."""
        try:
            encoded = [self._encode(*record) for record in records]
        except ValueError:
            return False
        size_bytes = sum(len(key) + len(value or b"") + _RECORD_BYTES for key, value in encoded)
        if self._builder is None:
            self._builder = active_codec().builder(max_bytes=self._limit_bytes)
        if self._builder.size_bytes + size_bytes > self._limit_bytes:
            return False
        for key, value in encoded:
            offset = self._builder.append(wall_ms, key, value)
            assert offset >= 0, "the size was checked above"
        self.count += len(encoded)
        return True

    def take(self) -> tuple[Buffer, int]:
        """The batch and its number of records, possibly 0."""
        builder, count = self._builder, self.count
        self._builder, self.count = None, 0
        return (builder.finish() if count else b"", count)
