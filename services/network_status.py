"""What a cluster looks like to a client: the answer of `status` where Ray cannot be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..clients.admin.admin_types import NodeState

if TYPE_CHECKING:
    from ..clients.admin.admin_types import TopicDescription
    from ..clients.sync.admin_io import Admin


def network_status(admin: Admin) -> dict[str, Any]:
    """Storage nodes, and what they lead, asked over the data plane; JSON-able.

    `nodes` has those that are fenced too. The state is "running" while every partition has a leader, else
    "degraded". Errors: those of the client.
    """
    cluster = admin.describe_cluster(include_fenced=True)
    names = [item.name for item in admin.list_topics(internal=True)]
    described = admin.describe_topics(*names)
    topics = [described[name] for name in names if name not in described.errors]
    leaders = [part.leader for topic in topics for part in topic.partitions]
    offline = sum(1 for leader in leaders if leader < 0)
    is_served = any(node.state is not NodeState.FENCED for node in cluster.nodes)
    return {
        "cluster_id": cluster.cluster_id,
        "state": "degraded" if offline or not is_served else "running",
        "controller_id": cluster.controller_id,
        "topics": len(topics),
        "partitions": len(leaders),
        "offline_partitions": offline,
        "nodes": [
            {
                "node_id": node.node_id,
                "endpoint": f"{node.address.host}:{node.address.port}",
                "rack": node.rack,
                "state": node.state.value,
                "leaders": leaders.count(node.node_id),
                "partitions": _replicas(topics, node.node_id),
            }
            for node in cluster.nodes
        ],
    }


def _replicas(topics: list[TopicDescription], node_id: int) -> int:
    return sum(1 for topic in topics for part in topic.partitions if node_id in part.replicas)
