"""`read`: a topic as a DataFrame. The driver plans exact ranges, each task reads one of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..pipeline.filters import Filters
from ..pipeline.planner_io import Planner
from ..pipeline.planning import refuse_another_topic
from ..pipeline.reading_io import fetch_arrow
from ..pipeline.source_options import read_options
from .schemas import schema_of, struct_of
from .worker_garbage_io import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..pipeline.ranges import OffsetRange, Plan
    from ..pipeline.source_options import ReadOptions

log = logging.getLogger("headrace.client.spark")

# Bound: the location of a task costs the driver two calls to the JVM, 0.1 ms each.
MAX_PLACED = 2_000


def read(
    spark: Any,
    *,
    columns: Iterable[str] | None = None,
    filters: Filters | Iterable[tuple[str, str, Any]] = (),
    **options: Any,
) -> Any:
    """Topics as a DataFrame with the columns of Spark's Kafka source or some of them, and the rows that match
    `filters` (as for `Filters.of`).

    Offsets are resolved now: every action on the DataFrame reads the same rows. Options are those of
    docs/PIPELINE.md. Errors, at once: ConfigError, DataLossError, UnknownTopicOrPartitionError, TypeError,
    ValueError, NoClusterError, ApiTimeoutError. Of an action: PythonException with the error of the task, one
    of `fetch_arrow`.
    """
    wanted, left = read_options(options), Filters.of(filters)
    return frame(spark, Planner(wanted).batch(left), wanted, columns, left)


def frame(
    spark: Any,
    plan: Plan,
    options: ReadOptions,
    columns: Iterable[str] | None = None,
    filters: Filters | None = None,
) -> Any:
    """A plan as a DataFrame with one task per range. Errors: TypeError, ValueError for columns."""
    for loss in plan.losses:
        log.warning("%s", loss)
    names, _ = schema_of(columns, include_headers=options.include_headers)
    schema = struct_of(names)
    ranges = plan.ranges
    if not ranges:
        return spark.createDataFrame([], schema)

    def fetch(batches: Iterator[Any]) -> Iterator[Any]:
        return fetched(batches, ranges, options, names, filters)

    return _numbers(spark, ranges).mapInArrow(fetch, schema)


def fetched(
    batches: Iterator[Any],
    ranges: Sequence[OffsetRange],
    options: ReadOptions,
    names: list[str],
    filters: Filters | None,
) -> Iterator[Any]:
    """In a task: the rows of the ranges with the given numbers."""
    freeze_imports()
    on_loss = refuse_another_topic if options.is_stream else None
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from fetch_arrow(ranges[number], options, columns=names, filters=filters, on_loss=on_loss)


def _numbers(spark: Any, ranges: Sequence[OffsetRange]) -> Any:
    """A DataFrame with one number per partition, 0, 1, ..., with the range's hosts as preferred locations."""
    count = len(ranges)
    context = getattr(spark, "sparkContext", None)
    if context is None or count > MAX_PLACED or not any(each.hosts for each in ranges):
        return spark.range(count, numPartitions=count)
    from pyspark.sql import DataFrame

    # Only the JVM's makeRDD accepts locations; narrow transformations keep them.
    jvm, java_context, java_session = context._jvm, context._jsc.sc(), spark._jsparkSession  # noqa: SLF001
    near = {hosts: jvm.PythonUtils.toSeq(list(hosts)) for hosts in {each.hosts for each in ranges}}
    placed = jvm.java.util.ArrayList()
    for number, each in enumerate(ranges):
        placed.add(jvm.scala.Tuple2(number, near[each.hosts]))
    of_any = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").Any()
    rdd = java_context.makeRDD(jvm.PythonUtils.toSeq(placed), of_any)
    numbers = java_session.createDataset(rdd, jvm.org.apache.spark.sql.Encoders.INT())
    return DataFrame(numbers.toDF(), spark)
