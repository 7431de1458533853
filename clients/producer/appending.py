"""Appends records to batches of a partition, and opens new batches. Pure; called with the producer's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.records.codec import BatchBuilder, Columns
    from ...protocol.records.header import Buffer
    from ..records import Headers
    from .accumulator import Accumulator, Join
    from .batches import PartitionQueue

# (delivery, index of the first in it, how many)
Runs = list[tuple[Any, int, int]]
# Why a record cannot be appended yet: its topic or partition is not in the metadata, or the buffer is full.
NO_TOPIC, NO_PARTITION, NO_MEMORY = "topic", "partition", "room"


def append_slowly(
    accumulator: Accumulator,
    queue: PartitionQueue,
    now_ms: int,
    timestamp_ms: int,
    record: tuple[bytes | None, bytes | None, Headers],
) -> tuple[Any, int] | str:
    """Append (key, value, headers), to a new batch if necessary. Gives the delivery and the index in it, or
    NO_MEMORY. Errors: those of the codec; a batch that was opened for this record alone is dropped."""
    index, batch = -1, queue.open
    if batch is not None:
        index = accumulator.try_append(queue, timestamp_ms, *record)
    if index < 0:
        if not accumulator.open_batch(queue, now_ms):
            return NO_MEMORY
        batch = queue.open
        try:
            index = accumulator.try_append(queue, timestamp_ms, *record)
        finally:
            if index < 0:  # the codec rejected the record
                accumulator.drop_if_empty(queue)
    assert batch is not None
    return batch.delivery, index


def append_run(
    accumulator: Accumulator, queue: PartitionQueue, now_ms: int, join: Join, start: int, end: int
) -> tuple[Any, int, int] | str:
    """Append items from `start` on by `join`. Gives the delivery, the index of the first one in it and the
    count, or NO_MEMORY. Errors: as `Accumulator.append_run`."""
    if queue.open is None and not accumulator.open_batch(queue, now_ms):
        return NO_MEMORY
    batch = queue.open
    assert batch is not None
    try:
        first, position = accumulator.append_run(queue, join, start, end)
    finally:
        accumulator.drop_if_empty(queue)
    return batch.delivery, first, position - start


def append_runs(
    append: Callable[[int], tuple[Any, int, int] | str], start: int, end: int
) -> tuple[Runs, str | None]:
    """Call `append`, which is `append_run` from a position on, until all up to `end` are appended.

    Gives the runs, and why the rest was not appended. Errors: as `append_run`, of the first run only.
    """
    runs: Runs = []
    while start < end:
        try:
            found = append(start)
        except (HeadraceError, TypeError, ValueError):
            if not runs:
                raise
            break
        if isinstance(found, str):
            return runs, found
        if found[2]:
            runs.append(found)
            start += found[2]
    return runs, None


def joining_values(values: Sequence[bytes | None], timestamp_ms: int) -> Join:
    """Appends values without keys."""

    def join(builder: BatchBuilder, position: int, stop_bytes: int) -> int:
        return builder.append_values(timestamp_ms, values, position, stop_bytes)

    return join


def joining_columns(columns: Columns, rows: Buffer | None, end: int, timestamp_ms: int) -> Join:
    """Appends rows of columns, before `end`."""

    def join(builder: BatchBuilder, position: int, stop_bytes: int) -> int:
        return builder.append_columns(columns, timestamp_ms, rows, position, end, stop_bytes)

    return join
