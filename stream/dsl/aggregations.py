"""Aggregations of grouped and cogrouped streams, with and without windows.

Source: KGroupedStreamImpl, GroupedStreamAggregateBuilder, *WindowedKStreamImpl,
CogroupedStreamAggregateBuilder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...clients.serdes import int64
from ..processors.aggregate_runs import count_one, reduce_one
from ..processors.aggregates import KStreamAggregate, KStreamReduce
from ..processors.count_window_aggregates import KStreamCountWindowAggregate
from ..processors.named_tables import KStreamNamedAggregate, KStreamNamedWindowAggregate
from ..processors.session_aggregates import KStreamSessionWindowAggregate
from ..processors.sliding_window_aggregates import KStreamSlidingWindowAggregate
from ..processors.window_aggregates import KStreamWindowAggregate
from ..topology.errors import TopologyError
from .graph import GraphNode, ProcessorNode, RepartitionNode
from .handles import TableHandle
from .late import LateRoute, checked_late
from .repartition import repartition_node
from .stores import Materialized, Store, StoreArgument
from .windowed_serdes import session_windowed, time_windowed
from .windows import CountWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processors.late_records import LateRecords
    from ..processors.named_aggregates import NamedAggregates
    from ..state.builders import StoreBuilder
    from ..topology.serdes import WindowedKeySerde
    from .handles import StreamHandle
    from .late import Late
    from .logical_graph import LogicalGraph

Windows = TimeWindows | UnlimitedWindows | SlidingWindows | SessionWindows | CountWindows

_AGGREGATE = "KSTREAM-AGGREGATE-"
_REDUCE = "KSTREAM-REDUCE-"


class Grouped:
    """A stream that is grouped by its key. `name`: the base of the name of its repartition topic."""

    def __init__(
        self, stream: StreamHandle, key: Any, value: Any, name: str | None, needs_repartition: bool
    ) -> None:
        self.stream = stream
        self.graph = stream.graph
        self.key = key
        self.value = value
        self.name = name
        self.needs_repartition = needs_repartition
        self._repartition: RepartitionNode | None = None  # shared by aggregations if it is named

    def repartitioned(self, store_name: str, *, is_named: bool) -> tuple[GraphNode, frozenset[str]]:
        """The parent of an aggregation and its sources. Uses up numbers also where the topic is shared."""
        if not self.needs_repartition:
            return self.stream.node, self.stream.sources
        node = repartition_node(
            self.graph,
            store_name if self.name is None else self.name,
            key=self.key,
            value=self.value,
            is_named=is_named or self.name is not None,
        )
        if self._repartition is None or self.name is None:
            self._repartition = node
        self.graph.add(self._repartition, self.stream.node)
        return self._repartition, frozenset([node.name])


class Aggregation(NamedTuple):
    """What an aggregation computes. `merge`: of two sessions. `reducer`: it is a reduce."""

    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    merge: Callable[[Any, Any, Any], Any] | None = None
    reducer: Callable[[Any, Any], Any] | None = None
    value: Any = None
    """The serde of the results, unless the store has one."""
    rows: Any = None
    """The serde of the results in topics, if that of the store is another one."""
    named: NamedAggregates | None = None
    is_count: bool = False


def counting() -> Aggregation:
    """The number of records."""
    return Aggregation(
        lambda: 0,
        count_one,
        lambda _key, one, other: one + other,
        value=int64,
        is_count=True,
    )


def reducing(reducer: Callable[[Any, Any], Any], value: Any) -> Aggregation:
    """The first value, and then what `reducer` makes of the result and the next value."""
    aggregator = reduce_one(reducer)
    return Aggregation(
        lambda: None, aggregator, lambda key, one, other: aggregator(key, other, one), reducer, value
    )


def aggregate(grouped: Grouped, what: Aggregation, store: StoreArgument, name: str | None) -> TableHandle:
    """A table of results by key."""
    graph = grouped.graph
    prefix = _AGGREGATE if what.reducer is None else _REDUCE
    materialized = _materialized(graph, what, store, prefix, skips=True)
    materialized.default_serdes(grouped.key, what.value)
    node_name = graph.names.given_or(name, prefix)
    builder = materialized.key_value()
    node = ProcessorNode(node_name, _supplier(builder, what))
    node.is_output_versioned = materialized.is_versioned
    return _table(grouped, materialized, node, what, materialized.key)


def aggregate_windows(
    grouped: Grouped,
    windows: Windows,
    what: Aggregation,
    store: StoreArgument,
    name: str | None,
    *,
    emit_on_close: bool,
    late: Late | None = None,
) -> TableHandle:
    """A table of results by windowed key."""
    graph = grouped.graph
    prefix = _AGGREGATE if what.reducer is None else _REDUCE
    materialized = _materialized(graph, what, store, prefix, skips=not isinstance(windows, SlidingWindows))
    materialized.default_serdes(grouped.key, what.value)
    node_name = graph.names.given_or(name, prefix)
    builder = window_store(materialized, windows, emit_on_close=emit_on_close)
    route = LateRoute(graph, late, name, "-late", grouped.key, grouped.value)
    supplier = windowed_supplier(windows, builder, what, emit_on_close=emit_on_close, late=route.records)
    node = ProcessorNode(node_name, supplier)
    node.late_sink = route.sink
    node.grace_ms = time_to_close_ms(windows)
    node.is_output_versioned = False
    return _table(grouped, materialized, node, what, windowed_serde(materialized.key, windows))


def _supplier(builder: StoreBuilder, what: Aggregation) -> Any:
    if what.named is not None:
        return KStreamNamedAggregate(builder, what.named)
    if what.reducer is not None:
        return KStreamReduce(builder, what.reducer)
    return KStreamAggregate(builder, what.initializer, what.aggregator)


def _materialized(
    graph: LogicalGraph, what: Aggregation, store: StoreArgument, prefix: str, *, skips: bool
) -> Materialized:
    if skips and what.is_count and isinstance(store, Store) and store.name is None:
        graph.names.store(prefix)  # Java's count(Materialized) uses up a number more
    return Materialized(graph, store, prefix)


def _table(
    grouped: Grouped, materialized: Materialized, node: ProcessorNode, what: Aggregation, key: Any
) -> TableHandle:
    parent, sources = grouped.repartitioned(materialized.name, is_named=materialized.is_queryable)
    grouped.graph.add(node, parent)
    value = materialized.value if what.rows is None else what.rows
    supplier: Any = node.supplier
    return TableHandle(
        grouped.graph, node.name, node, sources, key, value, supplier, materialized.queryable_name
    )


def window_store(materialized: Materialized, windows: Windows, *, emit_on_close: bool) -> StoreBuilder:
    """The store of an aggregation by these windows."""
    if isinstance(windows, SessionWindows):
        return materialized.session(windows, emit_on_close=emit_on_close)
    if isinstance(windows, SlidingWindows):
        return materialized.sliding_window(windows, emit_on_close=emit_on_close)
    if isinstance(windows, CountWindows):
        return materialized.count_window()
    return materialized.window(windows, emit_on_close=emit_on_close)


def windowed_supplier(
    windows: Windows,
    store: StoreBuilder,
    what: Aggregation,
    *,
    emit_on_close: bool,
    late: LateRecords | None = None,
) -> Any:
    """The processors of an aggregation by these windows. Errors: TopologyError for unlimited ones."""
    functions = (what.initializer, what.aggregator)
    if isinstance(windows, SessionWindows):
        assert what.merge is not None, "sessions are merged"
        return KStreamSessionWindowAggregate(windows, store, emit_on_close, *functions, what.merge, late)
    if isinstance(windows, SlidingWindows):
        return KStreamSlidingWindowAggregate(windows, store, emit_on_close, *functions, late)
    if isinstance(windows, CountWindows):
        return KStreamCountWindowAggregate(windows, store, emit_on_close, *functions)
    if emit_on_close and isinstance(windows, UnlimitedWindows):
        raise TopologyError("unlimited windows never close: their results cannot be emitted on close")
    if what.named is not None:
        return KStreamNamedWindowAggregate(windows, store, emit_on_close, what.named, late)
    return KStreamWindowAggregate(windows, store, emit_on_close, *functions, late)


def checked_late_of(windows: Windows, late: Late | None) -> Late | None:
    """Errors: TopologyError for windows that no record misses, TypeError for what is no windows."""
    if not isinstance(windows, Windows):
        raise TypeError(f"windowed_by takes windows, such as stream.tumbling(60_000), not {windows!r}")
    if late is not None and isinstance(windows, (CountWindows, UnlimitedWindows)):
        raise TopologyError(f"late= needs windows that close by time: no record is late for {windows}")
    return checked_late(late)


def windowed_serde(key: Any, windows: Windows) -> WindowedKeySerde:
    """The serde of the windowed keys. `key` None: over the application's, with which Java fails."""
    if isinstance(windows, SessionWindows):
        return session_windowed(key)
    if isinstance(windows, SlidingWindows):
        return time_windowed(key, windows.time_difference_ms)
    return time_windowed(key, windows.size if isinstance(windows, CountWindows) else windows.size_ms)


def time_to_close_ms(windows: Windows) -> int | None:
    """How long behind its start of stream time a window takes records; None: time plays no part."""
    if isinstance(windows, SessionWindows):
        return windows.grace_ms + windows.inactivity_gap_ms
    return None if isinstance(windows, CountWindows) else windows.grace_ms
