"""Planted bugs: each breaks one rule of the quorum, and the simulation must find it.

Each is a function that changes the production classes through pytest's monkeypatch, with the law that the
simulation is expected to see broken. A law that no bug breaks might be one that cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.controller.quorum import events as raft_events
from headrace.controller.quorum import raft
from headrace.controller.quorum.context import Context
from headrace.controller.quorum.election import Votes
from headrace.controller.quorum.following import Following
from headrace.controller.quorum.leading import Leading
from headrace.controller.quorum.metadata_log import MetadataLog
from headrace.controller.quorum.raft import Raft
from headrace.controller.quorum.roles import Role, RoleEvent
from headrace.controller.quorum.voter_changes import VoterChanges
from quorum import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def counts_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    """The leader takes its own log's end for durable."""

    def advance(self: Leading, advance: Any = Leading.advance) -> None:
        log, flushed = self._log, self._log.flushed_offset
        log.flushed_offset = log.end_offset
        advance(self)
        log.flushed_offset = flushed

    patch.setattr(Leading, "advance", advance)


def fetches_before_it_has_flushed(patch: pytest.MonkeyPatch) -> None:
    """A follower acknowledges what it may still lose."""

    def poll(self: Following, now_ms: int, poll: Any = Following.poll) -> None:
        context, flushing = self._context, self._context.is_flushing
        context.flush()
        was_flushing = flushing or context.is_flushing
        context.is_flushing, flushed = False, context.log.flushed_offset
        context.log.flushed_offset = context.log.end_offset
        poll(self, now_ms)
        context.is_flushing, context.log.flushed_offset = was_flushing, flushed

    patch.setattr(Following, "poll", poll)


def commits_older_epochs(patch: pytest.MonkeyPatch) -> None:
    """A leader commits a record of an earlier epoch by counting copies (Raft, figure 8)."""

    def begin(self: Leading, granting: Any, now_ms: int, begin: Any = Leading._begin_epoch) -> None:
        begin(self, granting, now_ms)
        self.epoch_start_offset = -1

    patch.setattr(Leading, "_begin_epoch", begin)


def votes_twice(patch: pytest.MonkeyPatch) -> None:
    """A voter that has voted votes for the next one too."""
    grants = raft.grants_vote
    patch.setattr(raft, "grants_vote", lambda facts, *who: grants(facts._replace(voted=None), *who))

    def on_vote(self: Raft, token: Any, request: Any, now_ms: int, on_vote: Any = Raft._on_vote) -> None:
        if self.role is Role.UNATTACHED and not request.pre_vote:
            self.context.voted = None
        on_vote(self, token, request, now_ms)

    patch.setattr(Raft, "_on_vote", on_vote)


def forgets_its_vote(patch: pytest.MonkeyPatch) -> None:
    """Epoch and vote are not written."""
    patch.setattr(Raft, "_persist", lambda self: None)
    patch.setattr(MetadataLog, "read_state", lambda self: None)


def votes_for_anyone(patch: pytest.MonkeyPatch) -> None:
    """A voter does not look at how far the candidate's log goes."""
    grants = raft.grants_vote
    far = raft.LogPosition(1 << 30, 1 << 30)
    patch.setattr(raft, "grants_vote", lambda facts, who, _position: grants(facts, who, far))
    patch.setattr(
        raft, "grants_pre_vote", lambda facts, _position, grants=raft.grants_pre_vote: grants(facts, far)
    )


def wins_without_a_majority(patch: pytest.MonkeyPatch) -> None:
    """Half of the voters are enough."""
    patch.setattr(
        Votes,
        "is_won",
        property(lambda self: len(self.granting) >= max(1, len(self._answers) // 2)),
    )


def decides_before_it_has_applied(patch: pytest.MonkeyPatch) -> None:
    """A leader decides as soon as it is elected (Redpanda issue 5090)."""

    def begin(self: Leading, granting: Any, now_ms: int, begin: Any = Leading._begin_epoch) -> None:
        begin(self, granting, now_ms)
        self.is_active = True
        self._context.effects.append(raft_events.BecameLeader(self._context.epoch))

    patch.setattr(Leading, "_begin_epoch", begin)


def does_not_truncate(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps what the leader does not have."""
    patch.setattr(Following, "_truncate", lambda *_: None)


def never_sees_divergence(patch: pytest.MonkeyPatch) -> None:
    """The leader takes any fetch offset for one of its own log."""

    def where(self: Leading, request: Any, where: Any = Leading._where_parted) -> Any:
        parted = where(self, request)
        return None if parted is not None and parted.diverging_epoch >= 0 else parted

    patch.setattr(Leading, "_where_parted", where)


def any_disk_votes(patch: pytest.MonkeyPatch) -> None:
    """A voter that lost its disk votes as if it were the one before, and its fetches count."""

    def fault_of(self: Raft, request: Any, epoch: int, fault_of: Any = Raft._fault_of) -> int:
        if hasattr(request, "voter_directory_id") and request.voter_id == self.context.key.replica_id:
            request = type(request)(
                **{
                    name: getattr(request, name)
                    for name in request.__struct_fields__
                    if name != "voter_directory_id"
                },
                voter_directory_id=self.context.key.directory_id,
            )
        return fault_of(self, request, epoch)

    patch.setattr(Raft, "_fault_of", fault_of)


def changes_voters_at_any_time(patch: pytest.MonkeyPatch) -> None:
    """A change of the voters waits neither for the one before nor for a record of the epoch."""
    patch.setattr(VoterChanges, "_check_may_change", lambda self: None)


def goes_on_leading_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Who has voted for itself stands again in the same epoch."""

    def recall(self: Raft, recall: Any = Raft._recall) -> None:
        recall(self)
        if self.context.voted == self.context.key:
            self.context.epoch -= 1

    patch.setattr(Raft, "_recall", recall)


def commits_what_it_has_not_flushed(patch: pytest.MonkeyPatch) -> None:
    """A follower takes the leader's high watermark as it is."""
    patch.setattr(
        Following,
        "advance",
        lambda self: self._context.commit(min(self._leader_high_watermark, self._context.log.end_offset)),
    )


def takes_high_watermarks_back(patch: pytest.MonkeyPatch) -> None:
    """A new leader begins with the high watermark that it can prove."""

    def begin(self: Leading, granting: Any, now_ms: int, begin: Any = Leading._begin_epoch) -> None:
        self._log.high_watermark = 0
        begin(self, granting, now_ms)

    patch.setattr(Leading, "_begin_epoch", begin)


def installs_snapshots_while_leading(patch: pytest.MonkeyPatch) -> None:
    """An elected controller reads the newest snapshot again, as if it had fetched it."""

    def begin(self: Leading, granting: Any, now_ms: int, begin: Any = Leading._begin_epoch) -> None:
        begin(self, granting, now_ms)
        if self._log.snapshots and self._log.snapshots[0].end_offset:
            self._context.effects.append(raft_events.LoadSnapshot(self._log.snapshots[0]))

    patch.setattr(Leading, "_begin_epoch", begin)


def forgets_snapshots(patch: pytest.MonkeyPatch) -> None:
    """The log is cut at its start without a snapshot that says what was there."""

    def trim(self: MetadataLog, trim: Any = MetadataLog._trim) -> None:
        trim(self)
        if self.start_offset:
            self.snapshots.clear()

    patch.setattr(MetadataLog, "_trim", trim)


def never_flushes_again(patch: pytest.MonkeyPatch) -> None:
    """After a hundred flushes nobody asks for one any more: nothing is broken, and nothing goes on."""
    count = [0]

    def flush(self: Context, flush: Any = Context.flush) -> None:
        count[0] += 1
        if count[0] < 20_000:
            flush(self)

    patch.setattr(Context, "flush", flush)


def skips_pre_vote(patch: pytest.MonkeyPatch) -> None:
    """Whoever waits in vain stands at once in a new epoch."""

    def campaign(self: Raft, event: Any, now_ms: int, campaign: Any = Raft._campaign) -> None:
        campaign(self, event, now_ms)
        if self.role is Role.PROSPECTIVE:
            self._stand(RoleEvent.PRE_VOTE_WON, now_ms)

    patch.setattr(Raft, "_campaign", campaign)


def never_checks_its_quorum(patch: pytest.MonkeyPatch) -> None:
    """A leader leads on, whether anyone fetches or not."""
    patch.setattr(Leading, "quorum_deadline_ms", lambda self: None)


def forgets_its_epoch(patch: pytest.MonkeyPatch) -> None:
    """A restart takes the epoch of the log's last record for that of the controller."""

    def recall(self: Raft, recall: Any = Raft._recall) -> None:
        recall(self)
        self.context.epoch, self.context.voted = self._log.last_epoch, None

    patch.setattr(Raft, "_recall", recall)


def leads_an_epoch_twice(patch: pytest.MonkeyPatch) -> None:
    """Who has voted for itself stands again in the same epoch, also if it has led it before its restart."""

    def stand(self: Raft, event: Any, now_ms: int) -> None:
        context = self.context
        epoch = context.epoch if context.voted == context.key else context.epoch + 1
        self._enter(event, epoch, -1, context.key, now_ms)
        self._begin_votes(now_ms)

    patch.setattr(Raft, "_stand", stand)


HARD = Plan(voters=3, observers=1, faults=("isolate", "power", "crash", "split"), fault_gap_ms=300)
DISKS = Plan(voters=3, observers=0, faults=("disk", "isolate", "power", "cut"), fault_gap_ms=300)
CHANGES = Plan(
    voters=3,
    observers=2,
    faults=("voters", "voters", "voters", "isolate", "split", "power"),
    fault_gap_ms=150,
)

# bug -> (the law that it breaks, in which world, within how many seeds)
BUGS: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, Plan | None, int]] = {
    counts_what_is_not_flushed: ("MajorityReachedHighWatermark", None, 5),
    fetches_before_it_has_flushed: ("MajorityReachedHighWatermark", None, 5),
    commits_older_epochs: ("LeaderCompleteness", HARD, 20),
    votes_twice: ("VoteOnce", None, 30),
    forgets_its_vote: ("nothing is written in an epoch", None, 5),
    forgets_its_epoch: ("MonotonicEpoch", HARD, 20),
    votes_for_anyone: ("ConsistentCommittedData", HARD, 20),
    wins_without_a_majority: ("SingleLeader", None, 20),
    decides_before_it_has_applied: ("LeaderCompleteness", HARD, 20),
    does_not_truncate: ("no progress", None, 30),
    never_sees_divergence: ("ConsistentCommittedData", None, 20),
    leads_an_epoch_twice: ("LogMatching", HARD, 40),
    any_disk_votes: ("ConsistentCommittedData", DISKS, 60),
    changes_voters_at_any_time: ("ConsistentCommittedData", CHANGES, 60),
    goes_on_leading_after_a_restart: ("nothing is written in an epoch", None, 5),
    commits_what_it_has_not_flushed: ("only what is durable", None, 5),
    takes_high_watermarks_back: ("MonotonicHighWatermark", None, 5),
    installs_snapshots_while_leading: ("LeaderNeverLoadsSnapshot", None, 5),
    forgets_snapshots: ("SnapshotAtLogStart", None, 10),
    never_flushes_again: ("no progress", None, 20),
}
# Lately the first seed that showed it, where others went before: it is tried first.
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    votes_for_anyone: 4,
    wins_without_a_majority: 4,
    does_not_truncate: 12,
    never_sees_divergence: 2,
    leads_an_epoch_twice: 10,
    any_disk_votes: 21,
    changes_voters_at_any_time: 36,
    never_flushes_again: 2,
}
