"""The status of a cluster as a client sees it: for `status` without Ray."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ..clients.admin.admin_types import NodeState
from ..protocol.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..clients.sync.admin_io import Admin

PATIENCE_S = 5.0  # client timeout; the status also reports what is known without the nodes that do not answer
TOPICS_PER_REQUEST = 500  # Bound: topics per DescribeTopicPartitions response


def network_status(admin: Admin) -> dict[str, Any]:
    """Storage nodes and their leaderships, requested from the nodes; JSON-able.

    `nodes` includes fenced ones. The state is "running" while every partition has a leader, else "degraded".
    Errors: those of the client.
    """
    cluster = admin.describe_cluster(include_fenced=True)
    names = [item.name for item in admin.list_topics(internal=True)]
    leaders, replicas = Counter[int](), Counter[int]()
    topics = 0
    for piece in pieces(names):
        described = admin.describe_topics(*piece)
        for topic in (described[name] for name in piece if name not in described.errors):
            topics += 1
            leaders.update(part.leader for part in topic.partitions)
            replicas.update(node for part in topic.partitions for node in part.replicas)
    offline = sum(count for leader, count in leaders.items() if leader < 0)
    is_served = any(node.state is not NodeState.FENCED for node in cluster.nodes)
    return {
        "cluster_id": cluster.cluster_id,
        "state": "degraded" if offline or not is_served else "running",
        "controller_id": cluster.controller_id,
        "topics": topics,
        "partitions": leaders.total(),
        "offline_partitions": offline,
        "nodes": [
            {
                "node_id": node.node_id,
                "endpoint": f"{node.address.host}:{node.address.port}",
                "rack": node.rack,
                "state": node.state.value,
                "leaders": leaders[node.node_id],
                "partitions": replicas[node.node_id],
            }
            for node in cluster.nodes
        ],
    }


def prepared_transactions(admin: Admin) -> int | None:
    """The number of prepared transactions, which wait for their drivers; None if a node did not answer."""
    try:
        return len(admin.list_transactions(states=("Prepared",), timeout=PATIENCE_S))
    except HeadraceError:
        return None


def pieces(names: list[str]) -> Iterator[list[str]]:
    """Topic names, as many at a time as one request describes."""
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        yield names[start : start + TOPICS_PER_REQUEST]
