"""The graph of a topology, and its text as Java's `Topology.describe` prints it.

The order of the nodes that follow or precede one is that of a Java TreeSet whose comparator reads the number
of nodes below each, while these numbers still grow: it is reproduced with the same tree.
Source: InternalTopologyBuilder.describe, java.util.TreeMap.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.records.streams_group_records import SubtopologyGraph, TopologyDescription, TopologyNode
from ...protocol.records.topology_limits import PROCESSOR, SINK, SOURCE
from . import java_order
from .specs import NodeSpec, ProcessorSpec, SourceSpec
from .tree_set import TreeSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .topology_builder import TopologyBuilder


@dataclass(eq=False, slots=True)
class _Node:
    """A node under description. `size`: 1 and the sizes of the nodes below it, once per path. `place`: that
    of a parent is lower."""

    spec: NodeSpec
    place: int
    size: int = 1
    before: TreeSet[_Node] = field(default_factory=lambda: TreeSet(_is_before))
    after: TreeSet[_Node] = field(default_factory=lambda: TreeSet(_is_before))

    def grow(self, by: int) -> None:
        """Add to the size of this node and of all above it, as often as there are paths to them."""
        growth = {self: by}
        waiting = [(-self.place, self)]
        while waiting:
            _, node = heapq.heappop(waiting)
            node.size += growth[node]
            for above in node.before:
                if above not in growth:
                    growth[above] = 0
                    heapq.heappush(waiting, (-above.place, above))
                growth[above] += growth[node]


def _is_before(one: _Node, other: _Node) -> bool:
    if one.size != other.size:
        return one.size > other.size
    return one.spec.name < other.spec.name


def describe(builder: TopologyBuilder) -> str:
    """The text of all sub-topologies and global stores."""
    return text_of(graph_of(builder))


# --- the graph ----------------------------------------------------------------------------------------------


def graph_of(builder: TopologyBuilder) -> TopologyDescription:
    """What the text says, as it is sent to the group (KIP-1331)."""
    return TopologyDescription(
        tuple(
            SubtopologyGraph(str(number), True, _global_store(builder, names))
            if builder.is_global(names)
            else SubtopologyGraph(str(number), False, _sub_topology(builder, names))
            for number, names in builder.node_groups().items()
        )
    )


def _sub_topology(builder: TopologyBuilder, names: Sequence[str]) -> tuple[TopologyNode, ...]:
    places = {name: place for place, name in enumerate(names)}
    nodes = {name: _Node(builder.nodes[name], places[name]) for name in java_order.grown(names)}
    for node in nodes.values():
        for name in node.spec.parents:
            parent = nodes[name]
            node.before.add(parent)
            parent.after.add(node)
            parent.grow(node.size)
    return tuple(map(_said, sorted(nodes.values(), key=lambda node: (-node.size, node.spec.name))))


def _global_store(builder: TopologyBuilder, names: Sequence[str]) -> tuple[TopologyNode, ...]:
    source = next(name for name in java_order.grown(names) if builder.is_global_source(name))
    processor = next(name for name in java_order.grown(names) if name != source)
    first, second = _Node(builder.nodes[source], 0), _Node(builder.nodes[processor], 1)
    first.after.add(second)
    second.before.add(first)
    return _said(first), _said(second)


def _said(node: _Node) -> TopologyNode:
    spec = node.spec
    links: dict[str, Any] = {
        "successors": tuple(each.spec.name for each in node.after),
        "predecessors": tuple(each.spec.name for each in node.before),
    }
    if isinstance(spec, SourceSpec):
        chosen_by = "" if spec.pattern is None else spec.pattern.pattern
        return TopologyNode(spec.name, SOURCE, tuple(java_order.copied(spec.topics)), chosen_by, **links)
    if isinstance(spec, ProcessorSpec):
        stores = tuple(java_order.copied(java_order.grown(spec.stores)))
        return TopologyNode(spec.name, PROCESSOR, stores=stores, **links)
    if isinstance(spec.topic, str):
        return TopologyNode(spec.name, SINK, (spec.topic,), **links)
    function = getattr(spec.topic, "__qualname__", type(spec.topic).__qualname__)
    return TopologyNode(spec.name, SINK, chosen_by=function, **links)


# --- the text -----------------------------------------------------------------------------------------------


def text_of(graph: TopologyDescription) -> str:
    """As Java prints it."""
    return "Topologies:\n " + "".join(f"  {_section(each)}" for each in graph.subtopologies)


def _section(graph: SubtopologyGraph) -> str:
    lines = "".join(f"    {_line(node)}\n" for node in graph.nodes)
    if graph.is_global:
        return f"Sub-topology: {graph.subtopology_id} for global store (will not generate tasks)\n{lines}"
    return f"Sub-topology: {graph.subtopology_id}\n{lines}\n"


def _line(node: TopologyNode) -> str:
    before, after = f"\n      <-- {_names(node.predecessors)}", f"\n      --> {_names(node.successors)}"
    if node.kind == SOURCE:
        return f"Source: {node.name} (topics: {node.chosen_by or _set(node.topics)}){after}"
    if node.kind == PROCESSOR:
        return f"Processor: {node.name} (stores: {_set(node.stores)}){after}{before}"
    to = f"topic: {node.topics[0]}" if node.topics else f"extractor class: {node.chosen_by}"
    return f"Sink: {node.name} ({to}){before}"


def _set(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
