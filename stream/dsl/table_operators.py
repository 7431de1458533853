"""Operators of a table without joins, and aggregations of grouped tables.

Source: KTableImpl, KGroupedTableImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...clients.serdes import int64
from ..processors.aggregates import KTableAggregate, KTableReduce
from ..processors.stateless import KTableToStream
from ..processors.suppress import KTableSuppress
from ..processors.tables import KTableFilter, KTableMapValues, KTableRepartitionMap
from ..processors.transform_values import KTableTransformValues
from ..state.builders import StoreBuilder
from ..state.formats.changes import changed
from ..state.store_spec import StoreKind
from ..topology.errors import TopologyError
from ..topology.serdes import DerivedSerde
from .graph import GraphNode, ProcessorNode, RepartitionNode, RootNode, SuppressNode, VersionedProcessorNode
from .handles import StreamHandle, TableHandle
from .named_aggregations import check_options, invertible, rows_serde
from .repartition import SUFFIX
from .stores import Materialized, Store, StoreArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..processing import Takes
    from .suppressed import Suppressed


def filtered(
    table: TableHandle,
    predicate: Callable[..., Any],
    takes: Takes,
    store: StoreArgument,
    name: str | None,
    *,
    filter_not: bool,
) -> TableHandle:
    """The rows for which `predicate` is true, or is false."""
    graph = table.graph
    materialized = _materialized(table, store, "KTABLE-FILTER-")
    materialized.default_serdes(table.key, table.value)
    node_name = graph.names.given_or(name, "KTABLE-FILTER-")
    builder = materialized.key_value() if materialized.is_queryable else None
    supplier = KTableFilter(table, predicate, filter_not, builder, takes)
    node = VersionedProcessorNode(node_name, supplier)
    return _derived(table, materialized, node, supplier, is_stored=store is not None)


def mapped_values(
    table: TableHandle, mapper: Callable[..., Any], takes: Takes, store: StoreArgument, name: str | None
) -> TableHandle:
    """The rows with other values."""
    graph = table.graph
    materialized = _materialized(table, store, "KTABLE-MAPVALUES-")
    materialized.default_serdes(table.key)
    node_name = graph.names.given_or(name, "KTABLE-MAPVALUES-")
    builder = materialized.key_value() if materialized.is_queryable else None
    supplier = KTableMapValues(table, mapper, builder, takes)
    return _derived(
        table, materialized, ProcessorNode(node_name, supplier), supplier, is_stored=store is not None
    )


def _materialized(table: TableHandle, store: StoreArgument, prefix: str) -> Materialized:
    if isinstance(store, Store) and store.name is None:
        table.graph.names.store(prefix)  # used up: such a table is not stored
    return Materialized(table.graph, store, None)


def _derived(
    table: TableHandle, materialized: Materialized, node: ProcessorNode, supplier: Any, *, is_stored: bool
) -> TableHandle:
    if is_stored:
        node.is_output_versioned = materialized.is_versioned
    table.graph.add(node, table.node)
    return TableHandle(
        table.graph, node.name, node, table.sources, materialized.key, materialized.value, supplier,
        materialized.queryable_name,
    )  # fmt: skip


def to_stream(table: TableHandle, name: str | None) -> StreamHandle:
    """The changes as records: new values, and null for deleted keys."""
    node = ProcessorNode(table.graph.names.given_or(name, "KTABLE-TOSTREAM-"), KTableToStream())
    table.graph.add(node, table.node)
    return StreamHandle(table.graph, node.name, node, table.sources, table.key, table.value)


def suppressed(table: TableHandle, how: Suppressed) -> TableHandle:
    """The table's changes, buffered as `how` says. Errors: TopologyError for a versioned table, and for
    a table without windows if `how` buffers changes until their window closes."""
    graph = table.graph
    if table.node.is_output_versioned:
        raise TopologyError(f"versioned table {table.name} cannot be suppressed")
    name = graph.names.generated("KTABLE-SUPPRESS-") if how.name is None else how.name
    wait_ms = _time_to_close_ms(table.node) if how.wait_ms is None else how.wait_ms
    if how.name is not None:
        store_name = f"{how.name}-store"
    else:
        store_name = graph.names.store("KTABLE-SUPPRESS-")
        if how.is_logged:
            graph.unnamed.append(f"changelog {store_name}-changelog")
    builder = StoreBuilder(
        store_name,
        StoreKind.SUPPRESS_BUFFER,
        key_serde=table.key,
        value_serde=table.value,
        persistent=False,
        is_logged=how.is_logged,
        changelog_config=dict(how.changelog_config),
    )
    table.enable_sending_old_values(True)
    supplier: Any = KTableSuppress(
        table,
        builder,
        wait_ms,
        by_window_end=how.wait_ms is None,
        drop_tombstones=how.wait_ms is None,
        max_records=how.max_records,
        max_bytes=how.max_bytes,
        emit_when_full=not how.is_strict,
    )
    node = SuppressNode(name, supplier)
    node.is_output_versioned = False
    graph.add(node, table.node)
    return TableHandle(graph, name, node, frozenset([table.name]), table.key, table.value, supplier, None)


def _time_to_close_ms(table: GraphNode) -> int:
    """The longest grace of the windowed aggregations that a table is made of."""
    longest = 0
    waiting = [(table, table.name)]
    seen: set[GraphNode] = set()
    while waiting:
        node, chain = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.grace_ms is not None:
            longest = max(longest, node.grace_ms)
        elif isinstance(node, RootNode):
            raise TopologyError(
                f"until_window_closes needs an aggregation by time windows; there is none in {chain}"
            )
        else:
            waiting += [
                (parent, chain if isinstance(parent, RootNode) else f"{parent.name}->{chain}")
                for parent in node.parents
            ]
    return longest


class GroupedTable:
    """A table that is grouped by new keys. `name`: the base of the name of its repartition topic."""

    def __init__(
        self,
        table: TableHandle,
        mapper: Callable[[Any, Any], tuple[Any, Any]],
        key: Any,
        value: Any,
        name: str | None,
    ) -> None:
        self.graph = table.graph
        self.key = key
        self.value = value
        self.name = name
        select = self.graph.names.given_or(name, "KTABLE-SELECT-")
        self.node = VersionedProcessorNode(select, KTableRepartitionMap(table, mapper))
        self.graph.add(self.node, table.node)
        table.enable_sending_old_values(True)
        self._repartition: RepartitionNode | None = None  # shared by aggregations if it is named

    def count(self, store: StoreArgument, name: str | None) -> TableHandle:
        """The number of rows of each key."""
        materialized = self._materialized(store, int64)
        supplier = KTableAggregate(
            materialized.key_value(), lambda: 0, lambda _k, _v, n: n + 1, lambda _k, _v, n: n - 1
        )
        return self._add(supplier, materialized, name, "KTABLE-AGGREGATE-")

    def aggregate(
        self,
        initializer: Callable[[], Any],
        add: Callable[[Any, Any, Any], Any],
        subtract: Callable[[Any, Any, Any], Any],
        store: StoreArgument,
        name: str | None,
    ) -> TableHandle:
        """A result for each key; `subtract` takes the old value of a row away."""
        materialized = self._materialized(store, None)
        supplier = KTableAggregate(materialized.key_value(), initializer, add, subtract)
        return self._add(supplier, materialized, name, "KTABLE-AGGREGATE-")

    def aggregate_named(
        self, aggregates: Mapping[str, Any], value: Any, store: StoreArgument, name: str | None
    ) -> TableHandle:
        """A row of aggregates for each key. `value`: the serde of rows in topics."""
        check_options(value=value, store=store, name=name)
        named = invertible(aggregates, store)
        materialized = self._materialized(store, named.serde())
        supplier = KTableAggregate(materialized.key_value(), named.initializer, named.add, named.subtract)
        table = self._add(supplier, materialized, name, "KTABLE-AGGREGATE-")
        table.value = rows_serde(value)
        return table

    def reduce(
        self,
        add: Callable[[Any, Any], Any],
        subtract: Callable[[Any, Any], Any],
        store: StoreArgument,
        name: str | None,
    ) -> TableHandle:
        """The values of each key as one; `subtract` takes the old value of a row away."""
        materialized = self._materialized(store, self.value)
        supplier = KTableReduce(materialized.key_value(), add, subtract)
        return self._add(supplier, materialized, name, "KTABLE-REDUCE-")

    def _materialized(self, store: StoreArgument, value: Any) -> Materialized:
        materialized = Materialized(self.graph, store, "KTABLE-AGGREGATE-")
        materialized.default_serdes(self.key, value)
        return materialized

    def _add(self, supplier: Any, materialized: Materialized, name: str | None, prefix: str) -> TableHandle:
        names = self.graph.names
        sink = names.suffixed_or(name, "-sink", "KSTREAM-SINK-")
        source = names.suffixed_or(name, "-source", "KSTREAM-SOURCE-")
        node_name = names.given_or(name, prefix)
        if self._repartition is None or self.name is None:
            changes = DerivedSerde(changed, (("value", self.value),))
            topic = (materialized.name if self.name is None else self.name) + SUFFIX
            self._repartition = RepartitionNode(source, sink, topic, key=self.key, value=changes)
        self.graph.add(self._repartition, self.node)
        node = ProcessorNode(node_name, supplier)
        node.is_output_versioned = materialized.is_versioned
        self.graph.add(node, self._repartition)
        return TableHandle(
            self.graph, node_name, node, frozenset([source]), materialized.key, materialized.value, supplier,
            materialized.queryable_name,
        )  # fmt: skip


def transformed_values(
    table: TableHandle, transformer: Any, stores: Sequence[str], store: StoreArgument, name: str | None
) -> TableHandle:
    """The rows with the values that a transformer of the user makes."""
    materialized = Materialized(table.graph, store, None)
    materialized.default_serdes(table.key)
    builder = materialized.key_value() if materialized.is_queryable else None
    supplier = KTableTransformValues(table, transformer, builder)
    node = ProcessorNode(table.graph.names.given_or(name, "KTABLE-TRANSFORMVALUES-"), supplier, stores)
    return _derived(table, materialized, node, supplier, is_stored=store is not None)
