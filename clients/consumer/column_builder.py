"""Builds one table of columns out of fetched batches. Pure.

The positions move as rows are added. The caller returns the rows to the application, or else (an interrupt, a
cancelled task) moves the positions back with `FetchCollector.rewind_columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol.model import TopicPartition
    from ...protocol.records.codec import ColumnSink, DecodedColumns
    from .fetch_state import FetchedBatch


class ColumnSelection(NamedTuple):
    """Which fields of the records are decoded."""

    keys: bool
    values: bool
    headers: bool


class StartPosition(NamedTuple):
    """The position and version of a partition before the first record that was taken."""

    version: int
    position: int


class ColumnBuilder:
    """One table, up to `max_rows` or the bytes that a column of the sink can hold."""

    def __init__(
        self,
        sink: ColumnSink,
        max_rows: int,
        on_finished: Callable[[DecodedColumns, Sequence[tuple[str, int]]], object] | None = None,
    ) -> None:
        self._sink, self._max_rows = sink, max_rows
        self._on_finished = on_finished
        self.topics: list[tuple[str, int]] = []  # runs of (topic, rows)
        self.starts: dict[TopicPartition, StartPosition] = {}
        self.is_blocked = False  # a column is full, or an error follows: return these rows first
        self.count = 0

    @property
    def left(self) -> int:
        """Rows until `max_rows`."""
        return self._max_rows - self.count

    @property
    def is_full(self) -> bool:
        """Whether these rows must be returned before others can be added."""
        return self.is_blocked or self.count >= self._max_rows

    def add(self, batch: FetchedBatch, position: int, *, check_crc: bool) -> int:
        """Add the rows of a batch from `position` on; the next offset. Errors: as the codec's `decode`."""
        tp = batch.state.tp
        added, next_offset = self._sink.append(
            batch.data,
            partition=tp.partition,
            from_offset=position,
            max_rows=self.left,
            check_crc=check_crc,
        )
        if added:
            self.count += added
            self.starts.setdefault(tp, StartPosition(batch.state.version, position))
            rows = self.topics.pop()[1] if self.topics and self.topics[-1][0] == tp.topic else 0
            self.topics.append((tp.topic, rows + added))
        return next_offset

    def finish(self) -> DecodedColumns:
        """The columns, once; `on_finished` gets them, too, with the runs of topics."""
        decoded = self._sink.finish()
        if self._on_finished is not None:
            self._on_finished(decoded, self.topics)
        return decoded
