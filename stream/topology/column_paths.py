"""Which source topics pass through Arrow sections first: their records need not become objects before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .specs import ProcessorSpec, SinkSpec, SourceSpec

if TYPE_CHECKING:
    from .sub_topology import SubTopology


class ColumnPath(NamedTuple):
    """Sections directly behind a source, and the sink if that is all. Otherwise the children of the last
    section get rows."""

    source: SourceSpec
    sections: tuple[ProcessorSpec, ...]
    sink: SinkSpec | None


def column_paths(topology: SubTopology) -> dict[str, ColumnPath]:
    """By source topic; empty unless all have one: records of others have an order by timestamp."""
    found = {topic: _path(topology, source) for topic, source in topology.sources.items()}
    paths = {topic: path for topic, path in found.items() if path is not None}
    return paths if len(paths) == len(found) else {}


def _path(topology: SubTopology, source: SourceSpec) -> ColumnPath | None:
    if source.pattern is not None or source.timestamp is not None:
        return None
    sections: list[ProcessorSpec] = []
    children = topology.children[source.name]
    while len(children) == 1:
        node = topology.node(children[0])
        if isinstance(node, SinkSpec) and isinstance(node.topic, str) and node.partitioner is None:
            return ColumnPath(source, tuple(sections), node) if sections else None
        if not isinstance(node, ProcessorSpec) or not getattr(node.supplier, "is_arrow_section", False):
            break
        sections.append(node)
        children = topology.children[node.name]
    return ColumnPath(source, tuple(sections), None) if sections else None
