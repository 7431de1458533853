"""Replicas of one storage node, whether it leads them or not. headrace's own."""

from __future__ import annotations

import msgspec

from .control import TopicPartitions


class DescribeReplicasRequest(msgspec.Struct, array_like=True, frozen=True):
    """Describe the replicas of the receiving node. `topics` None: all of them, without their epochs."""

    topics: tuple[TopicPartitions, ...] | None = None


class EpochStart(msgspec.Struct, array_like=True, frozen=True):
    """A leader epoch and the first offset that was written in it."""

    epoch: int
    start_offset: int


class ReplicaDescription(msgspec.Struct, array_like=True, frozen=True):
    """One replica. `leader_epoch`: the newest that the node knows; `last_timestamp_ms`: the largest timestamp
    in the newest segment that has records, -1 without any; `produced_bytes`, `fetched_bytes`: what clients
    wrote to and read from this replica since the node started. `error_code`: its log is offline."""

    topic: str
    partition: int
    error_code: int = 0
    error_detail: str = ""
    is_leader: bool = False
    leader_epoch: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    high_watermark: int = -1
    size_bytes: int = 0
    last_timestamp_ms: int = -1
    epochs: tuple[EpochStart, ...] = ()
    produced_bytes: int = 0
    fetched_bytes: int = 0


class DescribeReplicasResponse(msgspec.Struct, array_like=True, frozen=True):
    """Replicas that the node does not have are left out. `clock_ms`: the monotonic clock of the node."""

    error_code: int
    error_detail: str = ""
    node_id: int = -1
    clock_ms: int = 0
    replicas: tuple[ReplicaDescription, ...] = ()
