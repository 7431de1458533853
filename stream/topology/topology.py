"""The Processor API: a topology of named sources, processors, stores and sinks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..processors.user import user_supplier
from .built import BuiltTopology
from .description import describe, graph_of
from .topology_builder import TopologyBuilder

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...protocol.records.streams_group_records import TopologyDescription
    from ..processors.user import UserProcessor
    from .specs import OffsetReset, Partitioner, StoreBuilder, TimestampExtractor, TopicNameExtractor


class Topology:
    """A graph of named nodes. Every method returns the topology. Errors: TopologyError, with the line that
    added the invalid part. Serdes that are None are those of the application."""

    def __init__(self, builder: TopologyBuilder | None = None) -> None:
        self.builder = builder or TopologyBuilder()

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key: Any = None,
        value: Any = None,
        timestamp: TimestampExtractor | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> Topology:
        """Add a source of some topics, or of all topics that match one pattern."""
        pattern = next((topic for topic in topics if isinstance(topic, re.Pattern)), None)
        self.builder.add_source(
            name,
            pattern if pattern is not None else [topic for topic in topics if isinstance(topic, str)],
            key=key,
            value=value,
            timestamp=timestamp,
            offset_reset=offset_reset,
        )
        return self

    def add_processor(
        self, name: str, processor: UserProcessor, *parents: str, stores: Collection[str] = ()
    ) -> Topology:
        """Add a processor: a class or function that makes one, a supplier, or a generator function."""
        self.builder.add_processor(name, user_supplier(processor), parents)
        if stores:
            self.builder.connect(name, list(stores))
        return self

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parents: str,
        key: Any = None,
        value: Any = None,
        partitioner: Partitioner | None = None,
    ) -> Topology:
        """Add a sink to a topic, or to the topic that a function of key, value and context returns."""
        self.builder.add_sink(name, topic, parents, key=key, value=value, partitioner=partitioner)
        return self

    def add_state_store(self, store: StoreBuilder, *processors: str) -> Topology:
        """Add a store, and connect it to some processors."""
        self.builder.add_store(store, processors)
        return self

    def add_read_only_state_store(
        self,
        store: StoreBuilder,
        source: str,
        topic: str,
        processor: str,
        update: UserProcessor,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: TimestampExtractor | None = None,
    ) -> Topology:
        """Add a store that a processor fills from a topic, which is its changelog as well."""
        self.builder.add_source(
            source, [topic], key=key, value=value, timestamp=timestamp, offset_reset="earliest"
        )
        self.builder.add_processor(processor, user_supplier(update), [source])
        self.builder.add_store(store, [processor])
        self.builder.use_source_topic(store.name, topic)
        return self

    def add_global_store(
        self,
        store: StoreBuilder,
        source: str,
        topic: str,
        processor: str,
        update: UserProcessor,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: TimestampExtractor | None = None,
    ) -> Topology:
        """Add a store that every worker fills from all partitions of a topic, by a processor."""
        self.builder.add_global_store(
            store, source, topic, processor, user_supplier(update),
            key=key, value=value, timestamp=timestamp, reprocess=True,
        )  # fmt: skip
        return self

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Topology:
        """Give a processor access to stores that have been added."""
        self.builder.connect(processor, stores)
        return self

    def describe(self) -> str:
        """The text that Java's `Topology.describe` gives for this topology."""
        return describe(self.builder)

    def graph(self) -> TopologyDescription:
        """What `describe` says, by node."""
        return graph_of(self.builder)

    def build(
        self, application_id: str, *, caching: bool = True, matched: Collection[str] = ()
    ) -> BuiltTopology:
        """The sub-topologies of an application. `caching` is False where statestore.cache.max.bytes is 0.
        `matched`: existing topics, for sources with patterns."""
        return BuiltTopology(self.builder, application_id, caching=caching, matched=matched)
