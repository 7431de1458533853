"""What all threads of an application share: its configuration, sub-topologies and topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ...protocol.records.streams_group_records import StreamsGroupTopologyValue, TopologyDescription
    from ..config import StreamsConfig
    from ..state.engines import Engine
    from ..task.settings import TaskSettings
    from ..topology.built import BuiltTopology
    from ..topology.column_paths import ColumnPath
    from ..topology.specs import OffsetReset
    from ..topology.sub_topology import SubTopology
    from .listeners_io import RestoreListener


@dataclass(frozen=True, slots=True)
class AppPlan:
    """`client_configs` by prefix ("main.consumer", "producer", ...). `partitions` is the number of partitions
    of each source topic, also of repartition topics that do not exist yet; `topic_ids` are those of topics
    that exist. `open_engine` opens the files of a store in the folder of its task."""

    config: StreamsConfig
    settings: TaskSettings
    built: BuiltTopology
    sub_topologies: Mapping[int, SubTopology]
    sources: Mapping[int, frozenset[str]]
    partitions: Mapping[str, int]
    repartition_topics: frozenset[str]
    topic_ids: Mapping[str, str]
    client_configs: Mapping[str, Mapping[str, Any]]
    open_engine: Callable[[Path, str], Engine]
    group_topology: StreamsGroupTopologyValue
    """What the members of the group send."""
    description: TopologyDescription | None = None
    """What they send besides, for operators; None: nothing."""
    client_tags: Mapping[str, str] = field(default_factory=dict)
    column_paths: Mapping[int, Mapping[str, ColumnPath]] = field(default_factory=dict)
    """Of each sub-topology. If there are any, threads read by column."""
    restore_listener: RestoreListener | None = None
    global_partitions: Mapping[str, int] = field(default_factory=dict)
    """The numbers of partitions of the topics of global stores."""

    def changelogs(self) -> frozenset[str]:
        """All changelog topics that the tasks write."""
        return frozenset(
            topic
            for sub_topology in self.sub_topologies.values()
            for topic in sub_topology.changelogs.values()
            if topic not in sub_topology.sources
        )

    def stateful(self) -> frozenset[int]:
        """The sub-topologies with stores."""
        return frozenset(number for number, each in self.sub_topologies.items() if each.stores)

    def offset_reset(self, topic: str) -> OffsetReset:
        """Where a partition of the topic without committed offset begins."""
        reset = self.built.offset_reset(topic)
        if reset is not None:
            return reset
        default: str = self.client_configs["main.consumer"]["auto.offset.reset"]
        return default
