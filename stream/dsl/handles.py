"""What the operators know of a stream or table under construction. Source: AbstractStream, KTableImpl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..processing import Takes
from ..topology.errors import TopologyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import TableProcessorSupplier, ValueGetterSupplier
    from .graph import GraphNode, RepartitionNode
    from .logical_graph import LogicalGraph


OF_ANOTHER = "streams and tables of different applications cannot be combined"


class Handle:
    """A node of the graph whose output can be processed further.

    `sources`: the source nodes of its sub-topology, for co-partitioning. A serde that is None is the
    application's.
    """

    def __init__(
        self, graph: LogicalGraph, name: str, node: GraphNode, sources: frozenset[str], key: Any, value: Any
    ) -> None:
        self.graph = graph
        self.name = name
        self.node = node
        self.sources = sources
        self.key = key
        self.value = value

    def copartition_with(self, *others: Handle) -> frozenset[str]:
        """Require equal numbers of partitions. The sources of all. Errors: TopologyError for those of another
        application."""
        if any(other.graph is not self.graph for other in others):
            raise TopologyError(OF_ANOTHER)
        sources = self.sources.union(*(other.sources for other in others))
        self.graph.topology.copartition(sources)
        return sources


class StreamHandle(Handle):
    """A stream. `needs_repartition`: its key was changed since it was last partitioned by key."""

    def __init__(
        self,
        graph: LogicalGraph,
        name: str,
        node: GraphNode,
        sources: frozenset[str],
        key: Any,
        value: Any,
        needs_repartition: bool = False,
    ) -> None:
        super().__init__(graph, name, node, sources, key, value)
        self.needs_repartition = needs_repartition
        self.join_repartition: RepartitionNode | None = None  # shared by the joins of this stream


class TableHandle(Handle):
    """A table. Implements `processing.Table` for the processors of the tables that are derived from it."""

    def __init__(
        self,
        graph: LogicalGraph,
        name: str,
        node: GraphNode,
        sources: frozenset[str],
        key: Any,
        value: Any,
        supplier: TableProcessorSupplier,
        queryable_name: str | None,
    ) -> None:
        super().__init__(graph, name, node, sources, key, value)
        self.supplier = supplier
        self.queryable_name = queryable_name
        self._sends_old_values = False

    def value_getter_supplier(self) -> ValueGetterSupplier:
        """Reads the table. A table from a topic gets its store by this."""
        return self.supplier.view()

    @property
    def store_names(self) -> tuple[str, ...]:
        """The stores that a reader of the table connects to."""
        return self.value_getter_supplier().store_names()

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """Whether changes will have their old values; only if it is stored already, unless forced."""
        if not self._sends_old_values:
            self._sends_old_values = self.supplier.enable_sending_old_values(force_materialization)
        return self._sends_old_values


def takes_of(with_key: bool, with_record: bool = False) -> Takes:
    """The arguments of a function that gets the value alone unless the user asks for more."""
    if with_key and with_record:
        raise ValueError("with_key and with_record exclude each other")
    if with_record:
        return Takes.RECORD
    return Takes.KEY_VALUE if with_key else Takes.VALUE


def joiner_of(function: Callable[..., Any], with_key: bool) -> Callable[[Any, Any, Any], Any]:
    """A joiner of key, left and right value."""
    if with_key:
        return function
    return lambda _key, left, right: function(left, right)


def reversed_joiner(joiner: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """The joiner of the other side."""
    return lambda key, left, right: joiner(key, right, left)
