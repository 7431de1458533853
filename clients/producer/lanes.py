"""The lanes: the way of common records around the producer's lock, where the compiled codec is in use.

A *lane* is one topic, a *slot* one of its partitions. A slot holds the builder of its partition's open batch
while records may join it from outside the lock: in one call of compiled code that runs no Python code, so
that nothing else runs meanwhile (the GIL is its lock), and only up to the slot's limit, the bytes that are
charged to the buffer already. Everything else (a new batch, more memory, a full one) takes the lock.

What the owner of the lock relies on, and what it must do:
- A slot is opened only for a batch that holds a record, so that an empty one is never anybody else's.
- A slot is closed, in one store, *before* the batch's count and size are looked at for good.
- What is read while a slot is open (a batch's size, for instance) is old at once, but bounded by its limit.

The pure twin lets nobody around: `Producer.send` is then the readable truth of what the compiled one does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.records.codec import BatchBuilder, RecordCodec
    from .delivery_io import RecordFuture


class Slot(Protocol):
    """One partition's open batch, as records that join it outside the lock see it."""

    def open(self, builder: BatchBuilder, delivery: object, limit_bytes: int) -> None:
        """Let records join until `builder.size_bytes` would pass the limit."""

    def close(self) -> None:
        """Let no record join any more; one store, so that whoever comes later sees it."""


class Lane(Protocol):
    """The slots of one topic."""

    def add_slot(self) -> Slot:
        """The slot of the next partition."""

    def set_count(self, partition_count: int) -> None:
        """How many partitions records may be spread over; at most as many as there are slots."""

    def stick_to(self, partition: int) -> None:
        """Where records without a key go; -1: nowhere, the next one has to choose."""


class Lanes(Protocol):
    """The lanes of one producer."""

    def add_lane(self, topic: str) -> Lane:
        """The lane of a new topic."""

    def bind(self, send_slowly: Callable[..., RecordFuture]) -> Callable[..., RecordFuture]:
        """The `send` of a producer of plain bytes, whose own takes the lock for every record."""

    def try_send(self, topic: str, value: object, key: object, partition: object) -> RecordFuture | None:
        """The future of a record of now without headers that joined a batch; None if it cannot here."""

    def close(self) -> None:
        """Let nobody around any more: the producer has ended, or belongs to another process."""


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
    """The twin that lets nobody around the lock."""

    def add_lane(self, topic: str) -> Lane:
        """See `Lanes`."""
        return _LockedLane()

    def bind(self, send_slowly: Callable[..., RecordFuture]) -> Callable[..., RecordFuture]:
        """See `Lanes`."""
        return send_slowly

    def try_send(self, topic: str, value: object, key: object, partition: object) -> RecordFuture | None:
        """See `Lanes`."""
        return None

    def close(self) -> None:
        """See `Lanes`."""


_LOCKED_SLOT = _LockedSlot()


def new_lanes(codec: RecordCodec, max_record_bytes: int, ignore_keys: bool) -> Lanes:
    """The lanes that fit the codec. `max_record_bytes` bounds the key and the value of a record together."""
    if codec.name == "python":
        return LockedLanes()
    from ...protocol.records._batch import CompiledLanes

    return CompiledLanes(max_record_bytes, ignore_keys)
