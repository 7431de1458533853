"""The builder of an application: its sources, tables and stores. Source: StreamsBuilder."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from ..processors.tables import KTableSource
from ..processors.user import user_supplier
from ..task.timestamps import FunctionTimestampExtractor
from ..topology.errors import TopologyError
from ..topology.topology import Topology
from .graph import GlobalStoreNode, SourceNode, StoreNode, TableSourceNode
from .handles import StreamHandle, TableHandle
from .kstream import KStream
from .ktable import GlobalKTable, KTable
from .late import Late, LateRoute, checked_late_of_table
from .logical_graph import LogicalGraph
from .optimizations import chosen, optimize
from .stores import Materialized, Store, StoreArgument, processor_store

if TYPE_CHECKING:
    # With defaults: a stream without serdes has any types.
    from typing_extensions import TypeVar

    Key = TypeVar("Key", default=Any)
    Value = TypeVar("Value", default=Any)

    from collections.abc import Callable, Collection, Iterable

    from ...clients.serdes import ContextSerde, Serde
    from ..processors.user import UserProcessor
    from ..state.builders import StoreBuilder
    from ..state.suppliers import Supplier
    from ..topology.built import BuiltTopology
    from ..topology.serdes import DerivedSerde
    from ..topology.specs import OffsetReset, TimestampExtractor

    SerdeOf = Serde[Key] | ContextSerde[Key] | DerivedSerde


class Builder:
    """An application under construction; it is complete when it is described or built for the first time.

    `optimization`: topology.optimization. `persistent`: stores are on disk unless they say otherwise.
    `store_supplier`: makes the stores of operators, see `BytesStore`.
    `store_headers`: persistent stores of operators keep headers, as with dsl.store.format=headers.
    `require_names`: ensure.explicit.internal.resource.naming. Errors: TopologyError, with the calling line.
    """

    def __init__(
        self,
        *,
        optimization: str | Iterable[str] = "none",
        persistent: bool = True,
        store_headers: bool = False,
        store_supplier: Supplier | None = None,
        require_names: bool = False,
    ) -> None:
        self._graph = LogicalGraph(
            KStream, persistent=persistent, headers=store_headers, store_supplier=store_supplier
        )
        self._rewrites = chosen(optimization)
        self._requires_names = require_names
        self._topology: Topology | None = None
        self._serdes: tuple[Any, Any] = None, None

    def stream(
        self,
        *topics: str | re.Pattern[str],
        key: SerdeOf[Key] | None = None,
        value: SerdeOf[Value] | None = None,
        timestamp: TimestampExtractor | Callable[[Any], int] | None = None,
        offset_reset: OffsetReset | None = None,
        name: str | None = None,
    ) -> KStream[Key, Value]:
        """The records of some topics, or of all topics whose names match a pattern."""
        graph = self._open()
        pattern = next((topic for topic in topics if isinstance(topic, re.Pattern)), None)
        if not topics or (pattern is not None and len(topics) > 1):
            raise TopologyError("a stream has one or more topics, or one pattern")
        if pattern is None and not all(isinstance(topic, str) for topic in topics):
            raise TopologyError(f"topics are names, or one compiled pattern, not {topics!r}")
        node = SourceNode(
            graph.names.given_or(name, "KSTREAM-SOURCE-"),
            pattern if pattern is not None else [topic for topic in topics if isinstance(topic, str)],
            key=key,
            value=value,
            timestamp=extractor_of(timestamp),
            offset_reset=offset_reset,
        )
        graph.add(node)
        return KStream(StreamHandle(graph, node.name, node, frozenset([node.name]), key, value))

    def table(
        self,
        topic: str,
        *,
        key: SerdeOf[Key] | None = None,
        value: SerdeOf[Value] | None = None,
        timestamp: TimestampExtractor | Callable[[Any], int] | None = None,
        offset_reset: OffsetReset | None = None,
        name: str | None = None,
        store: StoreArgument = None,
        late: Late | None = None,
    ) -> KTable[Key, Value]:
        """The records of a topic as updates of a table; it is stored if it is read or `store` has a name.

        `late`: a topic or function for updates that are older than the history of a versioned table."""
        graph = self._open()
        materialized = Materialized(graph, store, f"{topic}-")
        materialized.key = materialized.key if key is None else key
        materialized.value = materialized.value if value is None else value
        options = {
            "key": materialized.key,
            "value": materialized.value,
            "timestamp": extractor_of(timestamp),
            "offset_reset": offset_reset,
        }
        late = checked_late_of_table(late, materialized.is_versioned)
        node = self._table_source(topic, materialized, options, name)
        route = LateRoute(graph, late, name, "-late", materialized.key, materialized.value)
        node.supplier.late, node.late_sink = route.records, route.sink
        node.is_output_versioned = materialized.is_versioned
        graph.add(node)
        return KTable(
            TableHandle(
                graph,
                node.name,
                node,
                frozenset([node.source_name]),
                materialized.key,
                materialized.value,
                node.supplier,
                materialized.queryable_name,
            )
        )

    def global_table(
        self,
        topic: str,
        *,
        key: SerdeOf[Key] | None = None,
        value: SerdeOf[Value] | None = None,
        timestamp: TimestampExtractor | Callable[[Any], int] | None = None,
        name: str | None = None,
        store: StoreArgument = None,
    ) -> GlobalKTable[Key, Value]:
        """A table of which every worker has all partitions of the topic."""
        graph = self._open()
        materialized = Materialized(graph, store, f"{topic}-", is_queryable=True)
        if materialized.is_versioned:
            raise TopologyError(f"the store of global table {topic} cannot be versioned")
        materialized.key = materialized.key if key is None else key
        materialized.value = materialized.value if value is None else value
        options = {
            "key": materialized.key,
            "value": materialized.value,
            "timestamp": extractor_of(timestamp),
        }
        node = self._table_source(topic, materialized, options, name, is_global=True)
        graph.add(node)
        return GlobalKTable(node.supplier.view(), materialized.name)

    def _table_source(
        self,
        topic: str,
        materialized: Materialized,
        options: dict[str, Any],
        name: str | None,
        *,
        is_global: bool = False,
    ) -> TableSourceNode:
        names = self._graph.names
        source = names.suffixed_or(name, "-source", "KSTREAM-SOURCE-")
        supplier = KTableSource(materialized.key_value(), materialized.is_queryable)
        node_name = names.given_or(name, "KTABLE-SOURCE-")
        return TableSourceNode(node_name, source, topic, supplier, options, is_global)

    def add_store(self, store: Store | StoreBuilder) -> Builder:
        """Adds a store for processors, which name it when they are added."""
        graph = self._open()
        graph.add(StoreNode(processor_store(store, persistent=graph.stores_are_persistent)))
        return self

    def add_global_store(
        self,
        store: Store | StoreBuilder,
        topic: str,
        update: UserProcessor,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: TimestampExtractor | Callable[[Any], int] | None = None,
        name: str | None = None,
    ) -> Builder:
        """Adds a store that every worker fills from all partitions of a topic, by a processor."""
        graph = self._open()
        source = graph.names.suffixed_or(name, "-source", "KSTREAM-SOURCE-")
        processor = graph.names.given_or(name, "KTABLE-SOURCE-")
        builder = processor_store(store, persistent=graph.stores_are_persistent)
        options = {"key": key, "value": value, "timestamp": extractor_of(timestamp)}
        graph.add(GlobalStoreNode(builder, source, topic, processor, user_supplier(update), options))
        return self

    # the topology

    def topology(self) -> Topology:
        """The complete topology; nothing can be added afterwards."""
        if self._topology is None:
            builder = self._graph.write(partial(optimize, rewrites=self._rewrites), self._serdes)
            if self._requires_names and self._graph.unnamed:
                raise TopologyError(f"without a name of their own: {', '.join(self._graph.unnamed)}")
            self._topology = Topology(builder)
        return self._topology

    def describe(self) -> str:
        """The text that Java's `Topology.describe` gives for the same application."""
        return self.topology().describe()

    def build(
        self, application_id: str, *, caching: bool = True, matched: Collection[str] = ()
    ) -> BuiltTopology:
        """The sub-topologies, as `Topology.build`."""
        return self.topology().build(application_id, caching=caching, matched=matched)

    def _open(self) -> LogicalGraph:
        self._graph.check_open()
        return self._graph


def extractor_of(timestamp: Any) -> TimestampExtractor | None:
    """`timestamp`, or an extractor that calls it."""
    if timestamp is None or hasattr(timestamp, "extract"):
        return timestamp  # type: ignore[no-any-return]
    return FunctionTimestampExtractor(timestamp)
