"""Operators of a stream without joins and aggregations. Source: KStreamImpl, BranchedKStreamImpl."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..processors import stateless
from ..processors.tables import KTableSource
from ..processors.user import user_supplier
from ..topology.errors import TopologyError
from ..topology.serdes import WindowedKeySerde
from ..topology.specs import WindowedKeyPartitioner
from .graph import ProcessorNode, SinkNode
from .handles import StreamHandle, TableHandle
from .late import LateRoute, checked_late_of_table
from .names import checked
from .repartition import repartition_node
from .stores import Materialized, StoreArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..processing import ProcessorSupplier, Takes
    from ..processors.user import UserProcessor
    from ..topology.specs import Partitioner, TopicNameExtractor
    from .late import Late


def same_records(
    stream: StreamHandle, supplier: ProcessorSupplier, name: str | None, prefix: str
) -> StreamHandle:
    """An operator that leaves keys and values as they are."""
    node = ProcessorNode(stream.graph.names.given_or(name, prefix), supplier)
    stream.graph.add(node, stream.node)
    return StreamHandle(
        stream.graph, node.name, node, stream.sources, stream.key, stream.value, stream.needs_repartition
    )


def new_values(
    stream: StreamHandle, supplier: ProcessorSupplier, name: str | None, prefix: str
) -> StreamHandle:
    """An operator that leaves keys as they are."""
    node = ProcessorNode(stream.graph.names.given_or(name, prefix), supplier)
    node.changes_value = True
    stream.graph.add(node, stream.node)
    return StreamHandle(
        stream.graph, node.name, node, stream.sources, stream.key, None, stream.needs_repartition
    )


def new_keys(
    stream: StreamHandle, supplier: ProcessorSupplier, name: str | None, prefix: str, *, value: Any = None
) -> StreamHandle:
    """An operator that makes new keys. `value`: the serde of values that stay as they are."""
    node = ProcessorNode(stream.graph.names.given_or(name, prefix), supplier)
    node.changes_key = True
    stream.graph.add(node, stream.node)
    return StreamHandle(stream.graph, node.name, node, stream.sources, None, value, True)


def select_key(
    stream: StreamHandle, mapper: Callable[..., Any], takes: Takes, name: str | None
) -> StreamHandle:
    """The values under new keys."""
    supplier = stateless.KStreamSelectKey(mapper, takes)
    return new_keys(stream, supplier, name, "KSTREAM-KEY-SELECT-", value=stream.value)


def terminal(stream: StreamHandle, supplier: ProcessorSupplier, name: str | None, prefix: str) -> None:
    """An operator without output."""
    stream.graph.add(ProcessorNode(stream.graph.names.given_or(name, prefix), supplier), stream.node)


def print_records(
    stream: StreamHandle,
    label: str | None,
    mapper: Callable[[Any, Any], str] | None,
    write: Callable[[str], object] | None,
    name: str | None,
) -> None:
    """Write each record as a line: label, key and value, as Java's Printed does."""
    text = mapper or (lambda key, value: f"{key}, {value}")
    prefix = f"[{stream.name if label is None else label}]: "

    def action(key: Any, value: Any) -> None:
        (write or sys.stdout.write)(f"{prefix}{text(key, value)}\n")

    terminal(stream, stateless.KStreamForeach(action), name, "KSTREAM-PRINTER-")


def merge(stream: StreamHandle, other: StreamHandle, name: str | None) -> StreamHandle:
    """The records of both, in no defined order."""
    node = ProcessorNode(stream.graph.names.given_or(name, "KSTREAM-MERGE-"), stateless.PassThrough())
    node.is_merge = True
    stream.graph.add(node, stream.node, other.node)
    return StreamHandle(
        stream.graph,
        node.name,
        node,
        stream.sources | other.sources,
        None,
        None,
        stream.needs_repartition or other.needs_repartition,
    )


class Splitter:
    """The branches of a split stream under construction."""

    def __init__(self, stream: StreamHandle, name: str | None) -> None:
        self.stream = stream
        self.predicates: list[Callable[[Any, Any], Any]] = []
        self.children: list[str] = []
        # The supplier makes its processors after all branches are known: it keeps the lists.
        supplier = stateless.KStreamBranch(self.predicates, self.children)
        self.node = ProcessorNode(stream.graph.names.given_or(name, "KSTREAM-BRANCH-"), supplier)
        stream.graph.add(self.node, stream.node)

    def branch(self, predicate: Callable[[Any, Any], Any], name: str | None) -> StreamHandle:
        """The records for which this predicate is the first that is true."""
        self.predicates.append(predicate)
        return self._child(name, len(self.predicates))

    def default_branch(self, name: str | None) -> StreamHandle:
        """All other records."""
        return self._child(name, 0)

    def _child(self, name: str | None, number: int) -> StreamHandle:
        stream = self.stream
        child = self.node.name + (str(number) if name is None else checked(name))
        self.children.append(child)
        stream.graph.names.generated(child)  # a number is used up
        node = ProcessorNode(child, stateless.PassThrough())
        stream.graph.add(node, self.node)
        return StreamHandle(
            stream.graph, child, node, stream.sources, stream.key, stream.value, stream.needs_repartition
        )


def repartition(
    stream: StreamHandle, name: str | None, key: Any, value: Any, partitions: int | None, partitioner: Any
) -> StreamHandle:
    """The records by their key, through an internal topic."""
    if partitions is not None and partitions < 1:
        raise TopologyError(f"a repartition topic has at least one partition, not {partitions}")
    prefix = stream.graph.names.generated("KSTREAM-REPARTITION-") if name is None else checked(name)
    value = stream.value if value is None else value
    key = stream.key if key is None else key
    node = repartition_node(
        stream.graph,
        prefix,
        key=key,
        value=value,
        is_named=name is not None,
        partitioner=partitioner,
        partitions=partitions,
        is_optimizable=False,
    )
    stream.graph.add(node, stream.node)
    return StreamHandle(stream.graph, node.name, node, frozenset([node.name]), key, value)


def to(
    stream: StreamHandle,
    topic: str | TopicNameExtractor,
    key: Any,
    value: Any,
    partitioner: Partitioner | WindowedKeyPartitioner | None,
    name: str | None,
) -> None:
    """Write the records to a topic. Windowed keys are partitioned by the key without its window."""
    key = stream.key if key is None else key
    if partitioner is None and isinstance(key, WindowedKeySerde):
        partitioner = WindowedKeyPartitioner(key.inner)
    node = SinkNode(
        stream.graph.names.given_or(name, "KSTREAM-SINK-"),
        topic,
        key=key,
        value=stream.value if value is None else value,
        partitioner=partitioner,
    )
    stream.graph.add(node, stream.node)


def to_table(stream: StreamHandle, name: str | None, store: StoreArgument, late: Late | None) -> TableHandle:
    """The stream as updates of a table; a null value deletes the key."""
    graph = stream.graph
    table_name = graph.names.given_or(name, "KSTREAM-TOTABLE-")
    materialized = Materialized(graph, store, "KSTREAM-TOTABLE-")
    materialized.default_serdes(stream.key, stream.value)
    parent, sources = stream.node, stream.sources
    if stream.needs_repartition:
        repartition = repartition_node(
            graph, table_name, key=materialized.key, value=materialized.value, is_named=name is not None
        )
        graph.add(repartition, stream.node)
        parent, sources = repartition, frozenset([repartition.name])
    late = checked_late_of_table(late, materialized.is_versioned)
    route = LateRoute(graph, late, name, "-late", materialized.key, materialized.value)
    supplier = KTableSource(materialized.key_value(), materialized.is_queryable, route.records)
    node = ProcessorNode(table_name, supplier)
    node.late_sink = route.sink
    node.is_output_versioned = materialized.is_versioned
    graph.add(node, parent)
    return TableHandle(
        graph, table_name, node, sources, materialized.key, materialized.value, supplier,
        materialized.queryable_name,
    )  # fmt: skip


def process(
    stream: StreamHandle, processor: UserProcessor, name: str | None, stores: Sequence[str]
) -> StreamHandle:
    """The records that a processor of the user forwards, under any key."""
    node = ProcessorNode(
        stream.graph.names.generated("KSTREAM-PROCESSOR-") if name is None else checked(name),
        user_supplier(processor),
        stores,
    )
    stream.graph.add(node, stream.node)
    return StreamHandle(stream.graph, node.name, node, stream.sources, None, None, True)


def process_values(
    stream: StreamHandle, processor: UserProcessor, name: str | None, stores: Sequence[str]
) -> StreamHandle:
    """The values that a processor of the user forwards, under the key of its input."""
    node = ProcessorNode(
        stream.graph.names.generated("KSTREAM-PROCESSVALUES-") if name is None else checked(name),
        user_supplier(processor, fixed_key=True),
        stores,
    )
    stream.graph.add(node, stream.node)
    return StreamHandle(
        stream.graph, node.name, node, stream.sources, stream.key, None, stream.needs_repartition
    )
