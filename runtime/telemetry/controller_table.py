"""The metrics of controllers. Pure data; `table.py` has all of them."""

from __future__ import annotations

from .metric import counter, gauge, histogram

_CONTROLLER = ("kafka.controller", "KafkaController")

ACTIVE_CONTROLLER = gauge(
    *_CONTROLLER, "ActiveControllerCount", "1 on the active controller; the sum of a cluster is 1."
)
ACTIVE_BROKERS = gauge(*_CONTROLLER, "ActiveBrokerCount", "Registered nodes that serve.", unit="{node}")
FENCED_BROKERS = gauge(
    *_CONTROLLER, "FencedBrokerCount", "Registered nodes that send no heartbeats.", unit="{node}"
)
GLOBAL_TOPICS = gauge(*_CONTROLLER, "GlobalTopicCount", "Topics of the cluster.", unit="{topic}")
GLOBAL_PARTITIONS = gauge(
    *_CONTROLLER, "GlobalPartitionCount", "Partitions of the cluster.", unit="{partition}"
)
OFFLINE_PARTITIONS = gauge(
    *_CONTROLLER, "OfflinePartitionsCount", "Partitions without a leader.", unit="{partition}"
)
PREFERRED_IMBALANCE = gauge(
    *_CONTROLLER,
    "PreferredReplicaImbalanceCount",
    "Partitions whose leader is not the preferred replica.",
    unit="{partition}",
)
LAST_APPLIED_OFFSET = gauge(
    *_CONTROLLER, "LastAppliedRecordOffset", "Offset of the last committed and applied metadata record."
)
LAST_COMMITTED_OFFSET = gauge(
    *_CONTROLLER, "LastCommittedRecordOffset", "High watermark of the metadata log."
)
TIMED_OUT_HEARTBEATS = counter(
    *_CONTROLLER,
    "TimedOutBrokerHeartbeatCount",
    "Serving nodes that this controller has fenced because no heartbeat came in time. In Kafka: heartbeats"
    " whose handling timed out.",
    unit="{node}",
)
METADATA_ERRORS = counter(
    *_CONTROLLER,
    "MetadataErrorCount",
    "Damaged snapshots and batches of the metadata log that this controller found, and got from elsewhere.",
    unit="{error}",
)
WAITING_DECISIONS = gauge(
    "headrace", "KafkaController", "WaitingRequests", "Requests whose decision is not committed yet."
)
PARKED_POLLS = gauge(
    "headrace", "KafkaController", "ParkedMetadataFetches", "Metadata fetches that wait for new records."
)
DECISION_TIME = histogram(
    "kafka.controller",
    "ControllerEventManager",
    "EventQueueProcessingTimeMs",
    "From a decision to its commit on the active controller.",
    unit="ms",
)
ELECTION_TIME = histogram(
    "kafka.controller",
    "ControllerStats",
    "LeaderElectionRateAndTimeMs",
    "From the reason of an election of partition leaders to its commit, on the controller that decided.",
    unit="ms",
)
ELECTIONS = counter(
    "headrace",
    "ControllerStats",
    "LeaderElectionsPerSec",
    "Elected leaders of partitions.",
    unit="{election}",
)
UNCLEAN_ELECTIONS = counter(
    "kafka.controller",
    "ControllerStats",
    "UncleanLeaderElectionsPerSec",
    "Elected leaders that may lack acknowledged records.",
    unit="{election}",
)
LEADER_SKEW = gauge(
    "headrace",
    "KafkaController",
    "LeaderSkew",
    "Partitions led by the node with the most, divided by the average of the serving nodes.",
)
REPLICA_SKEW = gauge(
    "headrace",
    "KafkaController",
    "ReplicaSkew",
    "Replicas on the node with the most, divided by the average of the serving nodes.",
)

_RAFT = ("kafka.server", "raft-metrics")
CURRENT_LEADER = gauge(
    *_RAFT,
    "current-leader",
    "Id of the leader that this controller is, or that responds to it; -1 without one.",
)
CURRENT_EPOCH = gauge(*_RAFT, "current-epoch", "Epoch of the quorum.")
RAFT_STATE = gauge(*_RAFT, "current-state", "1 for the role of this controller.", labels=("state",))
HIGH_WATERMARK = gauge(*_RAFT, "high-watermark", "High watermark of the metadata log.")
RAFT_END = gauge(*_RAFT, "log-end-offset", "End offset of the metadata log here.")
VOTERS = gauge(*_RAFT, "number-of-voters", "Controllers with a vote.", unit="{controller}")
COMMIT_LATENCY = histogram(
    *_RAFT, "commit-latency", "From the append of a batch to its commit, on the leader.", unit="ms"
)
ELECTION_LATENCY = histogram(
    *_RAFT, "election-latency", "From the start of an election of controllers to its end.", unit="ms"
)
APPENDED_RECORDS = counter(*_RAFT, "append-records-total", "Metadata records appended here and committed.")
METADATA_LOG_BYTES = gauge("headrace", "MetadataLog", "Size", "Bytes of the metadata log.", unit="By")
SNAPSHOT_OFFSET = gauge(
    "headrace", "MetadataLog", "SnapshotEndOffset", "End offset of the newest snapshot; -1 without one."
)

CONTROLLER_METRICS = tuple(
    each for name, each in sorted(globals().items()) if name.isupper() and name[0] != "_"
)
