"""The result of `send_arrow`: futures of rows are created only when accessed."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from ..producer.delivery_io import BatchResult, Delivery, RecordFuture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.records.columns import BinaryColumn


class PieceResult:
    """Consecutive rows. They were appended in the order `rows` (int32 row numbers, None: row order), in runs
    that are adjacent in one batch."""

    def __init__(
        self,
        count: int,
        rows: Any,
        timestamps: Any,
        now_ms: int,
        keys: BinaryColumn | None,
        values: BinaryColumn | None,
    ) -> None:
        self.count, self._rows, self._now_ms = count, rows, now_ms
        self._timestamps = None if timestamps is None else memoryview(timestamps).cast("B").cast("q")
        self._keys, self._values = _Sizes(keys), _Sizes(values)
        self._starts: list[int] = []  # positions in `rows` where runs start
        self._runs: list[tuple[Delivery, int]] = []  # batch, and index of the run's first record in it
        self._positions: memoryview | None = None
        self.added = 0

    def add(self, delivery: Delivery, first_index: int, count: int) -> None:
        """The next `count` rows are part of this batch."""
        self._starts.append(self.added)
        self._runs.append((delivery, first_index))
        self.added += count

    def add_failed(self, topic: str, partition: int, count: int, error: BaseException) -> None:
        """The next `count` rows failed before they were buffered."""
        failed = Delivery(topic, partition, None)
        failed.resolve(-1, -1, error)
        self.add(failed, 0, count)

    def deliveries(self) -> list[Delivery]:
        """The batches of the rows."""
        return [delivery for delivery, _ in self._runs]

    def runs(self) -> Iterator[tuple[Delivery, int, int]]:
        """(batch, index of the first record in it, number of records) of adjacent rows."""
        for (delivery, first), start, end in zip(
            self._runs, self._starts, [*self._starts[1:], self.added], strict=True
        ):
            yield delivery, first, end - start

    def future(self, row: int) -> RecordFuture:
        position = self._position(row)
        number = bisect_right(self._starts, position) - 1
        delivery, first = self._runs[number]
        timestamp = self._now_ms if self._timestamps is None else self._timestamps[row]
        index = first + position - self._starts[number]
        return RecordFuture(delivery, index, timestamp, self._keys.of(row), self._values.of(row))

    def _position(self, row: int) -> int:
        if self._rows is None:
            return row
        if self._positions is None:
            # the inverse permutation, computed at first use
            order = memoryview(self._rows).cast("B").cast("i")
            positions = memoryview(bytearray(4 * self.count)).cast("i")
            for position, number in enumerate(order):
                positions[number] = position
            self._positions = positions
        return self._positions[row]


class ArrowResult(BatchResult):
    """The outcomes of `send_arrow`, one per row and in row order."""

    def __init__(self, pieces: list[PieceResult]) -> None:
        self._pieces = pieces
        self._ends: list[int] = []
        total = 0
        for piece in pieces:
            total += piece.count
            self._ends.append(total)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[RecordFuture]:
        for piece in self._pieces:
            yield from map(piece.future, range(piece.count))

    def __getitem__(self, index: int) -> RecordFuture:
        index = range(len(self))[index]  # resolves negative indexes; IndexError if out of range
        number = bisect_right(self._ends, index)
        piece = self._pieces[number]
        return piece.future(index - (self._ends[number] - piece.count))

    def runs(self) -> Iterator[tuple[Delivery, int, int]]:
        """(batch, index of the first record in it, number of records), not in row order."""
        for piece in self._pieces:
            yield from piece.runs()

    def deliveries(self) -> list[Delivery]:
        """The distinct batches of all rows."""
        return list(dict.fromkeys(found for piece in self._pieces for found in piece.deliveries()))


class _Sizes:
    """The lengths of a column's values, from its offsets alone, so that the data need not be kept."""

    def __init__(self, column: BinaryColumn | None) -> None:
        self._first = 0 if column is None else column.first
        self._offsets = None if column is None else memoryview(column.offsets).cast("B").cast("i")
        has_nulls = column is not None and column.validity is not None
        self._validity = memoryview(column.validity).cast("B") if has_nulls else None  # type: ignore[union-attr,arg-type]

    def of(self, row: int) -> int:
        """Bytes of one value, -1 for null."""
        if self._offsets is None:
            return -1
        row += self._first
        if self._validity is not None and not self._validity[row >> 3] >> (row & 7) & 1:
            return -1
        return self._offsets[row + 1] - self._offsets[row]
