"""Which source topics pass through Arrow sections, or an aggregation by column, first: their records need not
become objects before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .specs import ProcessorSpec, SinkSpec, SourceSpec

if TYPE_CHECKING:
    from .sub_topology import SubTopology


class ColumnPath(NamedTuple):
    """Sections directly behind a source, and the sink if that is all. Otherwise the children of the last
    section get rows. Or an aggregation directly behind the source."""

    source: SourceSpec
    sections: tuple[ProcessorSpec, ...]
    sink: SinkSpec | None
    aggregate: ProcessorSpec | None = None


TakesColumns = Callable[[SourceSpec, ProcessorSpec], bool]
"""Whether an aggregation can take the records of a source by column."""


def column_paths(topology: SubTopology, takes_columns: TakesColumns | None = None) -> dict[str, ColumnPath]:
    """By source topic; empty unless all have one: records of others have an order by timestamp. Without
    `takes_columns` no aggregation has one."""
    found = {topic: _path(topology, source, takes_columns) for topic, source in topology.sources.items()}
    paths = {topic: path for topic, path in found.items() if path is not None}
    return paths if len(paths) == len(found) else {}


def _path(topology: SubTopology, source: SourceSpec, takes_columns: TakesColumns | None) -> ColumnPath | None:
    if source.pattern is not None or source.timestamp is not None:
        return None
    sections: list[ProcessorSpec] = []
    children = topology.children[source.name]
    while len(children) == 1:
        node = topology.node(children[0])
        if isinstance(node, SinkSpec) and isinstance(node.topic, str) and node.partitioner is None:
            return ColumnPath(source, tuple(sections), node) if sections else None
        if not isinstance(node, ProcessorSpec):
            break
        if not getattr(node.supplier, "is_arrow_section", False):
            takes = takes_columns is not None and not sections and takes_columns(source, node)
            if takes and _has_cached_store(topology, node):
                return ColumnPath(source, (), None, node)
            break
        sections.append(node)
        children = topology.children[node.name]
    return ColumnPath(source, tuple(sections), None) if sections else None


def _has_cached_store(topology: SubTopology, node: ProcessorSpec) -> bool:
    """Whether the node has one store, with a cache, and is the only one that is connected to it."""
    if len(node.stores) != 1:
        return False
    (name,) = node.stores
    users = sum(name in each.stores for each in topology.nodes if isinstance(each, ProcessorSpec))
    return users == 1 and any(store.name == name and store.is_cached for store in topology.stores)
