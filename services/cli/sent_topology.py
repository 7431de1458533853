"""The processing graph that the members of a streams group have sent to it (KIP-1331)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...clients.sync.admin_io import Admin
    from ...protocol.records.streams_group_records import TopologyDescription

_KINDS = {1: "source", 2: "processor", 3: "sink"}


def sent_topology(admin: Admin, group_id: str) -> TopologyDescription | None:
    """None if no member has sent one. Errors: GroupIdNotFoundError, HeadraceError."""
    results = admin.describe_streams_groups(group_id, include_topology_description=True)
    return results[group_id].topology_description


def topology_lines(graph: TopologyDescription) -> list[str]:
    """The text that Kafka Streams prints."""
    from ...stream.topology.description import text_of

    return text_of(graph).rstrip("\n").splitlines()


def topology_rows(graph: TopologyDescription) -> list[dict[str, Any]]:
    """Each node with its subtopology, topics, stores and connections."""
    return [
        {
            "sub_topology": each.subtopology_id,
            "is_global": each.is_global,
            **node._asdict(),
            "kind": _KINDS[node.kind],
        }
        for each in graph.subtopologies
        for node in each.nodes
    ]
