"""Basic names: topics, partitions, ids and special offsets."""

from __future__ import annotations

import re
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)
LeaderEpoch = NewType("LeaderEpoch", int)
TopicId = NewType("TopicId", bytes)  # 16 bytes, a random UUID

NO_NODE = NodeId(-1)
NO_TIMESTAMP = -1
NO_OFFSET = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")  # by number
NO_EPOCH = -1

EARLIEST_TIMESTAMP = -2  # ListOffsets: the log start offset
LATEST_TIMESTAMP = -1  # ListOffsets: the high watermark
MAX_TIMESTAMP = -3  # ListOffsets: the record with the largest timestamp

CONSUMER_OFFSETS = "__consumer_offsets"
AUDIT_TOPIC = "__headrace_audit"  # decisions of the authorizer; see storage_node/edge/audit_writer.py
TRANSACTION_STATE = "__transaction_state"
SERVER_CLIENT_ID = "node-"  # client ids of connections between nodes begin with it
# Internal topics. Source: Kafka Topic.java.
INTERNAL_TOPICS = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state", AUDIT_TOPIC))

MAX_TOPIC_NAME_LENGTH = 249  # Source: Kafka Topic.java; leaves room for "-<partition>.<uuid>-delete"
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+\Z")


class ListenerEndpoint(NamedTuple):
    """The endpoint of one listener of a node, for Kafka clients."""

    name: str  # listener name, the same on all nodes
    host: str
    port: int


class FeatureRange(NamedTuple):
    """The levels of a feature that a node supports."""

    name: str
    min_level: int
    max_level: int


class TopicPartition(NamedTuple):
    """One partition of a topic; its text is the name of its folder on disk."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def effective_min_isr(configured: int, replicas: int) -> int:
    """The size that the ISR must have for acks=all: min.insync.replicas, but at most the number of replicas.
    Source: Kafka Partition.scala effectiveMinIsr."""
    return min(configured, replicas)


def topic_name_fault(name: str) -> str | None:
    """The reason why `name` is not a valid topic name, or None. Source: Kafka Topic.java validate."""
    if not name:
        return "a topic name must not be empty"
    if name in (".", ".."):
        return f"a topic name must not be {name!r}"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"the topic name has {len(name)} characters, at most {MAX_TOPIC_NAME_LENGTH} are allowed"
    if not _LEGAL_TOPIC.match(name):
        return f"a topic name may have only ASCII letters, digits, '.', '_' and '-': {name[:60]!r}"
    return None


def topic_metric_name(name: str) -> str:
    """The topic name in metric names: Kafka rejects 'a.b' if 'a_b' exists, because both become 'a_b'."""
    return name.replace(".", "_")
