"""A built sub-topology: what one task runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .specs import SourceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .internal_topics import InternalTopic
    from .specs import NodeSpec, Reprocess, StoreBuilder


@dataclass(frozen=True, slots=True)
class SubTopology:
    """Nodes and stores of one sub-topology. Topics have their full names, with the application id."""

    id: int
    nodes: tuple[NodeSpec, ...]
    """Parents before their children."""
    children: Mapping[str, tuple[str, ...]]
    """Of each node, in the order in which records are forwarded to them."""
    sources: Mapping[str, SourceSpec]
    """By topic. A source with a pattern stands under each topic that it is subscribed to."""
    stores: tuple[StoreBuilder, ...]
    """In the order in which a task initializes them. Global stores that are connected are not among them."""
    global_stores: tuple[StoreBuilder, ...]
    changelogs: Mapping[str, str]
    """Store name to changelog topic. Stores without changelog are absent. A source topic may be one."""
    repartition_topics: frozenset[str]
    reprocess: Mapping[str, Reprocess] = field(default_factory=dict)
    """By name, the global stores that are restored through their processor."""

    def node(self, name: str) -> NodeSpec:
        """Errors: KeyError if there is no such node."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def source_of(self, topic: str) -> SourceSpec | None:
        """The source of a topic, also if only its pattern names it."""
        if topic in self.sources:
            return self.sources[topic]
        for source in self.nodes:
            if (
                isinstance(source, SourceSpec)
                and source.pattern is not None
                and source.pattern.fullmatch(topic)
            ):
                return source
        return None

    def reader_of(self, topic: str) -> SourceSpec | None:
        """The source of a topic, or of the topics of a pattern together, which its text stands for."""
        for source in self.nodes:
            if isinstance(source, SourceSpec) and source.pattern and source.pattern.pattern == topic:
                return source
        return self.source_of(topic)


@dataclass(frozen=True, slots=True)
class TopicsInfo:
    """The topics of one sub-topology, full names. Source: InternalTopologyBuilder.TopicsInfo."""

    source_topics: frozenset[str]
    sink_topics: frozenset[str]
    repartition_topics: Mapping[str, InternalTopic]
    changelog_topics: Mapping[str, InternalTopic]
    """Source topics that serve as changelogs included."""

    @property
    def created_changelogs(self) -> tuple[InternalTopic, ...]:
        """Changelog topics that are not source topics: the application creates them."""
        return tuple(
            topic for name, topic in sorted(self.changelog_topics.items()) if name not in self.source_topics
        )
