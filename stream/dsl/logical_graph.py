"""The graph that the operators build, and how it becomes a topology. Source: InternalStreamsBuilder."""

from __future__ import annotations

import heapq
import re
from itertools import count
from typing import TYPE_CHECKING, Any

from ..topology.errors import TopologyError
from ..topology.topology_builder import TopologyBuilder
from .graph import (
    GraphNode,
    ProcessorNode,
    RepartitionNode,
    RootNode,
    SourceNode,
    SuppressNode,
    TableSourceNode,
)
from .handles import OF_ANOTHER
from .names import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..state.suppliers import Supplier


class LogicalGraph:
    """Nodes and names of one application under construction."""

    def __init__(
        self,
        make_stream: Callable[[Any], Any],
        *,
        persistent: bool = True,
        headers: bool = False,
        store_supplier: Supplier | None = None,
    ) -> None:
        """`make_stream`: the class of streams, for the tables that become streams."""
        self.store_supplier = store_supplier
        self.make_stream = make_stream
        self.names = Names()
        self.stores_are_persistent = persistent
        self.stores_have_headers = headers
        self.topology = TopologyBuilder()
        self.root = RootNode("root")
        self.unnamed: list[str] = []  # internal topics and stores with generated names
        self.repartitions: dict[
            GraphNode, dict[RepartitionNode, None]
        ] = {}  # by the node that changed the key
        self.merges: dict[GraphNode, None] = {}
        self.tables: dict[TableSourceNode, None] = {}
        self._priorities = count()
        self._is_written = False
        self._added: set[GraphNode] = set()

    def add(self, child: GraphNode, *parents: GraphNode) -> None:
        """Add a node below `parents`, or below the root. It is written after them. Errors: TopologyError once
        the graph is written, and for parents of another graph."""
        self.check_open()
        if not self._added.issuperset(parents):
            raise TopologyError(OF_ANOTHER)
        self._added.add(child)
        for parent in parents or (self.root,):
            parent.add_child(child)
            child.priority = next(self._priorities)
            if child.changes_key:
                self.repartitions[child] = {}
            elif isinstance(child, RepartitionNode) and child.is_optimizable:
                changer = _key_changer_above(child)
                if changer is not None:
                    self.repartitions[changer][child] = None
            elif child.is_merge:
                self.merges[child] = None
            elif isinstance(child, TableSourceNode):
                self.tables[child] = None

    # writing

    def write(
        self, optimize: Callable[[LogicalGraph], None], serdes: tuple[Any, Any] = (None, None)
    ) -> TopologyBuilder:
        """The topology. `optimize` changes the graph before it is written. `serdes`: the defaults of keys and
        values, as far as they are known."""
        self._merge_sources(serdes)
        optimize(self)
        nodes = self._in_order()
        self._enable_versions(nodes)
        for node in nodes:
            self.topology.origin = node.origin
            node.write(self.topology)
        self.topology.check_copartitioning()
        self.topology.origin = None
        self._is_written = True
        return self.topology

    def check_open(self) -> None:
        """Errors: TopologyError once the graph is written: nothing added afterwards would run."""
        if self._is_written:
            raise TopologyError("the topology is complete: it has been described or built")

    def _in_order(self) -> Sequence[GraphNode]:
        """All nodes by priority; a node waits for its parents."""
        ordered: dict[GraphNode, None] = {}
        tie = count()
        waiting: list[tuple[int, int, GraphNode]] = [(self.root.priority, next(tie), self.root)]
        while waiting:
            _, _, node = heapq.heappop(waiting)
            if node in ordered or not all(parent in ordered for parent in node.parents):
                continue
            ordered[node] = None
            for child in node.children:
                heapq.heappush(waiting, (child.priority, next(tie), child))
        return list(ordered)

    def _merge_sources(self, serdes: tuple[Any, Any]) -> None:
        """One source node where several streams have the same topics or the same pattern."""
        by_topic: dict[object, SourceNode] = {}
        for node in list(self.root.children):
            if not isinstance(node, SourceNode):
                continue
            is_pattern = isinstance(node.topics, re.Pattern)
            for topic in [node.topics] if isinstance(node.topics, re.Pattern) else node.topics:
                first = by_topic.setdefault((topic, is_pattern), node)
                if first is node:
                    continue
                if set_of(first) != set_of(node):
                    raise TopologyError(
                        f"sources {first.name} and {node.name} have topic {topic} in common, but not all",
                        node.origin,
                    )
                first.merge(node, serdes)
                self.root.remove_child(node)

    def _enable_versions(self, nodes: Sequence[GraphNode]) -> None:
        """The output of a node is a versioned table if its store is; without one, if all parents are."""
        versioned: dict[GraphNode, bool] = {self.root: False}
        for node in nodes[1:]:
            inherits = all(versioned[parent] for parent in node.parents)
            versioned[node] = inherits if node.is_output_versioned is None else node.is_output_versioned
            if isinstance(node, SuppressNode) and inherits:
                raise TopologyError("a versioned table cannot be suppressed", node.origin)
            if isinstance(node, ProcessorNode) and node.follows_versions:
                for parent in node.parents:
                    if versioned[parent]:
                        node.use_versions(parent)


def set_of(node: SourceNode) -> object:
    """What two sources must have in common to be one: the topics in any order, or the pattern."""
    return node.topics if isinstance(node.topics, re.Pattern) else frozenset(node.topics)


def first_above(node: GraphNode, matches: Callable[[GraphNode], bool]) -> GraphNode | None:
    """The first match among `node` and the nodes above it, depth first."""
    waiting = [node]
    seen: set[GraphNode] = set()
    while waiting:
        each = waiting.pop()
        if matches(each):
            return each
        if each not in seen:
            seen.add(each)
            waiting += reversed(each.parents)
    return None


def _key_changer_above(node: GraphNode) -> GraphNode | None:
    """The node that changed the key, unless an operator below it changed the value: then a merged topic would
    contain other values."""
    changer = first_above(node, lambda each: each.changes_key)
    return (
        changer if first_above(node, lambda each: each.changes_key or each.changes_value) is changer else None
    )
