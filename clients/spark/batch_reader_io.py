"""The reader of a batch: planned once by Spark, with a task per range."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..pipeline.planner_io import Planner
from ..pipeline.planning import refuse_another_topic
from ..pipeline.reading_io import fetch_arrow
from .pushed_filters import Pushed, pushed
from .worker_garbage_io import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..pipeline.filters import Filters
    from ..pipeline.source_options import ReadOptions


log = logging.getLogger("headrace.client.spark")


class Reader(DataSourceReader):
    """Reads `columns` as Arrow record batches. Errors: those of `Planner.batch` and `fetch_arrow`."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options, self._columns = options, list(columns)
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """One partition per range of offsets."""
        plan = Planner(self._options).batch(self._pushed.filters)
        for loss in plan.losses:
            log.warning("%s", loss)
        return [InputPartition(each) for each in plan.ranges if self._pushed.has_topic(each.topic)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches; none for the partition that Spark creates for an empty plan."""
        return read_range(partition, self._options, self._columns, self._pushed.filters)


class FilteringReader(Reader):
    """A reader that accepts the filters that it can apply exactly."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """The remaining filters, which Spark applies."""
        self._pushed, left = pushed(filters)
        return left


def read_range(
    partition: InputPartition, options: ReadOptions, columns: Sequence[str], filters: Filters | None = None
) -> Iterator[Any]:
    """The record batches of a task. Errors: those of `fetch_arrow`."""
    freeze_imports()
    if partition.value is None:
        return iter(())
    on_loss = refuse_another_topic if options.is_stream else None
    return fetch_arrow(partition.value, options, columns=columns, filters=filters, on_loss=on_loss)
