"""The logical graph of an application: what the operators of the DSL add, before it is optimized and written
into a topology. Source: GraphNode and its subclasses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..processors.stateless import KStreamFilter
from ..task.timestamps import FailOnInvalidTimestamp
from ..topology import java_order
from ..topology.errors import TopologyError, caller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..processing import ProcessorSupplier
    from ..topology.specs import OffsetReset, Partitioner, StoreBuilder, TimestampExtractor
    from ..topology.topology_builder import TopologyBuilder


class GraphNode:
    """A node of the logical graph. Children and parents are kept in the order in which they were added."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.origin = caller()
        self.children: dict[GraphNode, None] = {}
        self.parents: dict[GraphNode, None] = {}
        self.priority = 0  # nodes are written in this order
        self.changes_key = False
        self.changes_value = False
        self.is_merge = False
        self.is_output_versioned: bool | None = None  # None: as its parents
        self.accepts_null_keys = False  # a left or outer join
        self.grace_ms: int | None = None  # of a windowed aggregation: until its windows close

    def add_child(self, child: GraphNode) -> None:
        self.children[child] = None
        child.parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        self.children.pop(child, None)
        child.parents.pop(self, None)

    @property
    def parent_names(self) -> list[str]:
        return [parent.name for parent in self.parents]

    def write(self, topology: TopologyBuilder) -> None:
        """Add the nodes and stores of this node to a topology."""
        raise NotImplementedError


class RootNode(GraphNode):
    """The parent of all sources."""

    def write(self, topology: TopologyBuilder) -> None:
        """Nothing."""


class LateSink(NamedTuple):
    """The sink of the late records of a processor."""

    name: str
    topic: str
    key: Any
    value: Any

    def write(self, topology: TopologyBuilder, processor: str) -> None:
        topology.add_sink(self.name, self.topic, [processor], key=self.key, value=self.value)


class ProcessorNode(GraphNode):
    """A processor, the stores that it reads beside its own, and the sink of its late records."""

    follows_versions = False
    """Whether its processor works on versions if its parents are versioned tables."""

    def __init__(self, name: str, supplier: ProcessorSupplier, stores: Sequence[str] = ()) -> None:
        super().__init__(name)
        self.supplier = supplier
        self.stores = list(stores)
        self.late_sink: LateSink | None = None

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_processor(self.name, self.supplier, self.parent_names)
        if self.stores:
            topology.connect(self.name, self.stores)
        if self.late_sink is not None:
            self.late_sink.write(topology, self.name)

    def use_versions(self, parent: GraphNode) -> None:
        """The output of `parent` is versioned."""
        self.supplier.use_versioned_semantics = True  # type: ignore[attr-defined]


class VersionedProcessorNode(ProcessorNode):
    """A processor that works on versions if its parents are versioned tables."""

    follows_versions = True


class SuppressNode(ProcessorNode):
    """The suppression of a table."""


class JoinWindowNode(ProcessorNode):
    """The store of one side of a stream-stream join."""


class SourceNode(GraphNode):
    """The source of a stream."""

    def __init__(
        self,
        name: str,
        topics: Sequence[str] | re.Pattern[str],
        *,
        key: Any = None,
        value: Any = None,
        timestamp: TimestampExtractor | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> None:
        super().__init__(name)
        self.topics = topics if isinstance(topics, re.Pattern) else tuple(java_order.copied(topics))
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.offset_reset = offset_reset

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_source(
            self.name,
            self.topics,
            key=self.key,
            value=self.value,
            timestamp=self.timestamp,
            offset_reset=self.offset_reset,
        )

    def merge(self, other: SourceNode, defaults: tuple[Any, Any]) -> None:
        """Take the children of a source of the same topics, which are read once. `defaults`: the serdes of
        the application. Errors: TopologyError for other serdes or offset resets."""
        self._check_format("key", self.key, other.key, defaults[0], other)
        self._check_format("value", self.value, other.value, defaults[1], other)
        if self.offset_reset != other.offset_reset:
            raise TopologyError(
                f"sources {self.name} and {other.name} of the same topics reset their offsets differently: "
                f"{self.offset_reset} and {other.offset_reset}",
                other.origin,
            )
        for child in list(other.children):
            other.remove_child(child)
            self.add_child(child)

    def _check_format(self, field: str, mine: Any, theirs: Any, default: Any, other: SourceNode) -> None:
        """Serdes of one class and name are taken for equal."""
        serdes = [default if serde is None else serde for serde in (mine, theirs)]
        formats = [(type(serde), getattr(serde, "name", None)) for serde in serdes if serde is not None]
        if len(formats) == 2 and formats[0] != formats[1]:
            names = " and ".join(str(name or kind.__name__) for kind, name in formats)
            raise TopologyError(
                f"sources {self.name} and {other.name} of the same topics have different {field} serdes:"
                f" {names}",
                other.origin,
            )


class TableSourceNode(GraphNode):
    """The source and processor of a table or global table. With `reuses_topic` the topic is its changelog."""

    def __init__(
        self, name: str, source_name: str, topic: str, supplier: Any, options: dict[str, Any], is_global: bool
    ) -> None:
        super().__init__(name)
        self.source_name = source_name
        self.topic = topic
        self.supplier = supplier
        self.options = options
        self.is_global = is_global
        self.reuses_topic = False
        self.late_sink: LateSink | None = None

    def write(self, topology: TopologyBuilder) -> None:
        if self.is_global:
            options = {name: each for name, each in self.options.items() if name != "offset_reset"}
            topology.add_global_store(
                self.supplier.store, self.source_name, self.topic, self.name, self.supplier,
                **options, reprocess=False,
            )  # fmt: skip
            return
        topology.add_source(self.source_name, [self.topic], **self.options)
        topology.add_processor(self.name, self.supplier, [self.source_name])
        if self.late_sink is not None:
            self.late_sink.write(topology, self.name)
        if self.reuses_topic:
            for store in self.supplier.stores():
                topology.use_source_topic(store.name, self.topic)


class SinkNode(GraphNode):
    """A sink of a stream."""

    def __init__(self, name: str, topic: Any, *, key: Any, value: Any, partitioner: Any) -> None:
        super().__init__(name)
        self.topic = topic
        self.key = key
        self.value = value
        self.partitioner = partitioner

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_sink(
            self.name,
            self.topic,
            self.parent_names,
            key=self.key,
            value=self.value,
            partitioner=self.partitioner,
        )


class StoreNode(GraphNode):
    """A store that is added by itself."""

    def __init__(self, store: StoreBuilder) -> None:
        super().__init__(store.name)
        self.store = store

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_store(self.store)


class GlobalStoreNode(GraphNode):
    """A global store that a user's processor fills."""

    def __init__(
        self,
        store: StoreBuilder,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Any,
        options: Any,
    ) -> None:
        super().__init__(store.name)
        self.arguments = (store, source_name, topic, processor_name, supplier)
        self.options = options

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_global_store(*self.arguments, **self.options, reprocess=True)


class StreamTableJoinNode(ProcessorNode):
    """A join of a stream with a table; `join_grace_ms` needs versions in `stores`."""

    def __init__(
        self, name: str, supplier: ProcessorSupplier, stores: Sequence[str], join_grace_ms: int | None
    ) -> None:
        super().__init__(name, supplier, stores)
        self.join_grace_ms = join_grace_ms

    def write(self, topology: TopologyBuilder) -> None:
        super().write(topology)
        if self.join_grace_ms is None:
            return
        for store in self.stores:
            history = topology.stores[store].builder.history_retention_ms
            if not history:
                raise TopologyError(
                    f"a join with grace or as of a time needs a versioned table, unlike {store}", self.origin
                )
            if self.join_grace_ms > history:
                raise TopologyError(
                    f"the grace of the join, {self.join_grace_ms} ms, is longer than the history of {store}, "
                    f"{history} ms",
                    self.origin,
                )


class StreamStreamJoinNode(GraphNode):
    """Both sides of a stream-stream join and their merge; the optimizer makes one side of a self-join."""

    def __init__(self, name: str, sides: Sequence[tuple[str, Any, str]], merge: Any, self_join: Any) -> None:
        super().__init__(name)
        self.sides = sides  # (name, supplier, name of the windowed parent): left, right
        self.merge_supplier = merge
        self.self_join = self_join
        self.is_self_join = False

    def write(self, topology: TopologyBuilder) -> None:
        if self.is_self_join:
            topology.add_processor(self.name, self.self_join, [self.sides[0][2]])
            return
        for name, supplier, parent in self.sides:
            topology.add_processor(name, supplier, [parent])
        topology.add_processor(self.name, self.merge_supplier, [name for name, _, _ in self.sides])


class TableTableJoinNode(ProcessorNode):
    """Both sides of a table-table join and their merge."""

    follows_versions = True

    def __init__(self, name: str, sides: Sequence[tuple[str, Any, str, Sequence[str]]], merger: Any) -> None:
        super().__init__(name, merger)
        self.sides = sides  # (name, supplier, name of the parent, stores of the other side): left, right

    def write(self, topology: TopologyBuilder) -> None:
        for name, supplier, parent, _ in self.sides:
            topology.add_processor(name, supplier, [parent])
        topology.add_processor(self.name, self.supplier, [name for name, *_ in self.sides])
        for name, _, _, stores in self.sides:
            topology.connect(name, stores)

    def use_versions(self, parent: GraphNode) -> None:
        for _, supplier, parent_name, _ in self.sides:
            if parent_name == parent.name:
                supplier.use_versioned_semantics = True


class RepartitionNode(GraphNode):
    """A sink to a repartition topic and the source that reads it, named as the source.

    `filter_name` None: no filter before the sink (grouped tables). `is_optimizable`: the
    DSL added it, so that it may be merged with others.
    """

    def __init__(
        self,
        source_name: str,
        sink_name: str,
        topic: str,
        *,
        key: Any,
        value: Any,
        filter_name: str | None = None,
        partitioner: Partitioner | None = None,
        partitions: int | None = None,
        is_optimizable: bool = False,
    ) -> None:
        super().__init__(source_name)
        self.sink_name = sink_name
        self.topic = topic
        self.key = key
        self.value = value
        self.filter_name = filter_name
        self.drops_null_keys = False
        self.partitioner = partitioner
        self.partitions = partitions
        self.is_optimizable = is_optimizable

    def write(self, topology: TopologyBuilder) -> None:
        topology.add_internal_topic(self.topic, self.partitions)
        parents = self.parent_names
        if self.filter_name is not None:
            keeps = _has_key if self.drops_null_keys else _everything
            topology.add_processor(self.filter_name, KStreamFilter(keeps), parents)
            parents = [self.filter_name]
        topology.add_sink(
            self.sink_name, self.topic, parents, key=self.key, value=self.value, partitioner=self.partitioner
        )
        topology.add_source(
            self.name, [self.topic], key=self.key, value=self.value, timestamp=FailOnInvalidTimestamp()
        )


def _everything(_key: Any, _value: Any) -> bool:
    return True


def _has_key(key: Any, _value: Any) -> bool:
    return key is not None
