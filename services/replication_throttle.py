"""Replication throttles of reassignments: Kafka's throttle configs, set on the nodes and topics of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..clients.admin.admin_types import Resource, append

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..clients.sync.admin_io import Admin
    from ..protocol.model import TopicPartition

    Nodes = tuple[int, ...]
    Changes = dict[Resource | str, dict[str, Any]]

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
SENDING, FETCHING = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def throttling(
    plan: Mapping[TopicPartition, Nodes], current: Mapping[TopicPartition, Nodes], bytes_per_s: int
) -> Changes:
    """The config changes that limit what each node of the plan sends and fetches for its moves. Pure."""
    changes: Changes = {}
    for place, target in plan.items():
        sending = [f"{place.partition}:{node_id}" for node_id in current[place]]
        fetching = [f"{place.partition}:{node_id}" for node_id in target if node_id not in current[place]]
        _append(changes, Resource.topic(place.topic), SENDING, sending)
        _append(changes, Resource.topic(place.topic), FETCHING, fetching)
        for node_id in (*current[place], *target):
            changes[Resource.broker(node_id)] = dict.fromkeys(RATES, bytes_per_s)
    return changes


def clearing_nodes(node_ids: Iterable[int]) -> Changes:
    """The config changes that remove the rates of nodes. Pure."""
    return {Resource.broker(node_id): dict.fromkeys(RATES) for node_id in sorted(node_ids)}


def clearing_topics(topics: Iterable[str]) -> Changes:
    """The config changes that remove the lists of throttled replicas. Pure."""
    return {Resource.topic(name): {SENDING: None, FETCHING: None} for name in sorted(topics)}


def clear_throttle(admin: Admin, topics: list[str]) -> None:
    """Remove the throttles of these topics and of all nodes. Errors: those of the client."""
    nodes = admin.describe_cluster(include_fenced=True).nodes
    changes = clearing_topics(topics) | clearing_nodes(node.node_id for node in nodes)
    admin.alter_configs(changes).raise_for_errors()


def _append(changes: Changes, topic: Resource, name: str, replicas: list[str]) -> None:
    if replicas:
        facts = changes.setdefault(topic, {})
        before = facts[name].value if name in facts else []
        facts[name] = append([*before, *replicas])
