"""The reader of a stream: it lives in one process of the driver, and its ranges are read in tasks.

The engine keeps the offsets in its checkpoint. It may read again what it has planned before a restart, so a
micro-batch is what its two offsets say and nothing else.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ..pipeline.planner_io import Planner
from ..pipeline.plans import within
from .batch_reader_io import read_range
from .group_progress_io import GroupProgress
from .stream_offsets import from_spark, limits_for, to_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..pipeline.offsets import Position
    from ..pipeline.source_options import ReadOptions


log = logging.getLogger("headrace.client.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads `columns` as Arrow record batches. Errors: those of `Planner`, and of `fetch_arrow`."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options, self._columns = options, list(columns)
        self._planner = Planner(options)
        self._until: Position | None = None  # where a run of what is available ends
        self._progress = GroupProgress(options)

    def initialOffset(self) -> dict[str, Any]:
        """As startingOffsets and its like say."""
        return to_spark(self._planner.initial_offsets())

    def getDefaultReadLimit(self) -> Any:
        """One of the limits in the options, for there is no limit made of several; `latestOffset` knows the
        others."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Where the micro-batch ends that begins at `start`; what lies before `start` has been processed."""
        first = from_spark(start)
        self._progress.publish(first)
        limits = limits_for(limit, self._options.limits)
        if self._until is not None:  # there may never be as many as minOffsetsPerTrigger before the end
            limits = limits._replace(min_offsets=None)
        return to_spark(within(self._planner.latest_offsets(first, limits), self._until))

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes from now on is for another run."""
        self._until = self._planner.latest_offsets()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the logs ended when they were asked the last time."""
        ends = self._planner.last_ends
        return None if ends is None else to_spark(ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """A range of offsets each."""
        plan = self._planner.between(from_spark(start), from_spark(end))
        for loss in plan.losses:
            log.warning("%s", loss)
        return [InputPartition(each) for each in plan.ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches."""
        return read_range(partition, self._options, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Comes one micro-batch late, and for the last one never: `latestOffset` tells sooner."""

    def stop(self) -> None:
        """Nothing is held that the end of the process would not free; Spark may not even call this."""
