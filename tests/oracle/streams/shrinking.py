"""A smaller case that still shows the same: fewer events, fewer nodes, fewer fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .cases import SOURCES, Case, Node, inputs, topics

NEEDED = {"id", "op", "input", "other", "topic", "topics", "branches", "kind", "size", "processor"}
# without a serde a case is about that
SERDES = {"key", "value", "other_value"}
# what an aggregate, a join or a mapping cannot be without
FUNCTIONS = {
    "f",
    "key_f",
    "value_f",
    "initial",
    "subtract_f",
    "merge_f",
    "count",
    "before",
    "after",
    "uses",
    "grace",
    "pattern",
    "history",
    "retention",
    "supplier",
}

# operators whose input can take their place
BYPASSED = {"filter", "filter_not", "map", "map_values", "flat_map", "flat_map_values", "select_key", "peek"}
BYPASSED |= {"merge", "repartition", "process", "process_values", "transform_values", "suppress"}


def shrink(case: Case, differs: Callable[[Case], bool], *, limit: int = 400) -> Case:
    """The smallest case found with at most `limit` tries."""
    tries = 0

    def is_kept(smaller: Case) -> bool:
        nonlocal tries
        tries += 1
        return tries <= limit and differs(smaller)

    before = None
    while before != case and tries < limit:
        before = case
        case = _fewer_nodes(case, is_kept)
        case = _fewer_events(case, is_kept)
        case = _fewer_fields(case, is_kept)
    return case


def _fewer_events(case: Case, is_kept: Callable[[Case], bool]) -> Case:
    """Remove halves, quarters ... of the events."""
    size = len(case["events"])
    while size := size // 2:
        begin = 0
        while begin < len(case["events"]):
            rest = case["events"][:begin] + case["events"][begin + size :]
            smaller = case | {"events": rest}
            if is_kept(smaller):
                case = smaller
            else:
                begin += size
    return case


def without(case: Case, node_id: str) -> Case | None:
    """The case without a node and its readers, and without the events of unread topics."""
    gone = {node_id}
    kept: list[Node] = []
    for node in case["nodes"]:
        if node["id"] in gone or any(source.split(".")[0] in gone for source in inputs(node)):
            gone.add(node["id"])
        else:
            kept.append(node)
    return _with_nodes(case, kept)


def _bypassed(case: Case, node: Node) -> Case | None:
    """The case in which the readers of a node read its input."""
    if node["op"] not in BYPASSED:
        return None
    nodes = []
    for each in case["nodes"]:
        if each is node:
            continue
        moved = {name: node["input"] for name in ("input", "other") if each.get(name) == node["id"]}
        nodes.append(each | moved)
    return _with_nodes(case, nodes)


def _with_nodes(case: Case, nodes: list[Node]) -> Case | None:
    read = {topic for node in nodes if node["op"] in SOURCES for topic in topics(node)}
    patterns = [node["pattern"][:-2] for node in nodes if "pattern" in node]
    events = [
        event
        for event in case["events"]
        if "topic" not in event or event["topic"] in read or event["topic"].startswith(tuple(patterns))
    ]
    return case | {"nodes": nodes, "events": events} if nodes else None


def _fewer_nodes(case: Case, is_kept: Callable[[Case], bool]) -> Case:
    for node in reversed(case["nodes"]):
        if not any(each["id"] == node["id"] for each in case["nodes"]):
            continue
        current = next(each for each in case["nodes"] if each["id"] == node["id"])
        for smaller in (without(case, node["id"]), _bypassed(case, current)):
            if smaller is not None and is_kept(smaller):
                case = smaller
                break
    return case


def _simpler(node: Node) -> Iterator[Node]:
    """The node without one of its fields."""
    for name in node:
        if name not in NEEDED | FUNCTIONS | SERDES:
            yield {key: value for key, value in node.items() if key != name}
        elif isinstance(node[name], dict):
            yield from (
                node | {name: {key: value for key, value in node[name].items() if key != part}}
                for part in node[name]
                if part not in SERDES and name != "uses"
            )


def _fewer_fields(case: Case, is_kept: Callable[[Case], bool]) -> Case:
    for name in list(case["config"]):
        config = {key: value for key, value in case["config"].items() if key != name}
        if is_kept(smaller := case | {"config": config}):
            case = smaller
    for place in range(len(case["nodes"])):
        is_smaller = True
        while is_smaller:
            is_smaller = False
            for simpler in _simpler(case["nodes"][place]):
                nodes: list[Any] = [*case["nodes"]]
                nodes[place] = simpler
                if is_kept(smaller := case | {"nodes": nodes}):
                    case, is_smaller = smaller, True
                    break
    return case
