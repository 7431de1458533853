"""Dynamic configs of broker resources: of the whole cluster (the resource without a name) and of single
nodes.

Source: Kafka DynamicBrokerConfig.java; min.insync.replicas cannot differ between nodes (KIP-966).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.config import MAX_INT, MAX_LONG, Config, key


@dataclass(frozen=True, kw_only=True)
class NodeDynamicConfig(Config):
    """Keys that one node may have; set for the cluster, they hold for every node that has none."""

    leader_replication_throttled_rate: int = key(
        "leader.replication.throttled.rate",
        MAX_LONG,
        low=0,
        high=MAX_LONG,
        unit="bytes/s",
        live=True,
        doc="The most that a node sends to followers of the throttled replicas that it leads.",
    )
    follower_replication_throttled_rate: int = key(
        "follower.replication.throttled.rate",
        MAX_LONG,
        low=0,
        high=MAX_LONG,
        unit="bytes/s",
        live=True,
        doc="The most that a node fetches for its throttled replicas.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = key(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        MAX_LONG,
        low=0,
        high=MAX_LONG,
        unit="bytes/s",
        live=True,
        doc="The most that a node copies between its log dirs, for all moves together.",
    )
    cordoned_log_dirs: tuple[str, ...] = key(
        "cordoned.log.dirs",
        (),
        live=True,
        doc="Log dirs of the node that get no new replicas; * for all.",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterDynamicConfig(NodeDynamicConfig):
    """Keys of the whole cluster; a topic's own values win."""

    min_insync_replicas: int = key(
        "min.insync.replicas",
        1,
        low=1,
        high=MAX_INT,
        live=True,
        doc="min.insync.replicas of topics that have none of their own.",
    )
    unclean_leader_election_enable: bool = key(
        "unclean.leader.election.enable",
        False,
        live=True,
        doc="unclean.leader.election.enable of topics that have none of their own.",
    )
