"""Cogroups: grouped streams that are aggregated into one table, each in its own way.

Source: CogroupedStreamAggregateBuilder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..processors.aggregates import KStreamAggregate
from ..processors.tables import KTablePassThrough
from ..topology.errors import TopologyError
from . import named_aggregations
from .aggregations import (
    Aggregation,
    Grouped,
    time_to_close_ms,
    window_store,
    windowed_serde,
    windowed_supplier,
)
from .graph import GraphNode, ProcessorNode
from .handles import TableHandle
from .late import LateRoute
from .repartition import repartition_node
from .stores import Materialized, StoreArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..processors.aggregate_functions import Aggregate
    from .aggregations import Windows
    from .late import Late
    from .logical_graph import LogicalGraph

_AGGREGATE, _MERGE = "COGROUPKSTREAM-AGGREGATE-", "COGROUPKSTREAM-MERGE-"


class CogroupAggregation(NamedTuple):
    """What a cogroup computes; `aggregators` by grouped stream, else as Aggregation."""

    initializer: Callable[[], Any]
    aggregators: Mapping[Grouped, Any]
    merge: Callable[[Any, Any, Any], Any] | None = None
    value: Any = None
    rows: Any = None


class Cogrouped:
    """Grouped streams, each with its aggregator, or with the named aggregates of its records."""

    def __init__(self, graph: LogicalGraph) -> None:
        self.graph = graph
        self.aggregators: dict[Grouped, Callable[[Any, Any, Any], Any]] = {}
        self.named: dict[Grouped, Mapping[str, Aggregate[Any]]] = {}
        self._parents: dict[Grouped, GraphNode] = {}

    @property
    def streams(self) -> list[Grouped]:
        """In the order in which they were added."""
        return list(self.aggregators or self.named)

    def add(
        self,
        grouped: Grouped,
        aggregator: Callable[[Any, Any, Any], Any] | None,
        aggregates: Mapping[str, Aggregate[Any]],
    ) -> None:
        """Add a stream. Errors: TopologyError for both forms."""
        if aggregator is not None:
            if aggregates or self.named:
                raise TopologyError("a cogroup has an aggregator for each stream, or named aggregates")
            self.aggregators[grouped] = aggregator
            return
        if self.aggregators:
            raise TopologyError("this stream needs an aggregator, as the others of its cogroup")
        named_aggregations.check_aggregates(aggregates)
        self.named[grouped] = aggregates

    def aggregate(
        self,
        windows: Windows | None,
        what: CogroupAggregation,
        store: StoreArgument,
        name: str | None,
        late: Late | None = None,
    ) -> TableHandle:
        """A table of results by key, or by windowed key."""
        names = self.graph.names
        materialized = Materialized(self.graph, store, _AGGREGATE)
        materialized.default_serdes(self.streams[0].key, what.value)
        builder = (
            materialized.key_value()
            if windows is None
            else window_store(materialized, windows, emit_on_close=False)
        )
        self._repartition(materialized)
        nodes: list[ProcessorNode] = []
        suppliers: list[Any] = []
        for number, (grouped, aggregator) in enumerate(what.aggregators.items()):
            of_stream = Aggregation(what.initializer, aggregator, what.merge)
            node_name = names.suffixed_or(name, f"-cogroup-agg-{number}", _AGGREGATE)
            suffix = f"-cogroup-late-{number}"
            route = LateRoute(self.graph, late, name, suffix, grouped.key, grouped.value)
            supplier = (
                KStreamAggregate(builder, what.initializer, aggregator)
                if windows is None
                else windowed_supplier(windows, builder, of_stream, emit_on_close=False, late=route.records)
            )
            node = ProcessorNode(node_name, supplier)
            node.late_sink = route.sink
            if windows is None:
                node.is_output_versioned = materialized.is_versioned
            else:
                node.grace_ms = time_to_close_ms(windows)
            self.graph.add(node, self._parents[grouped])
            nodes.append(node)
            suppliers.append(supplier)
        merge_name = names.suffixed_or(name, "-cogroup-merge", _MERGE)
        pass_through = KTablePassThrough(suppliers, builder.name)
        merged = ProcessorNode(merge_name, pass_through)
        self.graph.add(merged, *nodes)
        key = materialized.key if windows is None else windowed_serde(materialized.key, windows)
        value = materialized.value if what.rows is None else what.rows
        return TableHandle(
            self.graph, merge_name, merged, frozenset([merge_name]), key, value, pass_through,
            materialized.queryable_name,
        )  # fmt: skip

    def _repartition(self, materialized: Materialized) -> None:
        for grouped in self.streams:
            if not grouped.needs_repartition:
                self._parents[grouped] = grouped.stream.node
                continue
            node = repartition_node(
                self.graph,
                materialized.name if grouped.name is None else grouped.name,
                key=grouped.key,
                value=grouped.value,
                is_named=grouped.name is not None or materialized.is_queryable,
            )
            if grouped not in self._parents:
                self.graph.add(node, grouped.stream.node)
                self._parents[grouped] = node
        first, *others = (grouped.stream for grouped in self._parents)
        first.copartition_with(*others)


def aggregation(
    cogrouped: Cogrouped,
    functions: Mapping[str, Callable[..., Any] | None],
    aggregates: Mapping[str, Aggregate[Any]],
    *,
    value: Any,
    store: StoreArgument,
    name: str | None,
) -> CogroupAggregation:
    """What `aggregate` of a cogroup computes. `aggregates`: over the records of all streams; else as
    `named_aggregations.aggregation`. Errors: TopologyError."""
    named_aggregations.check_options(value=value, store=store, name=name)
    if cogrouped.aggregators:
        if aggregates:
            raise TopologyError(
                f"{next(iter(aggregates))}= is a named aggregate, but this cogroup has aggregators"
            )
        named_aggregations.require(functions, value)
        return CogroupAggregation(aggregators=cogrouped.aggregators, **functions)  # type: ignore[arg-type]
    named_aggregations.refuse(functions)
    by_stream = {grouped: _both(own, aggregates) for grouped, own in cogrouped.named.items()}
    named = named_aggregations.checked(_columns(cogrouped.named.values(), aggregates), store)
    return CogroupAggregation(
        named.initializer,
        {grouped: named.aggregator(own) for grouped, own in by_stream.items()},
        named.merge,
        named.serde(),
        named_aggregations.rows_serde(value),
    )


def _both(
    own: Mapping[str, Aggregate[Any]], of_all: Mapping[str, Aggregate[Any]]
) -> dict[str, Aggregate[Any]]:
    for name in own:
        if name in of_all:
            raise TopologyError(
                f"{name}= is over all streams of this cogroup, and over one: give one another name"
            )
    return {**own, **of_all}


def _columns(
    of_streams: Iterable[Mapping[str, Aggregate[Any]]], of_all: Mapping[str, Aggregate[Any]]
) -> dict[str, Aggregate[Any]]:
    """The aggregates of a row. Errors: TopologyError for different ones of one name, or for none."""
    found: dict[str, Aggregate[Any]] = {}
    for aggregates in (*of_streams, of_all):
        for name, each in aggregates.items():
            other = found.setdefault(name, each)
            if other is not each and not each.continues(other):
                raise TopologyError(
                    f"{name}= stands for two aggregates of this cogroup, {type(other).__name__} and"
                    f" {type(each).__name__}, which differ in more than of=: give one another name"
                )
    if not found:
        raise TopologyError("a cogroup without aggregators needs named aggregates, such as total=Sum(...)")
    return found
