"""Planted bugs: each breaks one rule of replication, and the simulation must find it.

Each bug is a function that patches production classes with pytest's monkeypatch, and has a list of laws; the
simulation must report one of them. Without a bug that breaks it, a law might be one that cannot fail.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from cluster import Plan
from crc32c import crc32c
from headrace.clients.consumer.validation import PositionValidation
from headrace.controller.state import elections
from headrace.controller.state.cluster_state import ClusterState
from headrace.controller.state.fencing import Fencing
from headrace.protocol.metadata import replay
from headrace.protocol.metadata.records import NoOpRecord, PartitionChangeRecord
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.header import CRC_POSITION, read_batch_header
from headrace.protocol.security.authorizer import RuleAuthorizer
from headrace.runtime.authorization.gate import Gate
from headrace.storage_node.edge.authorization import NodeAuthorization
from headrace.storage_node.links import metadata_steps
from headrace.storage_node.log import flush, log_loader, retention
from headrace.storage_node.log.cleaner import work as cleaner_work
from headrace.storage_node.log.flush import Flush
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.names import METADATA_TOPIC
from headrace.storage_node.replica.delayed_entries import DelayedEntries
from headrace.storage_node.replica.fetch import DelayedFetch, FetchHandler
from headrace.storage_node.replica.followed import Followed
from headrace.storage_node.replica.follower import ReplicaFetcher
from headrace.storage_node.replica.in_sync import InSyncReplicas
from headrace.storage_node.replica.isr_manager import IsrManager
from headrace.storage_node.replica.log_starts import LogStarts
from headrace.storage_node.replica.partition import Partition
from headrace.storage_node.replica.replica_fetch import ReplicaFetchHandler
from log_contents import split

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

ROUGH = ("kill", "power", "isolate", "pause", "stop", "cut", "crash")
PLAN = Plan(controllers=1, nodes=3, partitions=2, fault_ms=8_000, fault_gap_ms=300, faults=ROUGH)


def commits_alone(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is the leader's log end offset."""
    patch.setattr(InSyncReplicas, "committed_end", lambda self, own_end, *_: own_end)


def acknowledges_at_once(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered like acks=1."""
    patch.setattr(Partition, "is_acked", lambda *_: True)


def ignores_proposed_isr_members(patch: pytest.MonkeyPatch) -> None:
    """The leader does not wait for a proposed ISR member, which the controller may have accepted already."""
    patch.setattr(InSyncReplicas, "maximal", property(lambda self: self.committed))


def admits_lagging_followers_to_the_isr(patch: pytest.MonkeyPatch) -> None:
    """A follower joins the ISR before it reaches the high watermark."""

    def propose(self: InSyncReplicas, node_id: int, _hw: int, epoch: int, is_eligible: Any) -> Any:
        progress = self.followers.get(node_id)
        if self.proposal is not None or progress is None or node_id in self.committed:
            return None
        if not is_eligible(node_id, progress.broker_epoch):
            return None
        return self._propose((*self.committed, node_id), epoch)

    patch.setattr(InSyncReplicas, "propose_growth", propose)


def commits_below_min_isr(patch: pytest.MonkeyPatch) -> None:
    """The high watermark moves with fewer replicas than min.insync.replicas."""
    patch.setattr(InSyncReplicas, "is_under", lambda *_: False)


def reports_no_divergence(patch: pytest.MonkeyPatch) -> None:
    """The leader does not compare epochs: followers keep records that it does not have."""
    patch.setattr(ReplicaFetchHandler, "_divergence", lambda *_: None)


def resets_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A new leader starts with high watermark 0."""

    def assign(self: Partition, registration: Any, now_ms: int, assign: Any = Partition.assign) -> bool:
        changed = assign(self, registration, now_ms)
        if changed and self.is_leader and self.log is not None:
            self.high_watermark = self.log.high_watermark = 0
        return bool(changed)

    patch.setattr(Partition, "assign", assign)


def truncates_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A new follower truncates its log to its own high watermark, which may lag (before KIP-101)."""

    def assign(self: Partition, registration: Any, now_ms: int, assign: Any = Partition.assign) -> bool:
        changed = assign(self, registration, now_ms)
        if changed and not self.is_leader and self.is_online and not self.is_flushing:
            self.truncate_to(self.high_watermark)
        return bool(changed)

    patch.setattr(Partition, "assign", assign)


def keeps_the_epoch_of_a_new_leader(patch: pytest.MonkeyPatch) -> None:
    """An election does not increase the leader epoch."""

    def changed(partition: Any, record: Any, changed: Any = replay.changed_partition) -> Any:
        return dataclasses.replace(changed(partition, record), leader_epoch=partition.leader_epoch)

    patch.setattr(replay, "changed_partition", changed)


def reuses_leader_epochs(patch: pytest.MonkeyPatch) -> None:
    """Leader epochs alternate between 0 and 1."""

    def changed(partition: Any, record: Any, changed: Any = replay.changed_partition) -> Any:
        made = changed(partition, record)
        return dataclasses.replace(made, leader_epoch=made.leader_epoch % 2)

    patch.setattr(replay, "changed_partition", changed)


def keeps_unclean_restarts_in_the_isr(patch: pytest.MonkeyPatch) -> None:
    """A node that restarts after an unclean shutdown stays in ISR and ELR (before KIP-966)."""
    patch.setattr(Fencing, "fence_replaced", lambda self, image, before, *_: self.fence(image, before, ""))


def ignores_lost_log_ends(patch: pytest.MonkeyPatch) -> None:
    """After a clean shutdown the log loader does not check whether the ends of the logs are still there."""
    patch.setattr(log_loader, "losses_in", lambda *_: ())


def elects_any_live_replica(patch: pytest.MonkeyPatch) -> None:
    """Any live replica may lead."""
    patch.setattr(elections, "_may_lead", lambda ballot, node_id: node_id in ballot.candidates)


def elects_uncleanly_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Topics without unclean.leader.election.enable get unclean leaders, too."""
    patch.setattr(ClusterState, "is_unclean_allowed", lambda *_: True)


def elects_another_than_the_last_leader(patch: pytest.MonkeyPatch) -> None:
    """With ISR and ELR empty any live replica is elected, not only the last known leader."""

    def any_live_replica(ballot: elections.Ballot) -> elections.Elected:
        fit = [node_id for node_id in ballot.replicas if node_id in ballot.candidates]
        if ballot.isr or ballot.elr or ballot.last_leader == elections.NO_NODE or not fit:
            return elections.NO_LEADER
        return elections.Elected(fit[0], is_clean=False)

    patch.setattr(elections, "_last_known", any_live_replica)


def ignores_log_truncation(patch: pytest.MonkeyPatch) -> None:
    """A consumer does not compare its position with the new leader's epochs (before KIP-320)."""

    def agree(self: PositionValidation, leader_epoch: int, *_: int) -> None:
        self.leader_epoch = leader_epoch

    patch.setattr(PositionValidation, "on_epoch_end", agree)


def acknowledges_before_fsync(patch: pytest.MonkeyPatch) -> None:
    """A leader with durability=fsync does not wait for the fsync."""

    def configured(self: Partition, configured: Any = Partition.configured) -> None:
        configured(self)
        self._durable = False

    patch.setattr(Partition, "configured", configured)


def acknowledges_before_fsync_of_all(patch: pytest.MonkeyPatch) -> None:
    """The same with several replicas, which have the records in their page caches: only a power loss of all
    nodes shows it."""
    acknowledges_before_fsync(patch)


def advances_the_recovery_point_without_sync(patch: pytest.MonkeyPatch) -> None:
    """The recovery point of a storage node's log advances without an fsync."""

    def sync(self: Flush, sync: Any = Flush.sync) -> None:
        if METADATA_TOPIC in self.directory:
            sync(self)

    patch.setattr(Flush, "sync", sync)


def answers_twice(patch: pytest.MonkeyPatch) -> None:
    """A produce request stays in purgatory after its response."""

    def try_complete(
        self: DelayedEntries, now_ms: int, try_complete: Any = DelayedEntries.try_complete
    ) -> bool:
        try_complete(self, now_ms)
        return False

    patch.setattr(DelayedEntries, "try_complete", try_complete)


def never_expires_fetches(patch: pytest.MonkeyPatch) -> None:
    """A delayed fetch that expires gets no response."""
    patch.setattr(DelayedFetch, "on_expire", lambda *_: None)


def serves_uncommitted_records(patch: pytest.MonkeyPatch) -> None:
    """Consumers read up to the log end offset."""

    def read(
        self: FetchHandler, item: Any, *arguments: Any, read: Any = FetchHandler._read, **facts: Any
    ) -> Any:
        partition = item.partition
        if (
            partition is None
            or partition.log is None
            or partition.high_watermark >= partition.log.log_end_offset
        ):
            return read(self, item, *arguments, **facts)
        watermark, partition.high_watermark = partition.high_watermark, partition.log.log_end_offset
        try:
            return read(self, item, *arguments, **facts)
        finally:
            partition.high_watermark = watermark

    patch.setattr(FetchHandler, "_read", read)


def skips_a_batch(patch: pytest.MonkeyPatch) -> None:
    """A follower appends only the last batch of a fetch response."""

    def take(
        self: ReplicaFetcher,
        followed: Any,
        answer: Any,
        data: Any,
        *times: int,
        take: Any = ReplicaFetcher._take,
    ) -> None:
        frames = [list(split(frame))[-1] for frame in data]
        take(self, followed, answer, frames, *times)

    patch.setattr(ReplicaFetcher, "_take", take)


def skips_a_metadata_record(patch: pytest.MonkeyPatch) -> None:
    """A node skips the last partition change of a metadata batch that has several."""

    def replayed(image: Any, base_offset: int, records: Any, replay: Any = replay.replay) -> Any:
        changes = [each for each in records if isinstance(each, PartitionChangeRecord)]
        if len(changes) > 1:
            records = [NoOpRecord() if each is changes[-1] else each for each in records]
        return replay(image, base_offset, records)

    patch.setattr(metadata_steps, "replay", replayed)


def leaves_a_gap(patch: pytest.MonkeyPatch) -> None:
    """A follower appends only the last batch of a fetch response, at that batch's offset: a gap in its
    log."""

    def append(self: Log, data: Any, *, wall_ms: int = 0) -> None:
        *_, batch = split(data)
        header = read_batch_header(batch)
        self._append([batch], header, header.base_offset, header.last_offset, wall_ms)
        if header.leader_epoch > self.epochs.latest_epoch:
            self.epochs.assign(header.leader_epoch, header.base_offset)

    patch.setattr(Log, "append_as_follower", append)


def changes_replicated_bytes(patch: pytest.MonkeyPatch) -> None:
    """A follower changes a byte of each batch, and its checksum."""

    def append(self: Log, data: Any, *, append: Any = Log.append_as_follower, **facts: Any) -> None:
        for batch in split(data):
            changed = bytearray(batch)
            changed[FIRST_TIMESTAMP] ^= 1
            checked = CRC_POSITION + 4
            changed[CRC_POSITION:checked] = crc32c(bytes(changed[checked:])).to_bytes(4, "big")
            append(self, bytes(changed), **facts)

    patch.setattr(Log, "append_as_follower", append)


def shows_log_starts_before_sync(patch: pytest.MonkeyPatch) -> None:
    """A new log start offset is visible to readers before it is synced."""

    def want(self: LogStarts, partition: Any, offset: int, want: Any = LogStarts.request_start) -> None:
        want(self, partition, offset)
        partition.log.advance_log_start_offset(offset)

    patch.setattr(LogStarts, "request_start", want)


def ignores_followers_in_the_low_watermark(patch: pytest.MonkeyPatch) -> None:
    """DeleteRecords is acknowledged as soon as the leader has deleted the records."""
    patch.setattr(Partition, "low_watermark", lambda self: self.log.log_start_offset)


def deletes_uncommitted_segments(patch: pytest.MonkeyPatch) -> None:
    """Retention deletes segments above the high watermark."""
    patch.setattr(retention._Rules, "_may_go", lambda self, number: self._segments[number].size_bytes > 0)


def reports_no_log_start(patch: pytest.MonkeyPatch) -> None:
    """A follower does not report its new log start offset to the leader."""
    patch.setattr(ReplicaFetcher, "start_moved", lambda *_: None)


def drops_tombstones_at_once(patch: pytest.MonkeyPatch) -> None:
    """The cleaner drops tombstones before delete.retention.ms: a lagging consumer misses the deletion."""

    class Hasty:
        def __getattr__(self, name: str) -> Any:
            return getattr(active_codec(), name)

        def clean_batch(self, *arguments: Any, **facts: Any) -> Any:
            return active_codec().clean_batch(*arguments, **{**facts, "delete_retention_ms": 0})

    patch.setattr(cleaner_work, "active_codec", Hasty)


def cleans_away_epoch_starts(patch: pytest.MonkeyPatch) -> None:
    """Compaction drops every batch of a leader epoch: a replica that copies the log has no start of that
    epoch, which truncation by epoch needs."""
    patch.setattr(cleaner_work.Cleaning, "_begins_epoch", lambda *_: False)


def swaps_unsynced_segments(patch: pytest.MonkeyPatch) -> None:
    """A cleaned segment replaces the old ones before its bytes are synced."""
    patch.setattr(cleaner_work.Cleaning, "_finish", lambda self, new: new.seal())


def waits_for_fenced_followers(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is not recomputed when nodes are fenced or time passes: the leader waits for a
    caught-up follower outside of the ISR until the next append or fetch."""

    def nodes_changed(self: IsrManager, now_ms: int) -> None:
        for partition in self._table.partitions.values():
            if partition.in_sync is not None:
                self.grow(partition, now_ms)

    patch.setattr(IsrManager, "nodes_changed", nodes_changed)
    patch.setattr(IsrManager, "advance_all", lambda *_: None)


def forgets_producers_of_deleted_batches(patch: pytest.MonkeyPatch) -> None:
    """The producer snapshot at the log start is not synced before the segments below it are deleted."""
    patch.setattr(flush, "secure_snapshot", lambda *_: None)


def never_fetches_producers(patch: pytest.MonkeyPatch) -> None:
    """A follower whose log starts after deleted records does not fetch the leader's producer state."""
    patch.setattr(Followed, "wants_producers", False)


def keeps_removed_rules(patch: pytest.MonkeyPatch) -> None:
    """A node adds the rules of new metadata and removes none."""
    change = RuleAuthorizer.change
    patch.setattr(RuleAuthorizer, "change", lambda self, added, removed: change(self, added, ()))


def keeps_revoked_members(patch: pytest.MonkeyPatch) -> None:
    """A node adds the members of roles in new metadata and removes none."""
    change = RuleAuthorizer.change_members
    patch.setattr(RuleAuthorizer, "change_members", lambda self, added, removed: change(self, added, ()))


def keeps_decisions_of_members(patch: pytest.MonkeyPatch) -> None:
    """An authorizer goes on to use its decisions after members of roles have changed."""
    patch.setattr(
        RuleAuthorizer, "change_members", lambda self, added, removed: self.roles.change(added, removed)
    )


def keeps_decisions_over_images(patch: pytest.MonkeyPatch) -> None:
    """A gate goes on to use what it allowed by earlier metadata."""
    patch.setattr(Gate, "_forget", lambda self, image: setattr(self, "_allowed_by", image))


def obeys_rules_of_any_age(patch: pytest.MonkeyPatch) -> None:
    """A node that no controller confirms any more decides by the rules that it has."""

    def note_time(self: NodeAuthorization, _now_ms: int) -> None:
        assert self.authorizer is not None
        self.authorizer.is_ready = self._is_complete

    patch.setattr(NodeAuthorization, "note_time", note_time)


FIRST_TIMESTAMP = 34  # the last byte of the batch
FSYNC = dataclasses.replace(PLAN, durability="fsync", faults=("power", "crash", "pause"))
BLACKOUT = dataclasses.replace(PLAN, durability="fsync", faults=("blackout",), fault_gap_ms=1_500)
# Flushes decide which records must survive. No readers: they could read records that the power loss drops.
BLACKOUT_ASYNC = dataclasses.replace(
    BLACKOUT,
    durability="async",
    faults=("blackout", "slow", "elect"),
    readers=False,
    unreliable_producer=False,
)
ALONE = dataclasses.replace(FSYNC, replication=1, min_isr=1)
UNCLEAN = dataclasses.replace(PLAN, unclean=True)
HARM = dataclasses.replace(PLAN, faults=("harm", "stop", "isolate"))
CALM = dataclasses.replace(PLAN, faults=(), fault_ms=500)
ERASED = dataclasses.replace(PLAN, faults=("erase", "kill", "power", "pause"), fault_gap_ms=100)
RETAINED = dataclasses.replace(PLAN, faults=("retain", "cut", "pause", "isolate"), fault_gap_ms=200)
COMPACTED = dataclasses.replace(PLAN, compacts=True)
# Scripts of scenarios.py: every seed reaches the situation; of random plans only one in a hundred does.
EPOCH_COMPACTED = dataclasses.replace(
    COMPACTED,
    scenario="leader_lacks_an_epoch",
    partitions=1,
    min_isr=1,
    durability="fsync",
    send_gap_ms=20,
    unreliable_producer=False,
)
SWAPPED = dataclasses.replace(ALONE, scenario="power_after_a_swap", compacts=True)
DRAINED = dataclasses.replace(
    PLAN,
    scenario="drained_node_is_paused",
    idempotent=True,
    unreliable_producer=False,
    readers=False,
)
DELETED = dataclasses.replace(
    ALONE,
    scenario="power_after_a_deletion",
    faults=("retain",),
    idempotent=True,
    unreliable_producer=False,
    readers=False,
)
WIPED = dataclasses.replace(
    PLAN,
    partitions=3,
    faults=("retain", "wipe", "silence"),
    fault_ms=15_000,
    fault_gap_ms=800,
    send_gap_ms=300,
    idempotent=True,
    readers=False,
    is_brisk=True,
)
RULED = dataclasses.replace(
    PLAN, scenario="nodes_miss_removed_rules", acls=True, readers=False, unreliable_producer=False
)
QUIET_ERASED = dataclasses.replace(PLAN, faults=("erase",), fault_ms=500)
LOST = ("AcknowledgedLost", "lost-write", "LeaderCandidateCompleteness", "LeaderCompleteness", "LogReadable")
HELD = ("LeaderCandidateCompleteness", "HighWatermarkInSync", "LeaderCompleteness")
# Laws that report a bug earlier than others: with these disabled, the others must report it.
CANDIDATES = ("_check_candidates",)
HOLDERS = (*CANDIDATES, "_check_held", "_check_new_leader")
LOGS = ("_check_log", "_check_watermark", "on_acknowledged")
# bug -> (the disabled laws, the laws that must report it, the plan, the number of seeds to try)
BLIND: dict[str, tuple[tuple[str, ...], tuple[str, ...], Plan, int]] = {
    "commits_alone": (CANDIDATES, ("HighWatermarkInSync",), PLAN, 3),
    "elects_any_live_replica": (CANDIDATES, ("LeaderCompleteness",), PLAN, 10),
    "elects_uncleanly_everywhere": (("_note_election",), HELD, PLAN, 10),
    "keeps_unclean_restarts_in_the_isr": (HOLDERS, ("LogMatching", "history", "ConsistentRead"), PLAN, 20),
    "acknowledges_at_once": (("on_acknowledged",), ("lost-write", "unseen"), PLAN, 10),
    "waits_for_fenced_followers": (("_check_current",), ("CommittedInTime",), DRAINED, 5),
    "changes_replicated_bytes": (LOGS, ("differs on node",), CALM, 3),
}
BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[tuple[str, ...], Plan, int]] = {
    commits_alone: (HELD, PLAN, 3),
    acknowledges_at_once: (("AckedIsCommitted",), PLAN, 3),
    ignores_proposed_isr_members: (("ReplicationQuorumSuperset", *HELD), PLAN, 10),
    admits_lagging_followers_to_the_isr: (HELD, PLAN, 10),
    commits_below_min_isr: (HELD, PLAN, 10),
    reports_no_divergence: (("LogMatching", "LogReadable", "OffsetsDense", "MonotonicEpoch"), PLAN, 10),
    resets_the_high_watermark: (("MonotonicHighWatermark",), PLAN, 10),
    truncates_to_the_high_watermark: (HELD, PLAN, 30),
    keeps_the_epoch_of_a_new_leader: (("SingleLeader", "LogMatching"), PLAN, 10),
    reuses_leader_epochs: (("MonotonicEpoch",), PLAN, 10),
    keeps_unclean_restarts_in_the_isr: (HELD, PLAN, 10),
    ignores_lost_log_ends: (HELD, HARM, 10),
    elects_any_live_replica: (HELD, PLAN, 10),
    elects_uncleanly_everywhere: (("UncleanElection",), PLAN, 10),
    elects_another_than_the_last_leader: (("UncleanElection",), BLACKOUT, 10),
    ignores_log_truncation: (("MixedRead",), UNCLEAN, 20),
    acknowledges_before_fsync: (HELD, ALONE, 10),
    acknowledges_before_fsync_of_all: (LOST, BLACKOUT, 10),
    advances_the_recovery_point_without_sync: (LOST, BLACKOUT_ASYNC, 10),
    answers_twice: (("AnsweredOnce",), PLAN, 3),
    never_expires_fetches: (("AnsweredOnce",), CALM, 3),
    serves_uncommitted_records: (("ConsistentRead", "history"), PLAN, 10),
    leaves_a_gap: (("OffsetsDense", "LogReadable"), CALM, 3),
    changes_replicated_bytes: (("LogMatching",), CALM, 3),
    skips_a_metadata_record: (("MonotonicEpoch", "MetadataLogMatching"), PLAN, 10),
    shows_log_starts_before_sync: (("MonotonicLogStart",), ERASED, 10),
    ignores_followers_in_the_low_watermark: (("LowWatermark",), ERASED, 3),
    deletes_uncommitted_segments: (("OnlyCommittedDeleted", "HighWatermark"), RETAINED, 10),
    reports_no_log_start: (("cannot be deleted",), QUIET_ERASED, 3),
    drops_tombstones_at_once: (("CompactedTable",), COMPACTED, 12),
    skips_a_batch: (("OffsetsDense", "LogReadable"), CALM, 2),
    waits_for_fenced_followers: (("HighWatermarkCurrent",), DRAINED, 2),
    cleans_away_epoch_starts: (("MonotonicHighWatermark",), EPOCH_COMPACTED, 2),
    swaps_unsynced_segments: (("CompactedLost", "CRC is", *HELD), SWAPPED, 2),
    forgets_producers_of_deleted_batches: (("ProducersKnown",), DELETED, 10),
    never_fetches_producers: (("ProducersKnown",), WIPED, 10),
    keeps_removed_rules: (("RuleGone",), RULED, 2),
    keeps_revoked_members: (("RuleGone",), RULED, 2),
    keeps_decisions_of_members: (("RuleGone",), RULED, 4),
    keeps_decisions_over_images: (("RuleGone",), RULED, 2),
    obeys_rules_of_any_age: (("RuleGone",), RULED, 8),
}
# The seed that finds the bug soonest, if it is not seed 1: it is tried first.
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    keeps_decisions_of_members: 4,
    obeys_rules_of_any_age: 4,
    commits_below_min_isr: 2,
    reports_no_divergence: 4,
    truncates_to_the_high_watermark: 18,
    keeps_unclean_restarts_in_the_isr: 2,
    ignores_lost_log_ends: 2,
    elects_any_live_replica: 2,
    elects_uncleanly_everywhere: 5,
    acknowledges_before_fsync: 7,
    deletes_uncommitted_segments: 4,
    reports_no_log_start: 2,
    waits_for_fenced_followers: 2,
    drops_tombstones_at_once: 5,
    forgets_producers_of_deleted_batches: 2,
    never_fetches_producers: 3,
}
FIRST_BLIND = {
    "elects_any_live_replica": 2,
    "elects_uncleanly_everywhere": 5,
    "keeps_unclean_restarts_in_the_isr": 2,
    "waits_for_fenced_followers": 3,
}
