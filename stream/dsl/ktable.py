"""KTable, and grouped, windowed and cogrouped streams, which become tables. Java's operators, in snake_case.

Functions get the value, and with `with_key` the key before it; `filter` and `group_by` get key and value.
`store` names or describes the store of a table; `name` names the node of an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import aggregations, named_aggregations, table_joins, table_operators
from .aggregations import Cogrouped, Grouped
from .handles import TableHandle, takes_of
from .windows import CountWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import ValueGetterSupplier
    from ..processors.aggregate_functions import Aggregate
    from ..records import Row, Windowed
    from ..topology.specs import Partitioner
    from .kstream import KStream
    from .late import Late
    from .stores import StoreArgument
    from .suppressed import Suppressed

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
R = TypeVar("R")


class KTable(Generic[K, V]):
    """A table: the latest value of each key."""

    def __init__(self, handle: TableHandle) -> None:
        self.handle = handle

    @property
    def queryable_store_name(self) -> str | None:
        """The name of its store, if the user gave it one."""
        return self.handle.queryable_name

    def filter(
        self, predicate: Callable[[K, V], object], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, V]:
        """The rows for which `predicate` is true."""
        return KTable(
            table_operators.filtered(self.handle, predicate, takes_of(True), store, name, filter_not=False)
        )

    def filter_not(
        self, predicate: Callable[[K, V], object], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, V]:
        """The rows for which `predicate` is false."""
        return KTable(
            table_operators.filtered(self.handle, predicate, takes_of(True), store, name, filter_not=True)
        )

    @overload
    def map_values(
        self, mapper: Callable[[V], R], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, R]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], R],
        *,
        with_key: Literal[True],
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    def map_values(
        self,
        mapper: Callable[..., Any],
        *,
        with_key: bool = False,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """The rows with other values."""
        return KTable(table_operators.mapped_values(self.handle, mapper, takes_of(with_key), store, name))

    def transform_values(
        self, transformer: Any, *stores: str, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, Any]:
        """The rows with the values that a transformer of the user makes; `stores`: those that it uses."""
        return KTable(table_operators.transformed_values(self.handle, transformer, stores, store, name))

    @overload
    def to_stream(self, *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, mapper: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]: ...
    def to_stream(
        self, mapper: Callable[[K, V], Any] | None = None, *, name: str | None = None
    ) -> KStream[Any, V]:
        """The changes as records, under the keys that `mapper` returns, if given."""
        handle = table_operators.to_stream(self.handle, name)
        stream: KStream[Any, V] = self.handle.graph.make_stream(handle)
        return stream if mapper is None else stream.select_key(mapper)

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Holds changes back: `until_window_closes()`, `until_time_limit(...)`."""
        return KTable(table_operators.suppressed(self.handle, suppressed))

    def group_by(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:
        """The rows under other keys and with other values."""
        return KGroupedTable(table_operators.GroupedTable(self.handle, mapper, key, value, name))

    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        how: str = "inner",
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K2, V2],
        joiner: Callable[[V, V2], R],
        *,
        foreign_key: Callable[[V], K2 | None],
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        how: str = "inner",
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K2, V2],
        joiner: Callable[[V, V2], R],
        *,
        foreign_key: Callable[[K, V], K2 | None],
        with_key: Literal[True],
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        how: str = "inner",
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    def join(
        self, other: KTable[Any, Any], joiner: Callable[[Any, Any], Any], **options: Any
    ) -> KTable[K, Any]:
        """The rows of both tables by key, or by the key of the other table that `foreign_key` takes from the
        value (with `with_key`: from key and value). `how`: "inner", "left" or "outer"."""
        return KTable(table_joins.joined(self.handle, other.handle, joiner, **options))

    def left_join(
        self, other: KTable[Any, V2], joiner: Callable[[V, V2 | None], R], **options: Any
    ) -> KTable[K, R]:
        """As `join`, and with None for a missing right value. The same options."""
        return self.join(other, joiner, how="left", **options)

    def outer_join(
        self, other: KTable[K, V2], joiner: Callable[[V | None, V2 | None], R], **options: Any
    ) -> KTable[K, R]:
        """As `join`, and with None for a missing value of either side. The same options."""
        return self.join(other, joiner, how="outer", **options)


class GlobalKTable(Generic[K, V]):
    """A table of which every worker has all partitions; streams join it by any key."""

    def __init__(self, value_getter_supplier: ValueGetterSupplier, queryable_name: str | None) -> None:
        self.value_getter_supplier = value_getter_supplier
        self.queryable_store_name = queryable_name


class KGroupedTable(Generic[K, V]):
    """A table whose rows are grouped by new keys. Aggregations take the old value of a changed row away."""

    def __init__(self, grouped: table_operators.GroupedTable) -> None:
        self._grouped = grouped

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[K, int]:
        """The number of rows of each key."""
        return KTable(self._grouped.count(store, name))

    def reduce(
        self,
        add: Callable[[V, V], V],
        subtract: Callable[[V, V], V],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The values of each key as one: `add(result, value)`, `subtract(result, old_value)`."""
        return KTable(self._grouped.reduce(add, subtract, store, name))

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        add: Callable[[K, V, R], R],
        subtract: Callable[[K, V, R], R],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[K, Row]: ...
    def aggregate(
        self,
        initializer: Any = None,
        add: Any = None,
        subtract: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[K, Any]:
        """A result for each key: `add(key, value, result)`, `subtract(key, old_value, result)`; or a row of
        aggregates that can take values away, as total=Sum(...), whose serde in topics is `value`."""
        functions = {"initializer": initializer, "add": add, "subtract": subtract}
        if aggregates:
            named_aggregations.refuse(functions)
            return KTable(self._grouped.aggregate_named(aggregates, value, store, name))
        named_aggregations.require(functions, value)
        return KTable(self._grouped.aggregate(initializer, add, subtract, store, name))


class KGroupedStream(Generic[K, V]):
    """A stream whose records are grouped by key."""

    def __init__(self, grouped: Grouped) -> None:
        self.grouped = grouped

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[K, int]:
        """The number of records of each key."""
        return KTable(aggregations.aggregate(self.grouped, aggregations.counting(), store, name))

    def reduce(
        self, reducer: Callable[[V, V], V], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, V]:
        """The values of each key as one: `reducer(result, value)`; the first value is the first result."""
        what = aggregations.reducing(reducer, self.grouped.value)
        return KTable(aggregations.aggregate(self.grouped, what, store, name))

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R], R],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[K, Row]: ...
    def aggregate(
        self,
        initializer: Any = None,
        aggregator: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[K, Any]:
        """A result for each key: `aggregator(key, value, result)`. Or a
        row of named aggregates, as total=Sum(...), whose serde in topics is `value`."""
        functions = {"initializer": initializer, "aggregator": aggregator}
        what = named_aggregations.aggregation(functions, aggregates, value, store, name)
        return KTable(aggregations.aggregate(self.grouped, what, store, name))

    @overload
    def windowed_by(
        self, windows: SessionWindows, *, late: Late | None = None
    ) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(
        self,
        windows: TimeWindows | SlidingWindows | UnlimitedWindows | CountWindows,
        *,
        late: Late | None = None,
    ) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: aggregations.Windows, *, late: Late | None = None
    ) -> SessionWindowedKStream[K, V] | TimeWindowedKStream[K, V]:
        """Results by window: `tumbling`, `hopping`, `sliding`, `session`, `unlimited`, `count_windows`.

        `late`: a topic, or a function of a LateRecord, for the records whose window is closed."""
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self.grouped, windows, late)
        return TimeWindowedKStream(self.grouped, windows, late)

    def cogroup(self, aggregator: Callable[[K, V, R], R]) -> CogroupedKStream[K, R]:
        """Begins an aggregation of several grouped streams: `aggregator(key, value, result)`."""
        cogrouped: CogroupedKStream[K, R] = CogroupedKStream(Cogrouped(self.grouped.graph))
        return cogrouped.cogroup(self, aggregator)


class _WindowedKStream(Generic[K, V]):
    """What all windowed streams have."""

    def __init__(self, grouped: Grouped, windows: aggregations.Windows, late: Late | None = None) -> None:
        self._grouped = grouped
        self._windows = windows
        self._late = aggregations.checked_late_of(windows, late)
        self._emits_on_close = False

    def count(self, *, store: StoreArgument = None, name: str | None = None) -> KTable[Windowed[K], int]:
        """The number of records of each key and window."""
        return self._table(aggregations.counting(), store, name)

    def reduce(
        self, reducer: Callable[[V, V], V], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[Windowed[K], V]:
        """The values of each key and window as one: `reducer(result, value)`."""
        return self._table(aggregations.reducing(reducer, self._grouped.value), store, name)

    def _emit(self, strategy: str) -> None:
        if strategy not in ("update", "close"):
            raise ValueError(f'a result is emitted on "update" or on "close", not {strategy!r}')
        if strategy == "close" and isinstance(self._windows, UnlimitedWindows):
            raise ValueError("unlimited windows never close")
        self._emits_on_close = strategy == "close"

    def _table(
        self, what: aggregations.Aggregation, store: StoreArgument, name: str | None
    ) -> KTable[Windowed[K], Any]:
        return KTable(
            aggregations.aggregate_windows(
                self._grouped,
                self._windows,
                what,
                store,
                name,
                emit_on_close=self._emits_on_close,
                late=self._late,
            )
        )


class TimeWindowedKStream(_WindowedKStream[K, V]):
    """A grouped stream in time windows, sliding windows, count windows or one unlimited window."""

    def emit(self, strategy: Literal["update", "close"]) -> TimeWindowedKStream[K, V]:
        """Each update of a result (the default), or one final result when its window closes."""
        self._emit(strategy)
        return self

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R], R],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[Windowed[K], Row]: ...
    def aggregate(
        self,
        initializer: Any = None,
        aggregator: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[Windowed[K], Any]:
        """A result for each key and window: `aggregator(key, value, result)`. Or a
        row of named aggregates, as total=Sum(...), whose serde in topics is `value`."""
        functions = {"initializer": initializer, "aggregator": aggregator}
        what = named_aggregations.aggregation(functions, aggregates, value, store, name)
        return self._table(what, store, name)


class SessionWindowedKStream(_WindowedKStream[K, V]):
    """A grouped stream in sessions."""

    def emit(self, strategy: Literal["update", "close"]) -> SessionWindowedKStream[K, V]:
        """Each update of a result (the default), or one final result when its session closes."""
        self._emit(strategy)
        return self

    @overload
    def aggregate(
        self,
        initializer: Callable[[], R],
        aggregator: Callable[[K, V, R], R],
        merge: Callable[[K, R, R], R],
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]: ...
    @overload
    def aggregate(
        self,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[Windowed[K], Row]: ...
    def aggregate(
        self,
        initializer: Any = None,
        aggregator: Any = None,
        merge: Any = None,
        *,
        value: Any = None,
        store: StoreArgument = None,
        name: str | None = None,
        **aggregates: Aggregate[V],
    ) -> KTable[Windowed[K], Any]:
        """A result for each session; `merge(key, one, other)` where a record joins two sessions. Or a
        row of named aggregates, as total=Sum(...), whose serde in topics is `value`."""
        functions = {"initializer": initializer, "aggregator": aggregator, "merge": merge}
        what = named_aggregations.aggregation(functions, aggregates, value, store, name)
        return self._table(what, store, name)


class CogroupedKStream(Generic[K, R]):
    """Grouped streams that are aggregated into one table."""

    def __init__(self, cogrouped: Cogrouped) -> None:
        self._cogrouped = cogrouped

    def cogroup(
        self, grouped: KGroupedStream[K, V], aggregator: Callable[[K, V, R], R]
    ) -> CogroupedKStream[K, R]:
        """Adds a grouped stream: `aggregator(key, value, result)`."""
        self._cogrouped.aggregators[grouped.grouped] = aggregator
        return self

    def windowed_by(
        self, windows: aggregations.Windows, *, late: Late | None = None
    ) -> WindowedCogroupedKStream[K, R]:
        """Results by window. `late`: a topic or function for the records whose window is closed."""
        return WindowedCogroupedKStream(self._cogrouped, windows, late)

    def aggregate(
        self, initializer: Callable[[], R], *, store: StoreArgument = None, name: str | None = None
    ) -> KTable[K, R]:
        """A result for each key."""
        return KTable(self._cogrouped.aggregate(None, initializer, None, store, name))


class WindowedCogroupedKStream(Generic[K, R]):
    """Cogrouped streams in windows."""

    def __init__(self, cogrouped: Cogrouped, windows: aggregations.Windows, late: Late | None = None) -> None:
        self._cogrouped = cogrouped
        self._windows = windows
        self._late = aggregations.checked_late_of(windows, late)

    def aggregate(
        self,
        initializer: Callable[[], R],
        merge: Callable[[K, R, R], R] | None = None,
        *,
        store: StoreArgument = None,
        name: str | None = None,
    ) -> KTable[Windowed[K], R]:
        """A result for each key and window; sessions need `merge(key, one, other)`."""
        if isinstance(self._windows, SessionWindows) and merge is None:
            raise ValueError("sessions need merge=, for a record that joins two of them")
        return KTable(self._cogrouped.aggregate(self._windows, initializer, merge, store, name, self._late))
