"""Repartitioning: records are written to an internal topic by their new key, and read from it.

Source: BaseRepartitionNode and its subclasses, KStreamImpl.createRepartitionedSource.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..processors.stateless import KStreamFilter
from ..task.timestamps import FailOnInvalidTimestamp
from .graph import GraphNode

if TYPE_CHECKING:
    from ..topology.specs import Partitioner
    from ..topology.topology_builder import TopologyBuilder
    from .logical_graph import LogicalGraph

SUFFIX = "-repartition"
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")


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


def repartition_node(
    graph: LogicalGraph,
    prefix: str,
    *,
    key: Any,
    value: Any,
    is_named: bool,
    partitioner: Partitioner | None = None,
    partitions: int | None = None,
    is_optimizable: bool = True,
) -> RepartitionNode:
    """A node whose topic is `prefix` with the suffix; it is not added to the graph. Uses up three numbers."""
    topic = prefix if prefix.endswith(SUFFIX) else prefix + SUFFIX
    if not is_named:
        graph.unnamed.append(f"repartition topic {topic}")
    sink = graph.names.generated("KSTREAM-SINK-")
    null_key_filter = graph.names.generated("KSTREAM-FILTER-")
    source = graph.names.generated("KSTREAM-SOURCE-")
    if not _GENERATED.fullmatch(prefix):
        sink, null_key_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
    return RepartitionNode(
        source,
        sink,
        topic,
        key=key,
        value=value,
        filter_name=null_key_filter,
        partitioner=partitioner,
        partitions=partitions,
        is_optimizable=is_optimizable,
    )


def _everything(_key: Any, _value: Any) -> bool:
    return True


def _has_key(key: Any, _value: Any) -> bool:
    return key is not None
