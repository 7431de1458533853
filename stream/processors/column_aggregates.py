"""Named aggregates of a source topic by column: rows of many batches are combined per key by pyarrow, before
the store is touched once per key.

Only aggregates of whole numbers whose order does not matter, over a store with a cache that nothing else
uses: the states are those of the records one by one (docs/adr/0032-named-aggregates.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...clients.arrow.library import pa, pc
from ..errors import StreamsError
from ..records import RecordContext, ValueAndTimestamp
from . import arrow_columns
from .arrow_paths import PathResult, serdes_of
from .table_store import operator_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..processing import ProcessorContext
    from ..task.settings import TaskSettings
    from ..topology.column_paths import ColumnPath
    from .named_aggregates import NamedAggregates

MAX_ROWS = 131_072  # then they are combined; with their keys they take some megabytes
_TOO_LARGE = 2**63

# The columns of a group: number, sum, smallest and largest value.
_COUNT, _SUM, _MIN, _MAX = "value_count", "value_sum", "value_min", "value_max"
_NEEDS = {
    "count": (_COUNT,),
    "sum": (_SUM,),
    "mean": (_SUM, _COUNT),
    "min": (_MIN,),
    "max": (_MAX,),
}


class AggregatePath:
    """The path of a source topic that an aggregation follows directly."""

    sink_topic = ""

    def __init__(self, path: ColumnPath, settings: TaskSettings) -> None:
        assert path.aggregate is not None
        self._key, self._value = serdes_of(path.source, settings)
        self.last_section = path.aggregate.name

    def run(self, batch: Any) -> PathResult:
        """The rows with their keys, and their values as numbers. Errors: any, for rows that have to be
        processed as records: some cannot be read, are dropped, or have headers."""
        topic = batch.column("topic")[0].as_py()
        data, timestamps = batch.column("value"), batch.column("timestamp")
        if batch.column("key").null_count or data.null_count or timestamps.null_count:
            raise StreamsError("a record has no key, no value or no timestamp")
        if pc.sum(pc.list_value_length(batch.column("headers"))).as_py():
            raise StreamsError("a record has headers")
        key = arrow_columns.decoded(batch.column("key"), self._key, topic, "key")
        columns = {
            "key": key,
            "value": arrow_columns.decoded(data, self._value, topic, "value"),
            "data": data,
            "raw_key": batch.column("key"),
            "timestamp": arrow_columns.timestamps_ms(batch, -1),
            "offset": batch.column("offset"),
        }
        latest_ms = pc.max(columns["timestamp"]).as_py()
        return PathResult(pa.RecordBatch.from_pydict(columns), latest_ms)


class _Partial(NamedTuple):
    """What the rows of a key come to. `last`: timestamp, offset, bytes of key and value of the last one."""

    key: Any
    states: Sequence[Any]
    latest_ms: int
    last: tuple[int, int, bytes, bytes]


class ColumnRuns:
    """The rows of one task that wait to be combined."""

    def __init__(self, context: ProcessorContext, aggregates: NamedAggregates, store_name: str) -> None:
        self._context = context
        self._aggregates = aggregates
        serde = aggregates.states_serde()
        self._store = operator_store(context, store_name).of_values(serde, aggregates.can_wait)
        self._kinds = tuple(each.kind for each in aggregates.aggregates)
        self._merges = tuple(each.merge for each in aggregates.aggregates)
        self._needs = sorted({column for kind in self._kinds for column in _NEEDS[kind]})
        self._waiting: list[Any] = []
        self._count = 0
        self._place = ("", -1)
        context.flush_before_stores(self)

    def __bool__(self) -> bool:
        """Whether rows wait."""
        return self._count > 0

    def add(self, rows: Any) -> None:
        """Rows of an `AggregatePath`; those of a full run are combined."""
        where = self._context.record_context
        assert where is not None, "the task has set that of the last row"
        place = where.topic, where.partition
        if self._waiting and place != self._place:
            self.flush()
        self._place = place
        self._waiting.append(rows)
        self._count += rows.num_rows
        if self._count >= MAX_ROWS:
            self.flush()

    def flush(self) -> None:
        """Combine the rows that wait."""
        waiting, self._waiting, self._count = self._waiting, [], 0
        if not waiting:
            return
        context, store, (topic, partition) = self._context, self._store, self._place
        before = context.record_context
        empty, merges, get, put = self._aggregates.empty, self._merges, store.get, store.put
        try:
            for key, partial, latest, last in self._partials(pa.Table.from_batches(waiting)):
                timestamp, offset, raw_key, raw_value = last
                context.record_context = RecordContext(
                    timestamp, offset, topic, partition, (), raw_key, raw_value
                )
                found = get(key)
                states, old_latest = (empty, -1) if found is None else found
                merged = [
                    merge(state, other) for merge, state, other in zip(merges, states, partial, strict=True)
                ]
                put(key, ValueAndTimestamp(merged, max(latest, old_latest)))
        finally:
            context.record_context = before

    def _partials(self, rows: Any) -> list[_Partial]:
        """By key, in the order of the last row of each."""
        if _SUM in self._needs and _may_overflow(rows.column("value")):
            middle = rows.num_rows // 2
            return self._partials(rows.slice(0, middle)) + self._partials(rows.slice(middle))
        ones = pa.repeat(pa.scalar(1, pa.int32()), rows.num_rows)
        numbers = pc.subtract(pc.cumulative_sum(ones), 1)
        columns = {name: rows.column(name) for name in ("key", "value", "timestamp")}
        grouped = (
            pa.table({**columns, "row": numbers})
            .group_by("key", use_threads=False)
            .aggregate(
                [*(tuple(need.split("_")) for need in self._needs), ("timestamp", "max"), ("row", "max")]
            )
            .sort_by("row_max")
        )
        last = rows.select(["timestamp", "offset", "raw_key", "data"]).take(grouped.column("row_max"))
        found = {need: grouped.column(need).to_pylist() for need in self._needs}
        states = zip(*(_states(kind, found) for kind in self._kinds), strict=True)
        latest = grouped.column("timestamp_max").to_pylist()
        places = zip(*(column.to_pylist() for column in last.columns), strict=True)
        keys = grouped.column("key").to_pylist()
        return list(map(_Partial, keys, states, latest, places))


def _states(kind: str, columns: dict[str, list[int]]) -> list[Any]:
    """The states of an aggregate, by key."""
    if kind == "mean":
        return [list(pair) for pair in zip(columns[_SUM], columns[_COUNT], strict=True)]
    return columns[_NEEDS[kind][0]]


def _may_overflow(values: Any) -> bool:
    """Whether the sum of some values might not fit into 64 bits; of one it does."""
    edges = pc.min_max(values).as_py()
    return len(values) > 1 and max(-edges["min"], edges["max"]) * len(values) >= _TOO_LARGE
