"""Places the ranges of a read on Ray nodes near their replicas. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..pipeline.ranges import OffsetRange


def ray_nodes(facts: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Ids of live Ray nodes by address and by host name, from `ray.nodes()`."""
    found: dict[str, list[str]] = {}
    for node in facts:
        if node.get("Alive"):
            names = {node.get("NodeManagerAddress"), node.get("NodeManagerHostname")}
            for name in sorted(each for each in names if each):
                found.setdefault(name, []).append(node["NodeID"])
    return found


def beside(
    ranges: Iterable[OffsetRange], nodes: Mapping[str, list[str]]
) -> list[tuple[str | None, list[OffsetRange]]]:
    """Ranges by the Ray node on the leader's machine, else on a replica's; None for ranges without one.
    Several Ray nodes on a machine share its partitions."""
    found: dict[str | None, list[OffsetRange]] = {}
    for each in ranges:
        near = next((nodes[host] for host in each.hosts if host in nodes), None)
        place = None if near is None else near[each.partition % len(near)]
        found.setdefault(place, []).append(each)
    return list(found.items())
