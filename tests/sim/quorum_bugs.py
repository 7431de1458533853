"""Planted bugs: each breaks one rule of the quorum, and the simulation must find it.

Each bug is a function that patches production classes with pytest's monkeypatch, and has the law that the
simulation must report. Without a bug that breaks it, a law might be one that cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.controller.quorum import events as raft_events
from headrace.controller.quorum import raft
from headrace.controller.quorum.context import QuorumContext
from headrace.controller.quorum.election import EpochElection
from headrace.controller.quorum.follower_state import FollowerState
from headrace.controller.quorum.leader_state import LeaderState
from headrace.controller.quorum.metadata_log import MetadataLog
from headrace.controller.quorum.nominee_state import NomineeState
from headrace.controller.quorum.quorum_state import QuorumState
from headrace.controller.quorum.raft import Raft
from headrace.controller.quorum.roles import Role, RoleEvent
from headrace.controller.quorum.voter_changes import VoterChanges
from quorum import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def counts_unflushed_records(patch: pytest.MonkeyPatch) -> None:
    """The leader counts its unflushed log end as durable."""

    def advance(self: LeaderState, advance: Any = LeaderState.advance_high_watermark) -> None:
        log, flushed = self._log, self._log.flushed_offset
        log.flushed_offset = log.end_offset
        advance(self)
        log.flushed_offset = flushed

    patch.setattr(LeaderState, "advance_high_watermark", advance)


def fetches_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """A follower acknowledges records that it has not flushed."""

    def poll(self: FollowerState, now_ms: int, poll: Any = FollowerState.poll) -> Any:
        context, flushing = self._context, self._context.is_flushing
        context.flush()
        was_flushing = flushing or context.is_flushing
        context.is_flushing, flushed = False, context.log.flushed_offset
        context.log.flushed_offset = context.log.end_offset
        event = poll(self, now_ms)
        context.is_flushing, context.log.flushed_offset = was_flushing, flushed
        return event

    patch.setattr(FollowerState, "poll", poll)


def commits_older_epochs(patch: pytest.MonkeyPatch) -> None:
    """A leader commits a record of an earlier epoch by counting replicas (Raft, figure 8)."""

    def begin(self: LeaderState, granting: Any, now_ms: int, begin: Any = LeaderState._begin_epoch) -> None:
        begin(self, granting, now_ms)
        self.epoch_start_offset = -1

    patch.setattr(LeaderState, "_begin_epoch", begin)


def votes_twice(patch: pytest.MonkeyPatch) -> None:
    """A voter votes for a second candidate in the same epoch."""
    grants = raft.grants_vote
    patch.setattr(raft, "grants_vote", lambda voter, *vote: grants(voter._replace(voted=None), *vote))

    def on_vote(self: Raft, token: Any, request: Any, now_ms: int, on_vote: Any = Raft._on_vote) -> None:
        if self.role is Role.UNATTACHED and not request.pre_vote:
            self.context.voted = None
        on_vote(self, token, request, now_ms)

    patch.setattr(Raft, "_on_vote", on_vote)


def forgets_its_vote(patch: pytest.MonkeyPatch) -> None:
    """Epoch and vote are not stored."""
    patch.setattr(MetadataLog, "write_election_state", lambda *_: None)
    patch.setattr(MetadataLog, "read_election_state", lambda _: None)


def votes_for_any_log(patch: pytest.MonkeyPatch) -> None:
    """A voter ignores the candidate's log end."""
    grants = raft.grants_vote
    far = raft.LogPosition(1 << 30, 1 << 30)
    patch.setattr(raft, "grants_vote", lambda voter, candidate, _position: grants(voter, candidate, far))
    patch.setattr(
        raft, "grants_pre_vote", lambda voter, _position, grants=raft.grants_pre_vote: grants(voter, far)
    )


def wins_without_a_majority(patch: pytest.MonkeyPatch) -> None:
    """Half of the voters elect a leader."""
    patch.setattr(
        EpochElection,
        "is_won",
        property(lambda self: len(self.granting) >= max(1, len(self._votes) // 2)),
    )


def is_active_before_it_has_applied(patch: pytest.MonkeyPatch) -> None:
    """A leader decides as soon as it is elected (Redpanda issue 5090)."""

    def begin(self: LeaderState, granting: Any, now_ms: int, begin: Any = LeaderState._begin_epoch) -> None:
        begin(self, granting, now_ms)
        self.is_active = True
        self._context.effects.append(raft_events.BecameLeader(self._context.epoch))

    patch.setattr(LeaderState, "_begin_epoch", begin)


def does_not_truncate(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps records that the leader does not have."""
    patch.setattr(FollowerState, "_truncate", lambda *_: None)


def ignores_divergence(patch: pytest.MonkeyPatch) -> None:
    """The leader accepts any fetch offset as one of its log."""

    def find(self: LeaderState, request: Any, find: Any = LeaderState._divergence) -> Any:
        divergence = find(self, request)
        return None if divergence is not None and divergence.diverging_epoch >= 0 else divergence

    patch.setattr(LeaderState, "_divergence", find)


def votes_with_a_new_disk(patch: pytest.MonkeyPatch) -> None:
    """A voter that lost its disk votes, and its fetches count, as with the old disk."""

    def error_of(self: Raft, request: Any, epoch: int, error_of: Any = Raft._error_of) -> int:
        if hasattr(request, "voter_directory_id") and request.voter_id == self.context.key.replica_id:
            request = type(request)(
                **{
                    name: getattr(request, name)
                    for name in request.__struct_fields__
                    if name != "voter_directory_id"
                },
                voter_directory_id=self.context.key.directory_id,
            )
        return error_of(self, request, epoch)

    patch.setattr(Raft, "_error_of", error_of)


def changes_voters_at_any_time(patch: pytest.MonkeyPatch) -> None:
    """A voter change waits neither for the previous one nor for a record of the epoch."""
    patch.setattr(VoterChanges, "_check_may_change", lambda self: None)


def restarts_in_the_epoch_of_its_candidacy(patch: pytest.MonkeyPatch) -> None:
    """A candidate that restarts campaigns again in the same epoch."""

    def recover(self: QuorumContext, recover: Any = QuorumContext.recover_vote) -> None:
        recover(self)
        if self.voted == self.key:
            self.epoch -= 1

    patch.setattr(QuorumContext, "recover_vote", recover)


def commits_unflushed_records(patch: pytest.MonkeyPatch) -> None:
    """A follower takes the leader's high watermark without a limit at its flushed offset."""
    patch.setattr(
        FollowerState,
        "advance_high_watermark",
        lambda self: self._context.commit(min(self._leader_high_watermark, self._context.log.end_offset)),
    )


def lowers_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """A new leader begins with a high watermark of 0."""

    def begin(self: LeaderState, granting: Any, now_ms: int, begin: Any = LeaderState._begin_epoch) -> None:
        self._log.high_watermark = 0
        begin(self, granting, now_ms)

    patch.setattr(LeaderState, "_begin_epoch", begin)


def installs_snapshots_while_leading(patch: pytest.MonkeyPatch) -> None:
    """A new leader loads the newest snapshot again, as if it had fetched it."""

    def begin(self: LeaderState, granting: Any, now_ms: int, begin: Any = LeaderState._begin_epoch) -> None:
        begin(self, granting, now_ms)
        newest = self._log.snapshots.newest
        if newest is not None and newest.end_offset:
            self._context.effects.append(raft_events.LoadSnapshot(newest))

    patch.setattr(LeaderState, "_begin_epoch", begin)


def forgets_snapshots(patch: pytest.MonkeyPatch) -> None:
    """The log start advances without a snapshot of the records before it."""

    def trim(self: MetadataLog, trim: Any = MetadataLog._trim) -> None:
        trim(self)
        if self.start_offset:
            self.snapshots.ids.clear()

    patch.setattr(MetadataLog, "_trim", trim)


def stops_flushing(patch: pytest.MonkeyPatch) -> None:
    """After some time no flush is requested: no safety law is broken, but there is no progress."""
    count = [0]

    def flush(self: QuorumContext, flush: Any = QuorumContext.flush) -> None:
        count[0] += 1
        if count[0] < 20_000:
            flush(self)

    patch.setattr(QuorumContext, "flush", flush)


def skips_pre_vote(patch: pytest.MonkeyPatch) -> None:
    """A voter becomes a candidate in a new epoch without winning a pre-vote."""

    def poll(self: NomineeState, now_ms: int, poll: Any = NomineeState.poll) -> Any:
        return RoleEvent.PRE_VOTE_WON if self.is_prospective else poll(self, now_ms)

    patch.setattr(NomineeState, "poll", poll)


def never_checks_its_quorum(patch: pytest.MonkeyPatch) -> None:
    """A leader does not resign when no voter fetches."""
    patch.setattr(LeaderState, "_quorum_deadline_ms", lambda self: None)


def forgets_its_epoch(patch: pytest.MonkeyPatch) -> None:
    """After a restart the current epoch is that of the last record in the log."""

    def recover(self: QuorumContext, recover: Any = QuorumContext.recover_vote) -> None:
        recover(self)
        self.epoch, self.voted = self.log.last_epoch, None

    patch.setattr(QuorumContext, "recover_vote", recover)


def leads_an_epoch_twice(patch: pytest.MonkeyPatch) -> None:
    """A candidate campaigns again in an epoch that it may have led before its restart."""

    def change_role(
        self: QuorumState, event: RoleEvent, now_ms: int, change_role: Any = QuorumState._change_role
    ) -> None:
        context = self._context
        if event in (RoleEvent.PRE_VOTE_WON, RoleEvent.ONLY_VOTER) and context.voted == context.key:
            context.epoch -= 1  # the new epoch is one more
        change_role(self, event, now_ms)

    patch.setattr(QuorumState, "_change_role", change_role)


HARD = Plan(voters=3, observers=1, faults=("isolate", "power", "crash", "split"), fault_gap_ms=300)
DISKS = Plan(voters=3, observers=0, faults=("disk", "isolate", "power", "cut"), fault_gap_ms=300)
CHANGES = Plan(
    voters=3,
    observers=2,
    faults=("voters", "voters", "voters", "isolate", "split", "power"),
    fault_gap_ms=150,
)

# bug -> (the law that it breaks, the plan, the number of seeds to try)
BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, Plan | None, int]] = {
    counts_unflushed_records: ("MajorityReachedHighWatermark", None, 5),
    fetches_before_the_flush: ("MajorityReachedHighWatermark", None, 5),
    commits_older_epochs: ("LeaderCompleteness", HARD, 20),
    votes_twice: ("VoteOnce", None, 30),
    forgets_its_vote: ("LogWithinEpoch", None, 5),
    forgets_its_epoch: ("MonotonicEpoch", HARD, 20),
    votes_for_any_log: ("ConsistentCommittedData", HARD, 20),
    wins_without_a_majority: ("SingleLeader", None, 20),
    is_active_before_it_has_applied: ("LeaderCompleteness", HARD, 20),
    does_not_truncate: ("no progress", None, 30),
    ignores_divergence: ("ConsistentCommittedData", None, 20),
    leads_an_epoch_twice: ("LogMatching", HARD, 40),
    votes_with_a_new_disk: ("ConsistentCommittedData", DISKS, 60),
    changes_voters_at_any_time: ("ConsistentCommittedData", CHANGES, 60),
    restarts_in_the_epoch_of_its_candidacy: ("LogWithinEpoch", None, 5),
    commits_unflushed_records: ("CommittedIsDurable", None, 5),
    lowers_the_high_watermark: ("MonotonicHighWatermark", None, 5),
    installs_snapshots_while_leading: ("LeaderNeverLoadsSnapshot", None, 5),
    forgets_snapshots: ("SnapshotAtLogStart", None, 10),
    stops_flushing: ("no progress", None, 20),
}
# The seed that finds the bug soonest, if it is not seed 1: it is tried first.
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    votes_for_any_log: 4,
    wins_without_a_majority: 4,
    does_not_truncate: 12,
    ignores_divergence: 2,
    leads_an_epoch_twice: 10,
    votes_with_a_new_disk: 21,
    changes_voters_at_any_time: 36,
    stops_flushing: 2,
}
