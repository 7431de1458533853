"""The batches of a task whose records pass through Arrow sections first, without an object per record."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ...protocol.model import TopicPartition

log = logging.getLogger("headrace.stream")


@dataclass(frozen=True, slots=True)
class ColumnIo:
    """`paths` by source topic: ArrowPath. `produce` sends rows to a topic; `records_of` makes records of a
    batch that its path cannot process."""

    paths: Mapping[str, Any]
    produce: Callable[[str, Any], None]
    records_of: Callable[[Any], list[Any]]


class Columns:
    """Batches of input partitions that wait."""

    def __init__(self, io: ColumnIo | None) -> None:
        self.io = io
        self.paths: Mapping[str, Any] = {} if io is None else io.paths
        self._waiting: deque[tuple[TopicPartition, Any]] = deque()
        self.rows = 0
        self.counted_once = 0
        """Rows of the batches that were processed by column, less one for each batch."""

    def add(self, partition: TopicPartition, batch: Any) -> None:
        self._waiting.append((partition, batch))
        self.rows += batch.num_rows

    def take(self) -> tuple[TopicPartition, Any]:
        """The next batch. Errors: IndexError if there is none."""
        partition, batch = self._waiting.popleft()
        self.rows -= batch.num_rows
        return partition, batch

    def run(self, partition: TopicPartition, batch: Any) -> Any:
        """The PathResult of a batch; None if it has to be processed as records."""
        try:
            result = self.paths[partition.topic].run(batch)
        except Exception:  # it is processed again, record by record
            log.debug("a batch of %s is processed record by record", partition, exc_info=True)
            return None
        if result is not None:
            self.counted_once += batch.num_rows - 1
        return result

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Drop the batches of other partitions."""
        self._waiting = deque(each for each in self._waiting if each[0] in partitions)
        self.rows = sum(batch.num_rows for _, batch in self._waiting)

    def clear(self) -> None:
        self._waiting.clear()
        self.rows = 0
