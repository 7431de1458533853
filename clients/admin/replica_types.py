"""Results of the admin client about single replicas: frozen values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.errors import KafkaError
    from ...protocol.model import TopicPartition


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """One replica. `epochs` are pairs of a leader epoch and the first offset written in it;
    `last_timestamp_ms` is the largest timestamp in the newest segment with records, -1 without any.
    `produced_bytes` and `fetched_bytes` count what clients wrote and read here since the node started.
    `error` is set while its log dir is offline; the other facts are unknown then."""

    topic: str
    partition: int
    error: KafkaError | None
    is_leader: bool
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    size_bytes: int
    last_timestamp_ms: int
    epochs: tuple[tuple[int, int], ...]
    produced_bytes: int
    fetched_bytes: int


@dataclass(frozen=True, slots=True)
class NodeReplicas:
    """The replicas of one node. `clock_ms`: the monotonic clock of the node, for rates."""

    node_id: int
    clock_ms: int
    replicas: Mapping[TopicPartition, ReplicaInfo]
