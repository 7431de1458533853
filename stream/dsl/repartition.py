"""Repartitioning: records are written to an internal topic by their new key, and read from it.

Source: KStreamImpl.createRepartitionedSource.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from .graph import RepartitionNode

if TYPE_CHECKING:
    from ..topology.specs import Partitioner
    from .logical_graph import LogicalGraph

SUFFIX = "-repartition"
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")


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
