"""Lanes: common records are appended without the producer's lock, where the compiled codec is in use (ADR 9).

A *lane* is one topic, a *slot* one of its partitions. A slot refers to the builder of the open batch of its
partition. A record joins that batch in one call of compiled code that runs no Python code, so that no other
thread runs meanwhile (the GIL is the lock), and only up to the limit of the slot, the bytes that are charged
to the buffer. A new batch, more memory and a full batch need the lock.

Rules for the holder of the lock:
- Open a slot only for a batch with a record, so that no other thread fills an empty batch.
- Close the slot, in one store, *before* the final count and size of the batch are read.
- Values that are read while a slot is open, such as the size, are outdated at once, but bounded by the limit.

The Python twin appends no record: `Producer.send` then does what the compiled code does otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextvars import ContextVar

    from ...protocol.records.codec import BatchBuilder, RecordCodec
    from .delivery_io import RecordFuture


class Slot(Protocol):
    """The open batch of one partition, for records that join it without the lock."""

    def open(self, builder: BatchBuilder, delivery: object, limit_bytes: int) -> None:
        """Let records join until `builder.size_bytes` would pass the limit."""

    def close(self) -> None:
        """Let no further record join; one store, which each later call sees."""


class Lane(Protocol):
    """The slots of one topic."""

    def add_slot(self) -> Slot:
        """The slot of the next partition."""

    def set_count(self, partition_count: int) -> None:
        """Set the number of partitions; at most that of the slots."""

    def stick_to(self, partition: int) -> None:
        """Set the sticky partition of records without a key; -1: none, the next record takes the lock."""


class Lanes(Protocol):
    """The lanes of one producer."""

    def add_lane(self, topic: str) -> Lane:
        """The lane of a new topic."""

    def bind(self, send_slowly: Callable[..., RecordFuture]) -> Callable[..., RecordFuture]:
        """The `send` of a producer of plain bytes; `send_slowly` takes the lock for every record."""

    def bind_traced(
        self, send_slowly: Callable[..., RecordFuture], variable: ContextVar[Any]
    ) -> Callable[..., RecordFuture]:
        """As `bind`, with tracing: `send_slowly` takes all records that are sent in another context of
        OpenTelemetry (the value of `variable`) than the idle one, which at first is the present one."""

    def set_idle_context(self, context: object) -> None:
        """Records that are sent in this context have no sampled span above them."""

    def try_send(self, topic: str, value: object, key: object, partition: object) -> RecordFuture | None:
        """Append a record without headers, with the time of now. None if that needs the lock."""

    def append_run(
        self,
        topic: str,
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamps: list[int],
        partition: int | None,
        start: int,
    ) -> tuple[list[Any], Sequence[int], Sequence[int]]:
        """Append records from `start` on, in ms, up to the first that needs the lock; partition None: by key.

        Shape: the deliveries, each with the index of the first of these records in it; and of each record
        that was appended the position of its delivery. The records of a delivery are consecutive in it.
        Errors: ValueError for lists of different lengths.
        """

    def close(self) -> None:
        """Let no further record join: the producer has ended, or belongs to another process."""


class _LockedSlot:
    def open(self, builder: BatchBuilder, delivery: object, limit_bytes: int) -> None:
        pass

    def close(self) -> None:
        pass


class _LockedLane:
    def add_slot(self) -> Slot:
        return _LOCKED_SLOT

    def set_count(self, partition_count: int) -> None:
        pass

    def stick_to(self, partition: int) -> None:
        pass


class LockedLanes:
    """The Python twin: every record takes the lock."""

    def add_lane(self, topic: str) -> Lane:
        """See `Lanes`."""
        return _LockedLane()

    def bind(self, send_slowly: Callable[..., RecordFuture]) -> Callable[..., RecordFuture]:
        """See `Lanes`."""
        return send_slowly

    def bind_traced(
        self, send_slowly: Callable[..., RecordFuture], variable: ContextVar[Any]
    ) -> Callable[..., RecordFuture]:
        """See `Lanes`."""
        return send_slowly

    def set_idle_context(self, context: object) -> None:
        """See `Lanes`."""

    def try_send(self, topic: str, value: object, key: object, partition: object) -> RecordFuture | None:
        """See `Lanes`."""
        return None

    def append_run(
        self,
        topic: str,
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamps: list[int],
        partition: int | None,
        start: int,
    ) -> tuple[list[Any], Sequence[int], Sequence[int]]:
        """See `Lanes`."""
        return [], (), ()

    def close(self) -> None:
        """See `Lanes`."""


_LOCKED_SLOT = _LockedSlot()


def new_lanes(codec: RecordCodec, max_record_bytes: int, ignore_keys: bool) -> Lanes:
    """The lanes that fit the codec. `max_record_bytes` bounds the key and the value of a record together."""
    if codec.name == "python":
        return LockedLanes()
    from ...protocol.records._batch import CompiledLanes

    return CompiledLanes(max_record_bytes, ignore_keys)
