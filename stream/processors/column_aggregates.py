"""Named aggregates of a source topic by column: rows of many batches are combined per key by pyarrow, before
the store is touched once per key.

Only aggregates of whole numbers whose order does not matter, over a store with a cache that nothing else
uses: the states are those of the records one by one (docs/adr/0032-named-aggregates.md).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...clients.arrow.library import pa, pc
from ..errors import StreamsError
from ..records import RecordContext, ValueAndTimestamp
from . import arrow_columns
from .arrow_paths import PathResult, serdes_of
from .table_store import operator_store

if TYPE_CHECKING:
    from ..processing import ProcessorContext
    from ..task.settings import TaskSettings
    from ..topology.column_paths import ColumnPath
    from .named_aggregates import NamedAggregates

MAX_ROWS = 131_072  # then they are combined; with their keys they take some megabytes
_TOO_LARGE = 2**63
_US = 1000  # of a millisecond

# The columns of a group: number, sum, smallest and largest value, and what they are made of; of groups, they
# are made of the columns themselves.
_COUNT, _SUM, _MIN, _MAX, _LATEST, _ROW = "count", "sum", "min", "max", "latest", "row"
_OF_ROWS = {
    _COUNT: ("value", "count"),
    _SUM: ("value", "sum"),
    _MIN: ("value", "min"),
    _MAX: ("value", "max"),
    _LATEST: ("timestamp", "max"),
    _ROW: (_ROW, "max"),
}
_OF_GROUPS = {
    _COUNT: (_COUNT, "sum"),
    _SUM: (_SUM, "sum"),
    _MIN: (_MIN, "min"),
    _MAX: (_MAX, "max"),
    _LATEST: (_LATEST, "max"),
    _ROW: (_ROW, "max"),
}
_LAST = ("timestamp", "offset", "raw_key", "data")
"""Of the last row of a group."""
_NEEDS = {
    "count": (_COUNT,),
    "sum": (_SUM,),
    "mean": (_SUM, _COUNT),
    "min": (_MIN,),
    "max": (_MAX,),
}

_new = tuple.__new__  # in a third of the time of RecordContext(...)


class AggregatePath:
    """The path of a source topic that an aggregation follows directly."""

    sink_topic = ""

    def __init__(self, path: ColumnPath, settings: TaskSettings) -> None:
        assert path.aggregate is not None
        self._key, self._value = serdes_of(path.source, settings)
        self.last_section = path.aggregate.name

    def run(self, batch: Any) -> PathResult:
        """The rows with their keys, their values as numbers, and timestamps in us. Errors: any, for rows that
        have to be processed as records: some cannot be read, are dropped, or have headers."""
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
            "timestamp": timestamps.view(pa.int64()),
            "offset": batch.column("offset"),
        }
        latest_ms = pc.max(columns["timestamp"]).as_py() // _US
        return PathResult(pa.RecordBatch.from_pydict(columns), latest_ms)


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
        self._groups: list[Any] = []  # tables of earlier rows by key
        self._group_count = 0
        self._place = ("", -1)
        context.flush_before_stores(self)

    def __bool__(self) -> bool:
        """Whether rows wait."""
        return self._count > 0 or self._group_count > 0

    def add(self, rows: Any) -> None:
        """Rows of an `AggregatePath`; those of a full run are combined."""
        where = self._context.record_context
        assert where is not None, "the task has set that of the last row"
        place = where.topic, where.partition
        if self and place != self._place:
            self.flush()
        self._place = place
        self._waiting.append(rows)
        self._count += rows.num_rows
        if self._count >= MAX_ROWS:
            self._combine()
        if self._group_count >= MAX_ROWS:
            self.flush()

    def flush(self) -> None:
        """Add the rows that wait to the store."""
        self._combine()
        groups, self._groups, self._group_count = self._groups, [], 0
        if not groups:
            return
        before = self._context.record_context
        try:
            for table in self._merged(groups):
                self._write(table)
        finally:
            self._context.record_context = before

    def _combine(self) -> None:
        """Group the rows that wait by key: a key that comes again is not an object for each run."""
        waiting, self._waiting, self._count = self._waiting, [], 0
        for rows in self._divided(pa.Table.from_batches(waiting)) if waiting else ():
            groups = self._grouped(rows, _OF_ROWS)
            self._groups.append(groups)
            self._group_count += groups.num_rows

    def _divided(self, rows: Any) -> list[Any]:
        """In order, so that each sum fits into 64 bits."""
        if _SUM not in self._needs or not _may_overflow(rows.column("value")):
            return [rows]
        middle = rows.num_rows // 2
        return self._divided(rows.slice(0, middle)) + self._divided(rows.slice(middle))

    def _merged(self, groups: list[Any]) -> list[Any]:
        """As one table, if each sum fits into 64 bits."""
        if len(groups) == 1:
            return groups
        rows = pa.concat_tables(groups)
        if _SUM in self._needs and _may_overflow(rows.column(_SUM)):
            return groups
        return [self._grouped(rows, _OF_GROUPS)]

    def _grouped(self, rows: Any, columns: dict[str, tuple[str, str]]) -> Any:
        """The groups of rows, or of groups: key, what the aggregates need, and columns of the last row."""
        names = [*self._needs, _LATEST, _ROW]
        numbered = {
            **{name: rows.column(name) for name in {columns[name][0] for name in names} if name != _ROW},
            "key": rows.column("key"),
            _ROW: _numbers(1 << rows.num_rows.bit_length()).slice(0, rows.num_rows),
        }
        found = pa.table(numbered).group_by("key", use_threads=False)
        grouped = found.aggregate([columns[name] for name in names])
        by_name = {name: grouped.column("_".join(columns[name])) for name in names}
        last = rows.select(_LAST).take(by_name.pop(_ROW))
        return pa.table(
            {"key": grouped.column("key"), **by_name, **{name: last.column(name) for name in _LAST}}
        )

    def _write(self, groups: Any) -> None:
        """Add groups to the store, in the order of the last row of each."""
        context, store, (topic, partition) = self._context, self._store, self._place
        empty, merges, get, put = self._aggregates.empty, self._merges, store.get, store.put_once
        groups = groups.sort_by("offset")
        columns = {name: groups.column(name).to_pylist() for name in groups.column_names}
        states = zip(*(_states(kind, columns) for kind in self._kinds), strict=True)
        last = (columns[name] for name in _LAST)
        for key, partial, latest, timestamp, offset, raw_key, raw_value in zip(
            columns["key"], states, columns[_LATEST], *last, strict=True
        ):
            context.record_context = _new(
                RecordContext, (timestamp // _US, offset, topic, partition, (), raw_key, raw_value)
            )
            found = get(key)
            states_before, latest_before = (empty, -1) if found is None else found
            merged = [
                merge(state, other)
                for merge, state, other in zip(merges, states_before, partial)  # noqa: B905  # one each
            ]
            put(key, _new(ValueAndTimestamp, (merged, max(latest // _US, latest_before))))


def _states(kind: str, columns: dict[str, list[Any]]) -> list[Any]:
    """The states of an aggregate, by key."""
    if kind == "mean":
        return [list(pair) for pair in zip(columns[_SUM], columns[_COUNT], strict=True)]
    return columns[_NEEDS[kind][0]]


@lru_cache(maxsize=2)
def _numbers(count: int) -> Any:
    """From 0 on."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), count)), 1)


def _may_overflow(values: Any) -> bool:
    """Whether the sum of some values might not fit into 64 bits; of one it does."""
    edges = pc.min_max(values).as_py()
    return len(values) > 1 and max(-edges["min"], edges["max"]) * len(values) >= _TOO_LARGE
