"""Builds the sub-topologies of an application: full topic names, changelogs, co-partitioned topics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import java_order
from .errors import TopologyError
from .internal_topics import InternalTopic, TopicKind, changelog
from .specs import NodeSpec, ProcessorSpec, SinkSpec, SourceSpec
from .sub_topology import SubTopology, TopicsInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from .specs import OffsetReset, StoreBuilder
    from .topology_builder import TopologyBuilder


class BuiltTopology:
    """A complete topology under an application id.

    `matched`: topics that exist and match patterns of sources; `use_matched` replaces them.
    """

    def __init__(
        self,
        builder: TopologyBuilder,
        application_id: str,
        *,
        caching: bool = True,
        matched: Collection[str] = (),
    ) -> None:
        self.application_id = builder.application_id = application_id
        self._builder = builder
        self._caching = caching
        self._groups = builder.node_groups()
        self.use_matched(matched)

    def use_matched(self, topics: Collection[str]) -> None:
        """Assign topics to the sources whose patterns match them, the first such source taking each."""
        self._matched: dict[str, list[str]] = {}
        owners: dict[str, str] = {}
        for spec in self._builder.nodes.values():
            if not isinstance(spec, SourceSpec) or spec.pattern is None:
                continue
            for topic in sorted(topics):
                if not spec.pattern.fullmatch(topic):
                    continue
                if topic in owners:
                    problem = (
                        f"topic {topic} matches the patterns of two sources, {owners[topic]} and {spec.name}"
                    )
                    raise TopologyError(problem, spec.origin)
                owners[topic] = spec.name
                self._matched.setdefault(spec.name, []).append(topic)

    @property
    def matched(self) -> frozenset[str]:
        """The topics that match patterns of sources."""
        return frozenset().union(*self._matched.values())

    # sub-topologies

    @property
    def sub_topology_ids(self) -> tuple[int, ...]:
        """Ids of sub-topologies that run as tasks; ids of global stores are missing among them."""
        return tuple(number for number, names in self._groups.items() if not self._builder.is_global(names))

    def sub_topology(self, number: int) -> SubTopology:
        """The sub-topology with that id. Errors: KeyError."""
        return self._build(number, self._groups[number])

    def all_tasks(self) -> SubTopology:
        """All sub-topologies in one, with id 0, for the test driver."""
        return self._build(0, [name for each in self.sub_topology_ids for name in self._groups[each]])

    def global_topology(self) -> SubTopology | None:
        """Sources and processors of all global stores; None without global stores."""
        names = [name for group in self._groups.values() if self._builder.is_global(group) for name in group]
        return self._build(-1, names) if names else None

    # topics

    def topic_name(self, topic: str) -> str:
        """The full name of a topic: internal ones begin with the application id."""
        return self._builder.internal_name(topic) if topic in self._builder.internal_topics else topic

    def topics_of(self, number: int) -> TopicsInfo:
        """Topics of a sub-topology."""
        built = self.sub_topology(number)
        repartition: dict[str, InternalTopic] = {}
        for node in self._nodes(self._groups[number]):
            for topic in self._builder.source_topics(node.name):
                if topic in self._builder.internal_topics:
                    name = self.topic_name(topic)
                    partitions = self._builder.internal_topics[topic]
                    repartition[name] = InternalTopic(name, TopicKind.REPARTITION, partitions)
        sinks = (node.topic for node in built.nodes if isinstance(node, SinkSpec))
        stores = {store.name: store for store in built.stores}
        return TopicsInfo(
            source_topics=frozenset(built.sources),
            sink_topics=frozenset(topic for topic in sinks if isinstance(topic, str)),
            repartition_topics=repartition,
            changelog_topics={
                topic: changelog(topic, stores[store])
                for store, topic in built.changelogs.items()
                if store in stores
            },
        )

    def source_topics(self) -> tuple[str, ...]:
        """Topics of all tasks, sorted."""
        return tuple(
            sorted(topic for each in self.sub_topology_ids for topic in self.sub_topology(each).sources)
        )

    def source_patterns(self) -> tuple[str, ...]:
        return tuple(
            spec.pattern.pattern
            for spec in self._builder.nodes.values()
            if isinstance(spec, SourceSpec) and spec.pattern is not None
        )

    def copartition_groups(self) -> tuple[frozenset[str], ...]:
        """Groups of topics that need the same number of partitions. Groups with a common topic are one."""
        return self._copartitioned(self._topics_of_source)

    def copartition_subscriptions(self) -> tuple[frozenset[str], ...]:
        """`copartition_groups` with the names of sources in place of those that have patterns."""

        def of_source(name: str) -> list[str]:
            topics = [self.topic_name(topic) for topic in self._builder.source_topics(name)]
            spec = self._builder.nodes[name]
            return [*topics, name] if isinstance(spec, SourceSpec) and spec.pattern is not None else topics

        return self._copartitioned(of_source)

    def _copartitioned(self, items_of: Callable[[str], list[str]]) -> tuple[frozenset[str], ...]:
        """Groups of the items of sources; groups with a common item are one."""
        groups: list[set[str]] = []
        for required in self._builder.copartition_groups:
            items = {item for name in required.sources for item in items_of(name)}
            touching = [group for group in groups if group & items]
            groups = [group for group in groups if not group & items]
            groups.append(items.union(*touching))
        return tuple(sorted((frozenset(group) for group in groups if group), key=sorted))

    def offset_reset(self, topic: str) -> OffsetReset | None:
        """The override of auto.offset.reset of a source topic."""
        for spec in self._builder.nodes.values():
            if isinstance(spec, SourceSpec) and topic in self._topics_of_source(spec.name):
                return spec.offset_reset
        return None

    def source_topics_of_store(self, store: str) -> tuple[str, ...]:
        """Topics whose records reach a store: their key decides the partition of the store."""
        sources = self._builder.store_sources.get(store, ())
        return tuple(sorted(topic for each in sources for topic in self._topics_of_source(each.name)))

    # internals

    def _topics_of_source(self, name: str) -> list[str]:
        topics = [self.topic_name(topic) for topic in self._builder.source_topics(name)]
        return topics + self._matched.get(name, [])

    def _nodes(self, names: Iterable[str]) -> list[NodeSpec]:
        chosen = set(names)
        return [node for name, node in self._builder.nodes.items() if name in chosen]

    def _build(self, number: int, names: Iterable[str]) -> SubTopology:
        nodes = [self._with_full_names(node) for node in self._nodes(names)]
        children: dict[str, list[str]] = {node.name: [] for node in nodes}
        for node in nodes:
            for parent in node.parents:
                children[parent].append(node.name)
        sources = {
            topic: node
            for node in nodes
            if isinstance(node, SourceSpec)
            for topic in self._topics_of_source(node.name)
        }
        stores = self._stores(nodes)
        internal = {self.topic_name(topic) for topic in self._builder.internal_topics}
        sinks = {node.topic for node in nodes if isinstance(node, SinkSpec) and isinstance(node.topic, str)}
        return SubTopology(
            id=number,
            nodes=tuple(nodes),
            children={name: tuple(below) for name, below in children.items()},
            sources=sources,
            stores=tuple(stores.values()),
            global_stores=tuple(self._cached(store) for store in self._builder.global_stores.values()),
            changelogs=self._changelogs(stores),
            repartition_topics=frozenset(internal & (set(sources) | sinks)),
            reprocess=self._builder.reprocess,
        )

    def _with_full_names(self, node: NodeSpec) -> NodeSpec:
        if isinstance(node, SourceSpec):
            return replace(node, topics=tuple(self.topic_name(topic) for topic in node.topics))
        if isinstance(node, SinkSpec) and isinstance(node.topic, str):
            return replace(node, topic=self.topic_name(node.topic))
        return node

    def _stores(self, nodes: Iterable[NodeSpec]) -> dict[str, StoreBuilder]:
        found: dict[str, StoreBuilder] = {}
        for node in nodes:
            if isinstance(node, ProcessorSpec):
                for name in java_order.grown(node.stores):
                    if name in self._builder.stores:
                        found.setdefault(name, self._cached(self._builder.stores[name].builder))
        return found

    def _cached(self, store: Any) -> StoreBuilder:
        if self._caching or not store.is_cached:
            return store  # type: ignore[no-any-return]
        return replace(store, is_cached=False)  # type: ignore[no-any-return]

    def _changelogs(self, stores: Mapping[str, StoreBuilder]) -> dict[str, str]:
        topics = {
            name: f"{self.application_id}-{name}-changelog" for name, s in stores.items() if s.is_logged
        }
        reused = self._builder.source_changelogs
        topics |= {
            name: topic
            for name, topic in reused.items()
            if name in stores or name in self._builder.global_stores
        }
        return topics
