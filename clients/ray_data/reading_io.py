"""`read`: topics as a Dataset of exact offsets, planned once on the driver, read by Ray's tasks.

A Dataset that runs twice, or whose task runs again, has the same rows: ranges end at exact offsets.
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

import ray
from ray.data import Datasource
from ray.data._internal.arrow_block import _BATCH_SIZE_PRESERVING_STUB_COL_NAME as NO_COLUMN
from ray.data.block import BlockMetadata
from ray.data.datasource import ReadTask

from ...protocol.errors import ConfigError, HeadraceError
from ...protocol.model import NO_NODE, TopicPartition
from ...runtime.tracing.carrying_io import below, carried
from ..admin.admin_types import EARLIEST, LATEST
from ..arrow.layout import projection
from ..arrow.library import pa
from ..pipeline.filters import Filters
from ..pipeline.planning import refuse_another_topic
from ..pipeline.pool_io import shared_cluster
from ..pipeline.reading_io import fetch_arrow
from ..pipeline.splitting import split as split_ranges
from ..sync.admin_io import Admin
from .arguments import OF_READ_TASKS, split
from .placement import beside, ray_nodes
from .planning_io import planned
from .predicates import filters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ray.data import DataContext, Dataset

    from ..pipeline.ranges import OffsetRange, Plan
    from ..pipeline.source_options import ReadOptions

# Approximate bytes of a row besides key and value; and of a row where log sizes are unknown.
_ROW_BYTES = 48
_UNKNOWN_ROW_BYTES = 512
_TASK_BYTES, _LEAST_TASK_BYTES = 64 << 20, 4 << 20


def read(
    topics: str | list[str] | None = None,
    *,
    bootstrap_servers: str | list[str] | None = None,
    start_offset: Any = "earliest",
    end_offset: Any = "latest",
    trigger: str = "once",
    columns: Iterable[str] | None = None,
    filters: Filters | Iterable[tuple[str, str, Any]] = (),
    locality: bool = True,
    **options: Any,
) -> Dataset:
    """Topics between exact offsets, resolved now, as a Dataset with the columns of `headrace.ARROW_SCHEMA`
    (headers with `includeHeaders=True`), or the given `columns`.

    Arguments are those of `ray.data.read_kafka`: offsets are numbers, datetimes, "earliest", "latest", or
    {topic: {partition: offset}}; task options such as `num_cpus` or `override_num_blocks`; and all options of
    docs/PIPELINE.md, such as `subscribePattern` or `failOnDataLoss=False`. `filters` as for `Filters.of`.
    Tasks are placed near the leaders unless `locality` is off.

    Errors: ConfigError, UnknownTopicOrPartitionError, DataLossError, NoClusterError, ApiTimeoutError; errors
    of tasks are RayTaskErrors that are also instances of the original class, such as DataLossError.
    """
    if trigger != "once":
        raise ConfigError(f"trigger must be 'once', not {trigger!r}: see headrace.ray_data.stream")
    of_tasks, given = split(options, OF_READ_TASKS)
    wanted = Filters.of(filters)
    checked, plan = planned(topics, bootstrap_servers, start_offset, end_offset, given, wanted)
    return dataset_of(plan, checked, columns, wanted, of_tasks, locality=locality)


def dataset_of(
    plan: Plan,
    options: ReadOptions,
    columns: Iterable[str] | None,
    filters: Filters,
    of_tasks: Mapping[str, Any],
    *,
    locality: bool,
) -> Dataset:
    """The Dataset of a plan: one read per Ray node near its ranges, or a single one."""
    if not ray.is_initialized():
        ray.init()
    nodes = ray_nodes(ray.nodes()) if locality else {}  # type: ignore[no-untyped-call]
    is_one = len({node for found in nodes.values() for node in found}) < 2 or "label_selector" in of_tasks
    groups = [(None, list(plan.ranges))] if is_one else beside(plan.ranges, nodes)
    size = bytes_per_offset(plan.ranges, options)
    cpus = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
    reads: list[Dataset] = []
    for node, ranges in groups or [(None, [])]:
        source = TopicDatasource(ranges, options, columns=columns, filters=filters, row_bytes=size)
        # Soft affinity: if the node is gone, another one is used.
        near = {"label_selector": {"ray.io/node-id": node}, "fallback_strategy": [{"label_selector": {}}]}
        ours = {"override_num_blocks": source.task_count(cpus), **({} if node is None else near)}
        reads.append(ray.data.read_datasource(source, **{**ours, **of_tasks}))
    return reads[0] if len(reads) == 1 else reads[0].union(*reads[1:])


def bytes_per_offset(ranges: Iterable[OffsetRange], options: ReadOptions) -> dict[TopicPartition, float]:
    """Approximate bytes of a record on the leader's disk by partition, where known."""
    leaders = {each.tp: each.leader for each in ranges}
    if not leaders:
        return {}
    found: dict[TopicPartition, float] = {}
    with (
        contextlib.suppress(HeadraceError),
        shared_cluster(options.bootstrap, options.client) as cluster,
        Admin(cluster) as admin,
    ):
        starts = admin.list_offsets(dict.fromkeys(leaders, EARLIEST))
        ends = admin.list_offsets(dict.fromkeys(leaders, LATEST))
        answers = admin.describe_log_dirs(sorted({*leaders.values()} - {NO_NODE}), partitions=leaders)
        for log in (log for folders in answers.values() for folder in folders for log in folder.replicas):
            tp = TopicPartition(log.topic, log.partition)
            if tp in starts and tp in ends and not log.is_future:
                found[tp] = log.size_bytes / max(ends[tp].offset - starts[tp].offset, 1)
    return found


class TopicDatasource(Datasource):
    """Ranges of exact offsets for `ray.data.read_datasource`. Small, and can be pickled.

    `row_bytes`: approximate bytes of a record by partition. The number of rows is unknown before the read:
    markers and compacted records have offsets too.
    """

    def __init__(
        self,
        ranges: Iterable[OffsetRange],
        options: ReadOptions,
        *,
        columns: Iterable[str] | None = None,
        filters: Filters | None = None,
        row_bytes: Mapping[TopicPartition, float] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if columns is None:
            columns = [
                name for name in projection(None).schema.names if name != "headers" or options.include_headers
            ]
        self._ranges, self._options = tuple(ranges), options
        self._columns = projection(columns).schema.names
        self._filters = Filters() if filters is None else filters
        self._row_bytes = dict(row_bytes or {})
        self._projection_map: dict[str, str] | None = None
        self._caller = carried()  # the tasks' spans are below that of the driver

    def get_name(self) -> str:
        """The name in Ray's dashboard."""
        return "Topics"

    def estimate_inmemory_data_size(self) -> int:
        """Approximate bytes; compressed records take more."""
        return sum(map(self._size, self._ranges))

    def task_count(self, cpus: int) -> int:
        """The best number of tasks: large ones, because a task costs as much as some MiB, but at least one
        per CPU.

        Ray's default is 200, and it splits blocks if there are fewer.
        """
        size = self.estimate_inmemory_data_size()
        count = max(size // _TASK_BYTES, min(cpus, size // _LEAST_TASK_BYTES), len(self._ranges), 1)
        while (real := len(split_ranges(self._ranges, count, None))) < count and real:
            count = real
        return int(count)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """About `parallelism` tasks; only large ranges are split, in proportion to their sizes."""
        names = self._names()
        schema = projection(names).schema if names else pa.schema([(NO_COLUMN, pa.null())])
        return [
            ReadTask(
                _reading(each, self._options, names, self._filters, self._caller),
                BlockMetadata(num_rows=None, size_bytes=self._size(each), input_files=None, exec_stats=None),
                schema=schema,
                per_task_row_limit=per_task_row_limit,
            )
            for each in split_ranges(self._ranges, max(parallelism, 1), None)
        ]

    def supports_projection_pushdown(self) -> bool:
        """Columns that are not selected are not decoded."""
        return True

    def supports_predicate_pushdown(self) -> bool:
        """Partitions and offsets that are not selected are not fetched."""
        return True

    def apply_predicate(self, predicate_expr: Any) -> TopicDatasource:
        """The datasource with the predicate as filters, or unchanged if it cannot be converted: Ray filters
        then."""
        more = filters_of(predicate_expr)
        if more is None or self._filters != Filters():
            return self
        clone = copy.copy(self)
        cuts = [more.cut(each) for each in self._ranges]
        vars(clone).update(_filters=more, _ranges=tuple(cut for cut in cuts if cut is not None))
        return clone

    def _names(self) -> list[str]:
        wanted = self._get_data_columns()
        return self._columns if wanted is None else [name for name in self._columns if name in wanted]

    def _size(self, each: OffsetRange) -> int:
        """Approximate bytes, less without large columns."""
        one = self._row_bytes.get(each.tp, _UNKNOWN_ROW_BYTES)
        return int(each.size * (_ROW_BYTES + (one if {"key", "value"} & set(self._names()) else 0)))


def _reading(
    each: OffsetRange, options: ReadOptions, names: list[str], filters: Filters, caller: Mapping[str, str]
) -> Callable[[], Iterator[Any]]:
    on_loss = refuse_another_topic if options.is_stream else None

    def read_range() -> Iterator[Any]:
        columns = names or ["offset"]
        batches = fetch_arrow(each, options, columns=columns, filters=filters, on_loss=on_loss)
        while True:
            with below(caller):  # not around the yield: there the task runs other code
                batch = next(batches, None)
            if batch is None:
                return
            if names:
                yield pa.Table.from_batches([batch])
            else:
                yield pa.table({NO_COLUMN: pa.nulls(batch.num_rows)})

    return read_range
