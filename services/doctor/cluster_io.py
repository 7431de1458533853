"""Reads the state of a cluster through an admin client."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ...clients.admin.admin_types import NodeState, Resource
from ...protocol.errors import HeadraceError
from ...protocol.model import effective_min_isr
from ..network_status import pieces
from .facts import ClusterFacts, ReplicaFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.admin.admin_types import TopicDescription
    from ...clients.sync.admin_io import Admin

BEHIND_MS = 10_000  # a controller that has not fetched for so long does not follow
MIN_IN_SYNC = "min.insync.replicas"


def cluster_facts(admin: Admin) -> ClusterFacts:
    """The state of the cluster; what could not be read is in `troubles`. Errors: those of the client if no
    node answers."""
    troubles = list[str]()

    def attempt(what: str, read: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return read()
        except (HeadraceError, TimeoutError) as error:
            troubles.append(f"{what}: {error}")
            return otherwise

    cluster = admin.describe_cluster(include_fenced=True)
    quorum = attempt("controllers", admin.describe_metadata_quorum, None)
    topics = attempt("topics", lambda: _topics(admin), ())
    offline, full = attempt("log dirs", lambda: _log_dirs(admin), ((), ()))
    states = {node.node_id: node.state for node in cluster.nodes}
    leader = quorum.leader_id if quorum else -1
    voters = quorum.voters if quorum else ()
    return ClusterFacts(
        cluster_id=cluster.cluster_id,
        nodes={node.node_id: f"{node.address.host}:{node.address.port}" for node in cluster.nodes},
        fenced=tuple(sorted(node for node, state in states.items() if state is NodeState.FENCED)),
        shutting_down=tuple(
            sorted(node for node, state in states.items() if state is NodeState.SHUTTING_DOWN)
        ),
        leader_id=leader,
        voters=tuple(sorted(each.replica_id for each in voters)),
        voters_behind=tuple(
            sorted(
                each.replica_id
                for each in voters
                if each.replica_id != leader and not 0 <= each.last_fetch_ago_ms < BEHIND_MS
            )
        ),
        topics=tuple(topics),
        offline_dirs=offline,
        full_dirs=full,
        troubles=tuple(troubles),
    )


def _topics(admin: Admin) -> list[ReplicaFacts]:
    names = sorted(item.name for item in admin.list_topics(internal=True))
    found = list[ReplicaFacts]()
    for piece in pieces(names):
        described = admin.describe_topics(*piece)
        configs = admin.describe_configs(*(Resource.topic(name) for name in piece))
        minimums = {
            resource.name: int(configs[resource][MIN_IN_SYNC].value or 1)
            for resource in configs
            if resource not in configs.errors
        }
        found += [
            _replicas(described[name], minimums.get(name, 1))
            for name in piece
            if name not in described.errors and described[name].partitions
        ]
    return found


def _replicas(topic: TopicDescription, minimum: int) -> ReplicaFacts:
    factors = Counter(len(part.replicas) - len(part.adding_replicas) for part in topic.partitions)
    return ReplicaFacts(
        topic=topic.name,
        partitions=len(topic.partitions),
        replication_factor=min(factors),
        min_in_sync=minimum,
        under_replicated=sum(1 for part in topic.partitions if len(part.isr) < len(part.replicas)),
        below_min=sum(
            1 for part in topic.partitions if len(part.isr) < effective_min_isr(minimum, len(part.replicas))
        ),
        offline=sum(1 for part in topic.partitions if part.leader < 0),
        is_internal=topic.is_internal,
    )


def _log_dirs(admin: Admin) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Offline log dirs, and those with another problem, as texts."""
    offline, full = list[str](), list[str]()
    results = admin.describe_log_dirs(None)
    for node in sorted(results):
        if node in results.errors:
            continue
        for info in results[node]:
            if info.error is not None:
                offline.append(f"{info.path} of node {node}")
            elif info.detail:
                full.append(f"{info.path} of node {node}: {info.detail}")
    return tuple(offline), tuple(full)
