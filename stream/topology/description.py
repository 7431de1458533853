"""The text of `Topology.describe`, as Java prints it.

The order of the nodes that follow or precede one is that of a Java TreeSet whose comparator reads the number
of nodes below each, while these numbers still grow: it is reproduced with the same tree.
Source: InternalTopologyBuilder.describe, java.util.TreeMap.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
    """The description of all sub-topologies and global stores."""
    texts = (
        (_global_store if builder.is_global(names) else _sub_topology)(builder, number, names)
        for number, names in builder.node_groups().items()
    )
    return "Topologies:\n " + "".join(f"  {text}" for text in texts)


def _sub_topology(builder: TopologyBuilder, number: int, names: Sequence[str]) -> str:
    places = {name: place for place, name in enumerate(names)}
    nodes = {name: _Node(builder.nodes[name], places[name]) for name in java_order.grown(names)}
    for node in nodes.values():
        for name in node.spec.parents:
            parent = nodes[name]
            node.before.add(parent)
            parent.after.add(node)
            parent.grow(node.size)
    ordered = sorted(nodes.values(), key=lambda node: (-node.size, node.spec.name))
    lines = "".join(f"    {_line(node)}\n" for node in ordered)
    return f"Sub-topology: {number}\n{lines}\n"


def _global_store(builder: TopologyBuilder, number: int, names: Sequence[str]) -> str:
    source = next(name for name in java_order.grown(names) if builder.is_global_source(name))
    processor = next(name for name in java_order.grown(names) if name != source)
    first, second = _Node(builder.nodes[source], 0), _Node(builder.nodes[processor], 1)
    first.after.add(second)
    second.before.add(first)
    return (
        f"Sub-topology: {number} for global store (will not generate tasks)\n"
        f"    {_line(first)}\n    {_line(second)}\n"
    )


def _line(node: _Node) -> str:
    spec = node.spec
    before, after = f"\n      <-- {_names(node.before)}", f"\n      --> {_names(node.after)}"
    if isinstance(spec, SourceSpec):
        topics = spec.pattern.pattern if spec.pattern is not None else _set(spec.topics)
        return f"Source: {spec.name} (topics: {topics}){after}"
    if isinstance(spec, ProcessorSpec):
        return f"Processor: {spec.name} (stores: {_set(java_order.grown(spec.stores))}){after}{before}"
    if isinstance(spec.topic, str):
        return f"Sink: {spec.name} (topic: {spec.topic}){before}"
    function = getattr(spec.topic, "__qualname__", type(spec.topic).__qualname__)
    return f"Sink: {spec.name} (extractor class: {function}){before}"


def _set(names: Sequence[str]) -> str:
    return f"[{', '.join(java_order.copied(names))}]"


def _names(nodes: TreeSet[_Node]) -> str:
    return ", ".join(node.spec.name for node in nodes) or "none"
