"""Nodes, stores and internal topics of a topology, added in order: what the DSL and `Topology` write into.

Source: InternalTopologyBuilder.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...protocol.model import topic_name_fault
from .errors import Origin, TopologyError, caller
from .node_groups import NodeGroups
from .specs import CopartitionGroup, NodeSpec, ProcessorSpec, Reprocess, SinkSpec, SourceSpec, StoreEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ..processing import ProcessorSupplier
    from .specs import (
        OffsetReset,
        Partitioner,
        StoreBuilder,
        TimestampExtractor,
        TopicNameExtractor,
        WindowedKeyPartitioner,
    )


class TopologyBuilder:
    """A topology under construction. Errors: TopologyError, with the line that added the invalid part."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeSpec] = {}  # in order of addition: parents first
        self.stores: dict[str, StoreEntry] = {}
        self.global_stores: dict[str, StoreBuilder] = {}
        self.reprocess: dict[str, Reprocess] = {}
        self.source_changelogs: dict[str, str] = {}  # store -> the source topic that is its changelog
        self.internal_topics: dict[str, int | None] = {}  # short name -> number of partitions if it is fixed
        self.copartition_groups: list[CopartitionGroup] = []
        self.global_topics: set[str] = set()
        self.store_sources: dict[str, tuple[SourceSpec, ...]] = {}  # store -> sources that it is filled from
        self.application_id: str | None = None  # once it is built
        self.origin: Origin | None = None  # of the part that is being added; None: the calling line
        self._source_topics: set[str] = set()
        self._groups = NodeGroups()

    # nodes

    def add_source(
        self,
        name: str,
        topics: Sequence[str] | re.Pattern[str],
        *,
        key: Any = None,
        value: Any = None,
        timestamp: TimestampExtractor | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> None:
        """Add a source of some topics, or of all topics that match a pattern as a whole."""
        self._check_name(name)
        pattern = topics if isinstance(topics, re.Pattern) else None
        names = () if isinstance(topics, re.Pattern) else tuple(topics)
        if pattern is not None:
            for topic in sorted(self._source_topics):
                if pattern.fullmatch(topic):
                    raise self._error(f"pattern {pattern.pattern} matches topic {topic} of another source")
        elif not names:
            raise self._error(f"source {name} has no topics")
        for topic in names:
            self._check_topic(topic)
            self._source_topics.add(topic)
        self._add(SourceSpec(name, names, self._where(), pattern, key, value, timestamp, offset_reset))

    def add_processor(self, name: str, supplier: ProcessorSupplier, parents: Sequence[str]) -> None:
        """Add a processor, and the stores that its supplier brings."""
        self._check_name(name)
        self._check_parents(name, parents)
        if not hasattr(supplier, "create"):
            raise self._error(f"processor {name}: {supplier!r} is no processor supplier")
        self._add(ProcessorSpec(name, tuple(parents), supplier, self._where()))
        for builder in supplier.stores():
            self.add_store(builder, [name])

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        parents: Sequence[str],
        *,
        key: Any = None,
        value: Any = None,
        partitioner: Partitioner | WindowedKeyPartitioner | None = None,
    ) -> None:
        """Add a sink to a topic, or to the topic that a function names for each record."""
        self._check_name(name)
        self._check_parents(name, parents)
        if isinstance(topic, str):
            self._check_topic_name(topic)
        elif not callable(topic):
            raise self._error(f"the topic of sink {name} is a name or a function, not {topic!r}")
        self._add(SinkSpec(name, tuple(parents), topic, self._where(), key, value, partitioner))

    # stores

    def add_store(self, builder: StoreBuilder, processors: Iterable[str] = ()) -> None:
        """Add a store and connect it. The same builder may be added again."""
        name = builder.name
        entry = self.stores.get(name)
        if entry is not None and entry.added is not builder:
            raise self._error(f"another store with the name {name} exists")
        if name in self.global_stores:
            raise self._error(f"a global store with the name {name} exists")
        if entry is None:
            self.stores[name] = StoreEntry(builder, builder)
        for processor in processors:
            self._connect(processor, name)

    def connect(self, processor: str, stores: Sequence[str]) -> None:
        """Give a processor access to stores. Its sub-topology and those of the other users become one."""
        if not stores:
            raise self._error(f"processor {processor}: no stores to connect")
        for store in stores:
            self._connect(processor, store)

    def add_global_store(
        self,
        builder: StoreBuilder,
        source: str,
        topic: str,
        processor: str,
        supplier: ProcessorSupplier,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: TimestampExtractor | None = None,
        reprocess: bool,
    ) -> None:
        """Add a store that each worker fills from all partitions of a topic.

        `reprocess`: the store is restored through its processor, not by copying the records of the topic.
        """
        self._check_name(source)
        self._check_topic(topic)
        self._check_name(processor)
        if source == processor:
            raise self._error(f"source and processor of the global store {builder.name} have the same name")
        if builder.name in self.stores or builder.name in self.global_stores:
            raise self._error(f"another store with the name {builder.name} exists")
        self.global_topics.add(topic)
        added = SourceSpec(source, (topic,), self._where(), None, key, value, timestamp)
        node = ProcessorSpec(processor, (source,), supplier, self._where(), [builder.name])
        self._add(added)
        self._add(node)
        self.global_stores[builder.name] = replace(builder, is_logged=False)  # type: ignore[type-var]  # a dataclass
        if reprocess:
            self.reprocess[builder.name] = Reprocess(added, node)
        self.use_source_topic(builder.name, topic)

    def use_source_topic(self, store: str, topic: str) -> None:
        """Make the source topic of a store its changelog."""
        if store in self.source_changelogs:
            raise self._error(f"store {store} is filled from topic {self.source_changelogs[store]} already")
        self.source_changelogs[store] = topic
        self.disable_logging(store)

    def disable_logging(self, store: str) -> None:
        """No changelog of its own for a store."""
        if store in self.stores:
            entry = self.stores[store]
            entry.builder = replace(entry.builder, is_logged=False)  # type: ignore[type-var]  # a dataclass

    # internal topics and co-partitioning

    def add_internal_topic(self, name: str, partitions: int | None = None) -> None:
        """Declare a repartition topic, by its name without the application id."""
        self.internal_topics[name] = partitions

    def internal_name(self, topic: str) -> str:
        """The full name of an internal topic, which begins with the application id."""
        assert self.application_id is not None, "full names are known once the topology is built"
        return f"{self.application_id}-{topic}"

    def copartition(self, sources: Collection[str]) -> None:
        """Require equal numbers of partitions of the topics of some source nodes."""
        self.copartition_groups.append(CopartitionGroup(set(sources), self._where()))

    def replace_copartitioned(self, old: str, new: str) -> None:
        """Put another source node in place of one that an optimization removes."""
        for group in self.copartition_groups:
            if old in group.sources:
                group.sources.remove(old)
                group.sources.add(new)

    def check_copartitioning(self) -> None:
        """Topics whose numbers of partitions are all fixed must have the same one."""
        for group in self.copartition_groups:
            topics = {topic for name in group.sources for topic in self.source_topics(name)}
            fixed = {topic: self.internal_topics.get(topic) for topic in sorted(topics)}
            if None not in fixed.values() and len(set(fixed.values())) > 1:
                counts = ", ".join(f"{topic} has {count}" for topic, count in fixed.items())
                problem = f"joined topics need the same number of partitions: {counts}"
                raise TopologyError(problem, group.origin)

    # what the rest of the package reads

    def source_topics(self, node: str) -> tuple[str, ...]:
        """Short names of the topics of a source; none for a pattern or another node."""
        spec = self.nodes.get(node)
        return spec.topics if isinstance(spec, SourceSpec) else ()

    def node_groups(self) -> dict[int, list[str]]:
        """Node names by sub-topology id, in order of addition. Each global store has an id as well."""
        return self._groups.numbered()

    def is_global(self, group: Iterable[str]) -> bool:
        """Whether a group of nodes fills a global store."""
        return any(self.is_global_source(name) for name in group)

    def is_global_source(self, name: str) -> bool:
        """Whether a node is the source of a global store."""
        topics = self.source_topics(name)
        return len(topics) == 1 and topics[0] in self.global_topics

    # internals

    def _add(self, node: NodeSpec) -> None:
        self.nodes[node.name] = node
        self._groups.add(node.name)
        self._groups.unite(node.name, node.parents)

    def _connect(self, processor: str, store: str) -> None:
        if store in self.global_stores:
            raise self._error(
                f"global store {store} is accessible to every processor: do not connect it to {processor}"
            )
        if store not in self.stores:
            raise self._error(f"store {store} of processor {processor} has not been added")
        node = self.nodes.get(processor)
        if node is None:
            raise self._error(f"processor {processor} of store {store} has not been added")
        if not isinstance(node, ProcessorSpec):
            raise self._error(f"{processor} is a source or sink: it cannot use store {store}")
        entry = self.stores[store]
        if entry.processors:
            self._groups.unite(entry.processors[0], [processor])
        if processor not in entry.processors:
            entry.processors.append(processor)
        if store not in node.stores:
            node.stores.append(store)
        if store not in self.store_sources:
            sources = self._sources_above(node)
            if sources:
                self.store_sources[store] = sources

    def _sources_above(self, node: NodeSpec) -> tuple[SourceSpec, ...]:
        found: dict[str, SourceSpec] = {}
        seen: set[str] = set()
        waiting = list(node.parents)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            above = self.nodes[name]
            if isinstance(above, SourceSpec):
                found[name] = above
            else:
                waiting += above.parents
        return tuple(found.values())

    def _check_name(self, name: str) -> None:
        if not name:
            raise self._error("a node needs a name")
        if name in self.nodes:
            raise self._error(f"another node with the name {name} exists")

    def _check_parents(self, name: str, parents: Sequence[str]) -> None:
        if not parents:
            raise self._error(f"node {name} has no parents")
        for parent in parents:
            if parent == name:
                raise self._error(f"node {name} is its own parent")
            if parent not in self.nodes:
                raise self._error(f"parent {parent} of node {name} does not exist")
            if isinstance(self.nodes[parent], SinkSpec):
                raise self._error(f"sink {parent} cannot be a parent of node {name}")

    def _check_topic(self, topic: str) -> None:
        self._check_topic_name(topic)
        if topic in self._source_topics or topic in self.global_topics:
            raise self._error(f"topic {topic} has another source")
        for node in self.nodes.values():
            if isinstance(node, SourceSpec) and node.pattern is not None and node.pattern.fullmatch(topic):
                raise self._error(f"topic {topic} matches pattern {node.pattern.pattern} of another source")

    def _check_topic_name(self, topic: str) -> None:
        fault = topic_name_fault(topic)
        if fault is not None:
            raise self._error(fault)

    def _where(self) -> Origin:
        return self.origin or caller()

    def _error(self, problem: str) -> TopologyError:
        return TopologyError(problem, self._where())
