"""Rows on their way into one table of columns, out of batches as they were fetched. Pure.

The positions move as rows are gathered. Whoever gathers hands the rows out, or else (an interrupt, a
cancelled task) takes them back by `Handout.undo`, so that no record falls between two hands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...protocol.model import TopicPartition
    from ...protocol.records.codec import ColumnSink, DecodedColumns
    from .fetch_state import Chunk, PartitionState


class Wanted(NamedTuple):
    """Which bytes of the records are decoded."""

    keys: bool
    values: bool
    headers: bool


class Start(NamedTuple):
    """Where a partition stood before the first record that is on its way to the user."""

    version: int
    position: int


class Gathering:
    """One table being filled, up to `max_rows` or what one column of the sink can hold."""

    def __init__(self, sink: ColumnSink, max_rows: int) -> None:
        self._sink, self._max_rows = sink, max_rows
        self.topics: list[tuple[str, int]] = []  # runs of (topic, rows)
        self.starts: dict[TopicPartition, Start] = {}
        self.is_blocked = False  # it is full, or what comes next is an error: hand these rows out first
        self.count = 0

    @property
    def left(self) -> int:
        """Rows that still fit."""
        return self._max_rows - self.count

    @property
    def is_ready(self) -> bool:
        """Whether nothing can join before these rows are handed out."""
        return self.is_blocked or self.count >= self._max_rows

    def add(self, chunk: Chunk, position: int, *, check_crc: bool) -> int:
        """Take the rows of a chunk from `position` on; the offset to go on from. Errors: as `decode`."""
        state = chunk.state
        taken, next_offset = self._sink.append(
            chunk.batch,
            partition=state.tp.partition,
            from_offset=position,
            max_rows=self.left,
            check_crc=check_crc,
        )
        if not taken:
            return next_offset
        self._note(state, taken, position)
        return next_offset

    def finish(self) -> DecodedColumns:
        """The columns, once."""
        return self._sink.finish()

    def _note(self, state: PartitionState, taken: int, position: int) -> None:
        self.count += taken
        self.starts.setdefault(state.tp, Start(state.version, position))
        topic = state.tp.topic
        if self.topics and self.topics[-1][0] == topic:
            self.topics[-1] = (topic, self.topics[-1][1] + taken)
        else:
            self.topics.append((topic, taken))
