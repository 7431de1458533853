"""Rewrites of the logical graph, chosen by topology.optimization. Source: InternalStreamsBuilder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .graph import JoinWindowNode, RepartitionNode, StreamStreamJoinNode
from .logical_graph import LogicalGraph, first_above
from .repartition import repartition_node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .graph import GraphNode

REUSE_KTABLE_SOURCE_TOPICS = "reuse.ktable.source.topics"
MERGE_REPARTITION_TOPICS = "merge.repartition.topics"
SINGLE_STORE_SELF_JOIN = "single.store.self.join"
ALL = (REUSE_KTABLE_SOURCE_TOPICS, MERGE_REPARTITION_TOPICS, SINGLE_STORE_SELF_JOIN)


def chosen(config: str | Iterable[str]) -> frozenset[str]:
    """The rewrites that topology.optimization names: "none", "all", or some, by comma. Errors: ValueError."""
    names = config.split(",") if isinstance(config, str) else list(config)
    names = [name.strip() for name in names]
    if names in ([], ["none"]):
        return frozenset()
    if names == ["all"]:
        return frozenset(ALL)
    unknown = sorted(set(names) - set(ALL))
    if unknown:
        raise ValueError(
            f"topology.optimization: {', '.join(unknown)} is none of none, all, {', '.join(ALL)}"
        )
    return frozenset(names)


def optimize(graph: LogicalGraph, rewrites: frozenset[str]) -> None:
    """Rewrite the graph. Repartitioning drops null keys in any case, unless a join below accepts them."""
    if REUSE_KTABLE_SOURCE_TOPICS in rewrites:
        for table in graph.tables:
            table.reuses_topic = True
    if MERGE_REPARTITION_TOPICS in rewrites:
        _merge_repartition_topics(graph)
    if SINGLE_STORE_SELF_JOIN in rewrites:
        for node in _descendants(graph.root):
            if isinstance(node, StreamStreamJoinNode) and len(node.parents) == 1:
                _make_self_join(node)
    _drop_null_keys(graph)


def _merge_repartition_topics(graph: LogicalGraph) -> None:
    """One repartition topic behind each operator that changes keys."""
    _move_to_merges(graph)
    for changer, repartitions in graph.repartitions.items():
        if not repartitions:
            continue
        first = next(iter(repartitions))
        merged = repartition_node(
            graph,
            first.topic,
            key=next((node.key for node in repartitions if node.key is not None), None),
            value=next((node.value for node in repartitions if node.value is not None), None),
            is_named=True,
        )
        merged.origin = first.origin
        merged.priority = changer.priority  # before everything below
        for replaced in repartitions:
            _replace(graph, changer, replaced, merged)
        changer.add_child(merged)
    graph.repartitions = {changer: nodes for changer, nodes in graph.repartitions.items() if not nodes}


def _replace(
    graph: LogicalGraph, changer: GraphNode, replaced: RepartitionNode, merged: RepartitionNode
) -> None:
    """Put `merged` directly below `changer`, and take `replaced` out."""
    below = first_above(replaced, lambda node: changer in node.parents)
    if below is not None:  # else another repartition node has brought it below `merged`
        merged.add_child(below)
        changer.remove_child(below)
    children, parents = list(replaced.children), list(replaced.parents)
    for child in children:
        for parent in parents:
            parent.add_child(child)
    for parent in parents:
        parent.remove_child(replaced)
    for child in children:
        replaced.remove_child(child)
    graph.topology.replace_copartitioned(replaced.name, merged.name)


def _move_to_merges(graph: LogicalGraph) -> None:
    """Where all repartition nodes of a key changer are below a merge, the merge takes its place."""
    changers_of: dict[GraphNode, list[GraphNode]] = {}
    for merge in graph.merges:
        is_below = partial(_is_below, merge)
        changers_of[merge] = [
            changer
            for changer, nodes in graph.repartitions.items()
            if all(is_below(node) for node in nodes) and _is_below(changer, merge)
        ]
    moved: set[GraphNode] = set()
    for merge, changers in changers_of.items():
        nodes = {node: None for changer in changers for node in graph.repartitions[changer]}
        graph.repartitions[merge] = nodes
        moved.update(changers)
    for changer in moved:
        del graph.repartitions[changer]


def _is_below(upper: GraphNode, node: GraphNode) -> bool:
    return first_above(node, lambda each: upper in each.parents) is not None


def _make_self_join(join: StreamStreamJoinNode) -> None:
    """Both sides are the same stream: drop the window store of the right one."""
    (parent,) = join.parents
    windows = {
        node.name: node
        for node in parent.children
        if isinstance(node, JoinWindowNode) and node.priority < join.priority
    }
    left, right = (windows[name] for _, _, name in join.sides)
    assert left.priority < right.priority, f"{left.name} was added after {right.name}"
    parent.remove_child(right)
    join.is_self_join = True


def _drop_null_keys(graph: LogicalGraph) -> None:
    nodes = _descendants(graph.root)
    keeps: set[GraphNode] = set()
    for node in reversed(nodes):
        if any(child.accepts_null_keys or child in keeps for child in node.children):
            keeps.add(node)
    for node in nodes:
        if isinstance(node, RepartitionNode) and node not in keeps:
            node.drops_null_keys = True


def _descendants(root: GraphNode) -> list[GraphNode]:
    """`root` and all nodes below it, each before its children."""
    finished: dict[GraphNode, None] = {}
    opened = {root}
    stack = [(root, iter(list(root.children)))]
    while stack:
        node, rest = stack[-1]
        child = next((each for each in rest if each not in opened), None)
        if child is None:
            stack.pop()
            finished[node] = None
        else:
            opened.add(child)
            stack.append((child, iter(list(child.children))))
    return list(reversed(finished))
