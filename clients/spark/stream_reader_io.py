"""The reader of a stream: it runs in one process of the driver, and its ranges are read in tasks.

The engine keeps the offsets in its checkpoint. It may read a planned batch again after a restart, so a
micro-batch depends on its two offsets only.
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
    """Reads `columns` as Arrow record batches. Errors: those of `Planner` and `fetch_arrow`."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options, self._columns = options, list(columns)
        self._planner = Planner(options)
        self._until: Position | None = None  # end of a run with available-now trigger
        self._progress = GroupProgress(options)

    def initialOffset(self) -> dict[str, Any]:
        """The start offsets of the options."""
        return to_spark(self._planner.initial_offsets())

    def getDefaultReadLimit(self) -> Any:
        """One of the limits in the options, as there is no combined limit; `latestOffset` applies the
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
        """The end of the micro-batch that starts at `start`; earlier records have been processed."""
        first = from_spark(start)
        self._progress.publish(first)
        limits = limits_for(limit, self._options.limits)
        if self._until is not None:  # there may be fewer than minOffsetsPerTrigger before the end
            limits = limits._replace(min_offsets=None)
        return to_spark(within(self._planner.latest_offsets(first, limits), self._until))

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the current end: later records belong to another run."""
        self._until = self._planner.latest_offsets()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The log end offsets of the last request."""
        ends = self._planner.last_ends
        return None if ends is None else to_spark(ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One partition per range of offsets."""
        plan = self._planner.between(from_spark(start), from_spark(end))
        for loss in plan.losses:
            log.warning("%s", loss)
        return [InputPartition(each) for each in plan.ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a task."""
        return read_range(partition, self._options, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Unused: it is called one micro-batch late, and not for the last one; `latestOffset` commits
        progress earlier."""

    def stop(self) -> None:
        """Unused: the end of the process frees all resources; Spark may not even call this."""
