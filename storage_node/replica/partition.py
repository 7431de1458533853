"""One local replica: its log, its leader and its high watermark.

Pure: the log does its own IO through the injected file layer. The controller elects the leader; this module
stores and checks its decision. Source: Kafka Partition.scala.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.errors import (
    FencedLeaderEpochError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
)
from ...protocol.model import INTERNAL_TOPICS, NO_EPOCH, NO_NODE, TopicPartition, effective_min_isr
from ...runtime.config import MAX_LONG
from ..counters import TopicTraffic
from .in_sync import NO_BROKER_EPOCH, Eligible, InSyncReplicas
from .throttle import is_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.metadata.image import PartitionRegistration
    from ..log.log import Log

PartitionKey = tuple[bytes, int]  # topic id and partition: a re-created topic shares no key with the old one

ACKS_ALL = -1
FSYNC = "fsync"


def _any_node(_node_id: int, _broker_epoch: int = NO_BROKER_EPOCH) -> bool:
    return True


def _own_traffic(_topic: str) -> TopicTraffic:
    return TopicTraffic()


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """What all partitions of one node share."""

    max_lag_ms: int = 30_000
    is_eligible: Eligible = _any_node
    is_alive: Callable[[int], bool] = _any_node
    traffic_of: Callable[[str], TopicTraffic] = _own_traffic


class PartitionState(Enum):
    """Whether the partition can serve at all."""

    ONLINE = "online"
    OFFLINE = "offline"  # its disk failed
    DELETED = "deleted"  # removed by the controller; waiting requests still refer to it


class Partition:
    """The local replica of one partition.

    Invariant: high_watermark <= log end offset, except for a replica that restarts inside a batch which it
    has not fetched yet. It never decreases on the leader; on a follower only if its log is truncated below
    it, after an unclean election. Invariant: with durability=fsync, high_watermark <= flushed_offset after
    each move of it. Invariant: an offline or deleted partition never returns to ONLINE; a new object replaces
    it. Invariant: `in_sync` is not None exactly while this node leads the partition and it has other
    replicas.
    """

    __slots__ = (
        "_durable",
        "_flush_messages",
        "_flush_ms",
        "_min_insync_replicas",
        "context",
        "epoch_start_offset",
        "fetched_bytes",
        "flushed_offset",
        "high_watermark",
        "in_sync",
        "is_damaged",
        "is_flushing",
        "is_internal",
        "is_throttled_as_follower",
        "is_throttled_as_leader",
        "isr",
        "key",
        "leader",
        "leader_epoch",
        "led_before",
        "log",
        "min_isr",
        "node_id",
        "oldest_unflushed_ms",
        "partition_epoch",
        "produced_bytes",
        "replicas",
        "state",
        "topic_partition",
        "traffic",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        node_id: int,
        log: Log | None,
        context: PartitionContext | None = None,
    ) -> None:
        """Without a log the partition is offline from the start: its disk is missing."""
        self.topic_partition = topic_partition
        self.key: PartitionKey = (topic_id, topic_partition.partition)
        self.is_internal = topic_partition.topic in INTERNAL_TOPICS
        self.node_id = node_id
        self.log = log
        self.state = PartitionState.ONLINE if log is not None else PartitionState.OFFLINE
        self.leader: int = NO_NODE
        self.leader_epoch: int = NO_EPOCH
        self.led_before: int | None = None  # the leader of the previous epoch; None: unknown
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.in_sync: InSyncReplicas | None = None
        self.context = PartitionContext() if context is None else context
        self.traffic = self.context.traffic_of(topic_partition.topic)
        self.flushed_offset = log.recovery_point if log is not None else 0
        # from the checkpoint, limited to the offsets of the recovered log
        self.high_watermark = 0
        if log is not None:
            self.high_watermark = min(max(log.high_watermark, log.log_start_offset), log.log_end_offset)
            log.high_watermark = self.high_watermark
        self.epoch_start_offset = 0  # log end offset when this node was elected leader
        self.produced_bytes = self.fetched_bytes = 0  # of clients, since the start
        self.is_flushing = False
        self.is_damaged = False  # stored bytes are corrupt; reported once
        self.min_isr = 1  # what acks=all needs: see effective_min_isr
        self._min_insync_replicas = 1
        self.oldest_unflushed_ms: int | None = None
        self.is_throttled_as_leader = self.is_throttled_as_follower = False
        self._durable = False
        self._flush_messages = MAX_LONG
        self._flush_ms = MAX_LONG
        self.configured()

    @property
    def is_leader(self) -> bool:
        """Whether this node is the leader and the partition is online."""
        return self.leader == self.node_id and self.state is PartitionState.ONLINE

    @property
    def is_online(self) -> bool:
        """Whether the partition is assigned to this node and its disk has not failed."""
        return self.state is PartitionState.ONLINE

    @property
    def has_unflushed(self) -> bool:
        """Whether an online log has records that are not flushed."""
        return self.is_online and self.log is not None and self.flushed_offset < self.log.log_end_offset

    @property
    def is_busy(self) -> bool:
        """Whether a flush or a cleaning is running: no segment of the log may be removed."""
        return self.is_flushing or (self.log is not None and self.log.compaction.running is not None)

    def configured(self) -> None:
        """Read the log's config; call it after each change of that config."""
        if self.log is not None:
            config = self.log.config
            self._min_insync_replicas = config.min_insync_replicas
            self.min_isr = effective_min_isr(self._min_insync_replicas, len(self.replicas))
            self._durable = config.durability == FSYNC
            self._flush_messages, self._flush_ms = config.flush_messages, config.flush_ms
            index, node_id = self.key[1], self.node_id
            leaders, followers = (
                config.leader_replication_throttled_replicas,
                config.follower_replication_throttled_replicas,
            )
            self.is_throttled_as_leader = is_named(leaders, index, node_id)
            self.is_throttled_as_follower = is_named(followers, index, node_id)

    def assign(self, registration: PartitionRegistration, now_ms: int) -> bool:
        """Apply the controller's decision; True if leader or leader epoch changed.

        A registration with an older leader epoch or partition epoch is ignored.
        """
        if registration.leader_epoch < self.leader_epoch:
            return False
        changed = (registration.leader, registration.leader_epoch) != (self.leader, self.leader_epoch)
        if changed:
            is_next = registration.leader_epoch == self.leader_epoch + 1
            self.led_before = self.leader if is_next else None
            self.leader, self.leader_epoch = registration.leader, registration.leader_epoch
            self.in_sync = None
            if self.is_leader and self.log is not None:
                self.log.recovery.has_loss = False  # the leader's log is the truth
                self.log.assign_leader_epoch(self.leader_epoch)
                self.epoch_start_offset = self.log.log_end_offset
        elif registration.partition_epoch < self.partition_epoch:
            return False  # an AlterPartition response was newer
        self._take_replicas(registration, now_ms)
        return changed

    def _take_replicas(self, registration: PartitionRegistration, now_ms: int) -> None:
        self.replicas, self.isr = registration.replicas, registration.isr
        self.min_isr = effective_min_isr(self._min_insync_replicas, len(self.replicas))
        self.partition_epoch = registration.partition_epoch
        if not self.is_leader or registration.replicas == (self.node_id,):
            self.in_sync = None
            return
        if self.in_sync is None:
            max_lag_ms = self.context.max_lag_ms
            self.in_sync = InSyncReplicas(
                self.node_id, registration, self.epoch_start_offset, now_ms, max_lag_ms
            )
        else:
            self.in_sync.updated(registration, now_ms)

    def isr_decided(self, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int, now_ms: int) -> bool:
        """The controller has accepted an ISR proposal of this leader epoch; False if the response is
        stale."""
        in_sync = self.in_sync
        if in_sync is None or leader_epoch != self.leader_epoch:
            return False
        if not in_sync.decided(isr, partition_epoch, now_ms):
            return False
        self.isr, self.partition_epoch = isr, partition_epoch
        return True

    def leader_log(self, leader_epoch: int = NO_EPOCH, *, may_follow: bool = False) -> Log:
        """The log, if this node leads the partition in the leader epoch that the client knows (-1: any); with
        `may_follow` also if it is a follower.

        Errors: KafkaStorageError, UnknownTopicIdError, Fenced- or UnknownLeaderEpochError,
        NotLeaderOrFollowerError.
        """
        log = self.log
        if self.state is not PartitionState.ONLINE or log is None:
            raise self.lost_error()
        if leader_epoch not in (NO_EPOCH, self.leader_epoch):
            detail = (
                f"{self.topic_partition} has leader epoch {self.leader_epoch}, the request {leader_epoch}"
            )
            if leader_epoch < self.leader_epoch:
                raise FencedLeaderEpochError(detail)
            raise UnknownLeaderEpochError(detail)
        if self.leader != self.node_id and not may_follow:
            raise NotLeaderOrFollowerError(f"{self.topic_partition} is led by node {self.leader}")
        return log

    def lost_error(self) -> KafkaError:
        """Why this node no longer serves the partition."""
        if self.state is PartitionState.OFFLINE:
            return KafkaStorageError(f"the log dir of {self.topic_partition} is offline")
        if self.state is PartitionState.DELETED:
            return UnknownTopicIdError(f"{self.topic_partition} was deleted")
        return NotLeaderOrFollowerError(f"{self.topic_partition} is led by node {self.leader}")

    @property
    def is_under_min_isr(self) -> bool:
        """Whether this node leads the partition with too few in-sync replicas for acks=all."""
        return self.is_leader and len(self.isr) < self.min_isr

    def advance(self, now_ms: int) -> bool:
        """Advance the high watermark as far as the in-sync replicas allow; True if it moved."""
        log = self.log
        if log is None or self.leader != self.node_id or self.state is not PartitionState.ONLINE:
            return False
        committed = log.log_end_offset
        if self._durable:
            committed = min(committed, self.flushed_offset)
        in_sync = self.in_sync
        if in_sync is not None:
            committed = in_sync.committed_end(
                committed, log.log_end_offset, self.min_isr, now_ms, self.context.is_eligible
            )
        if committed <= self.high_watermark:
            return False
        self.high_watermark = log.high_watermark = committed
        return True

    def low_watermark(self) -> int:
        """The smallest log start offset of all live replicas; -1 while one of them is unknown.

        Source: Kafka Partition.scala lowWatermarkIfLeader.
        """
        assert self.log is not None, "only an online partition has a log start"
        starts = [self.log.log_start_offset]
        if self.in_sync is not None:
            is_alive = self.context.is_alive
            starts += [self.in_sync.start_of(node) for node in self.in_sync.followers if is_alive(node)]
        return min(starts)

    def take_log(self, log: Log) -> None:
        """Replace the log by another one with the same records, all flushed. Neither a flush nor a
        cleaning is running."""
        assert not self.is_busy, "a flush or a cleaning uses the log"
        assert self.log is not None, "only an online partition moves"
        assert log.log_end_offset == self.log.log_end_offset, "it has the same records"
        self._drop_tail()
        self.log, self.flushed_offset = log, log.recovery_point
        self.configured()

    # --- following -------------------------------------------------------------------------------------

    @property
    def safe_end_offset(self) -> int:
        """The end offset that this replica may report: the log end, with durability=fsync the flushed end."""
        log = self.log
        if log is None:
            return 0
        return min(log.log_end_offset, self.flushed_offset) if self._durable else log.log_end_offset

    def learn_high_watermark(self, leader_watermark: int) -> bool:
        """As a follower: take the leader's high watermark, limited to the own log; True if it moved.

        Order: only after the leader has found no divergence below this log's end (KAFKA-14704).
        """
        assert self.log is not None, "only an online partition follows"
        committed = min(leader_watermark, self.safe_end_offset)
        if committed <= self.high_watermark:
            return False
        self.high_watermark = self.log.high_watermark = committed
        return True

    def truncate_to(self, offset: int) -> None:
        """As a follower: remove the records that the leader's log does not have. No flush is running. Errors:
        KafkaStorageError."""
        assert self.log is not None, "only an online partition is truncated"
        assert not self.is_leader, "a leader never truncates its log"
        assert not self.is_flushing, "truncation must not overtake a flush"
        try:
            self.log.truncate_to(offset)
        finally:  # the truncation itself is done even if a full disk fails what follows it
            self._truncated()

    def restart_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """As a follower: remove all records and restart the log at `offset`, where the leader's log
        starts, or at the batch that contains `log_start_offset`. Errors: KafkaStorageError."""
        assert self.log is not None, "only an online partition is truncated"
        assert not self.is_leader, "a leader never truncates its log"
        assert not self.is_flushing, "truncation must not overtake a flush"
        try:
            self.log.truncate_fully_and_start_at(offset, log_start_offset)
        finally:
            self._truncated()

    def _truncated(self) -> None:
        log = self.log
        assert log is not None, "only an online partition is truncated"
        self.flushed_offset = min(self.flushed_offset, log.log_end_offset)
        self.high_watermark = max(min(self.high_watermark, log.log_end_offset), log.log_start_offset)
        log.high_watermark = self.high_watermark

    def wants_flush(self, now_ms: int | None = None) -> bool:
        """Whether a flush is due and none is running; flush.ms counts only with `now_ms`."""
        if self.is_flushing or self.log is None or self.state is not PartitionState.ONLINE:
            return False
        unflushed = self.log.log_end_offset - self.flushed_offset
        if unflushed <= 0:
            self.oldest_unflushed_ms = None
            return False
        if self._durable or unflushed >= self._flush_messages:
            return True
        if now_ms is None or self._flush_ms == MAX_LONG:
            return False
        if self.oldest_unflushed_ms is None:
            self.oldest_unflushed_ms = now_ms  # flush.ms counts from the first look
        return now_ms - self.oldest_unflushed_ms >= self._flush_ms

    def is_acked(self, end_offset: int, acks: int) -> bool:
        """Whether the records below `end_offset` may be acknowledged with `acks`.

        With durability=fsync every acknowledgement waits for the disk, acks=1 too.
        """
        if acks == ACKS_ALL:
            return self.high_watermark >= end_offset
        return not self._durable or self.flushed_offset >= end_offset

    def flushed(self, end_offset: int, now_ms: int) -> bool:
        """The log below `end_offset` is flushed; True if the high watermark moved."""
        self.is_flushing = False
        self.oldest_unflushed_ms = None
        self.flushed_offset = max(self.flushed_offset, end_offset)
        return self.advance(now_ms)

    def go_offline(self) -> None:
        """The disk failed: nothing more is served or acknowledged."""
        if self.state is PartitionState.ONLINE:
            self.state = PartitionState.OFFLINE
            self.in_sync = None
            self._drop_tail()

    def remove(self) -> None:
        """The partition is not assigned to this node any more."""
        self.state = PartitionState.DELETED
        self.in_sync = None
        self._drop_tail()

    def _drop_tail(self) -> None:
        """Free the memory of the newest batches."""
        if self.log is not None:
            self.log.reader.drop_tail()

    def check(self) -> None:
        """Assert the invariants."""
        assert self.in_sync is None or (self.leader == self.node_id and len(self.replicas) > 1)
        if self.in_sync is not None:
            self.in_sync.check()
        if self.log is not None and self.state is PartitionState.ONLINE:
            end_offset = max(self.log.log_end_offset, self.log.log_start_offset)
            assert self.high_watermark <= end_offset, "the high watermark passed the log end"
            assert self.flushed_offset <= self.log.log_end_offset, "flushed more than there is"
