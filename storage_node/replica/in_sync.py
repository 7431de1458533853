"""Who follows a partition that this node leads, how far, and who of them is in sync. Pure.

The committed ISR is what the controller says. While a change of it is on its way to the controller, both the
old and the proposed ISR may be true, so records count as committed only when both hold them: the maximal ISR.
Growing counts at once, shrinking only once it is decided (Kafka: PendingExpandIsr, PendingShrinkIsr).
Whether there are enough in-sync replicas is judged by the committed ISR alone: a proposal may be refused.
Source: Kafka Partition.scala, Replica.scala; KIP-497, 841, 903, 966; TLA+ models, found rules (3) and (4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.metadata.image import RECOVERED
from ...protocol.model import NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.metadata.image import PartitionRegistration

Eligible = Callable[[int, int], bool]
"""Whether the node, by the newest metadata, may be in an ISR, and this broker epoch of it is the newest."""

NO_BROKER_EPOCH = -1
NEVER_MS = -(1 << 62)  # before any moment of a monotonic clock
ASK_AGAIN_MS = 1_000  # before a follower is proposed again that was refused


class IsrMember(NamedTuple):
    """One member of a proposed ISR, with the process of it that was heard."""

    node_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class IsrProposal:
    """A change of the ISR to be decided by the controller.

    It is void once the partition epoch has moved on.
    """

    isr: tuple[IsrMember, ...]
    leader_epoch: int
    partition_epoch: int


@dataclass(slots=True)
class FollowerProgress:
    """How far one follower is, as its fetches tell.

    Invariant: `caught_up_ms` never moves back within one leadership.
    """

    end_offset: int = NO_OFFSET  # it holds every record below; unknown before its first fetch
    log_start_offset: int = NO_OFFSET
    broker_epoch: int = NO_BROKER_EPOCH
    caught_up_ms: int = NEVER_MS  # when it last had everything that the leader had
    last_fetch_ms: int = NEVER_MS
    last_leader_end: int = 0  # where the leader's log ended at its last fetch

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """It asks for `offset`. A follower that reaches where the leader was at its previous fetch has been
        caught up as of then: under constant load nobody ever reaches the very end (KIP-16)."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.last_leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.last_leader_end, self.last_fetch_ms = leader_end, now_ms

    def heard(self, at_ms: int) -> None:
        """It was last heard at `at_ms`, its offset and the leader's end being what they were before."""
        if self.end_offset != NO_OFFSET and at_ms > self.last_fetch_ms:
            self.fetched(self.end_offset, self.last_leader_end, at_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has everything, or had everything not longer than `max_lag_ms` ago."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms


class InSyncReplicas:
    """The followers of one leadership. A new one is made for each leader epoch.

    Invariant: `maximal` contains `committed`, and the leader is in both.
    Invariant: at most one proposal is on its way, and it builds on the newest known state.
    Invariant: `committed_end` never passes the end of any member of `maximal`.
    """

    def __init__(
        self,
        node_id: int,
        registration: PartitionRegistration,
        epoch_start_offset: int,
        now_ms: int,
        max_lag_ms: int,
    ) -> None:
        """Members of the ISR have `max_lag_ms` from now to be heard; nobody's end is known yet."""
        self._node_id = node_id
        self._max_lag_ms = max_lag_ms
        self._epoch_start_offset = epoch_start_offset
        self.leader_epoch = registration.leader_epoch
        self.followers: dict[int, FollowerProgress] = {}
        self.committed: tuple[int, ...] = registration.isr
        self.partition_epoch = registration.partition_epoch
        self.is_recovering = registration.leader_recovery_state != RECOVERED
        self.proposal: IsrProposal | None = None
        self._turned_away_ms: dict[int, int] = {}  # who was refused or put out, when; until it gets on
        self._follow(registration.replicas, now_ms)

    @property
    def maximal(self) -> tuple[int, ...]:
        """Everybody who may be counted on as in sync, by what is decided or proposed; sorted."""
        if self.proposal is None:
            return self.committed
        proposed = (member.node_id for member in self.proposal.isr)
        return tuple(sorted({*self.committed, *proposed}))

    def is_under(self, min_isr: int) -> bool:
        """Whether fewer replicas than `min_isr` are in sync, which must not be more than there are."""
        return len(self.committed) < min_isr

    def updated(self, registration: PartitionRegistration, now_ms: int) -> bool:
        """The controller's decision of the same leader epoch; False if it is not newer than what is known.

        The replicas are taken over in any case: they come by metadata alone.
        """
        assert registration.leader_epoch == self.leader_epoch, "a new epoch has a new object"
        is_newer = registration.partition_epoch > self.partition_epoch
        if is_newer:
            self._decide(registration.isr, registration.partition_epoch, now_ms)
            self.is_recovering = registration.leader_recovery_state != RECOVERED
        if registration.partition_epoch >= self.partition_epoch:
            self._follow(registration.replicas, now_ms)
        return is_newer

    def decided(self, isr: tuple[int, ...], partition_epoch: int, now_ms: int) -> bool:
        """The controller's answer to a proposal of this epoch; False if it is older than what is known.

        An answer without a new partition epoch says that the proposal changed nothing.
        """
        if partition_epoch < self.partition_epoch:
            return False
        if self._node_id not in isr or any(
            node != self._node_id and node not in self.followers for node in isr
        ):
            return False  # it builds on metadata that this node has not seen; that comes as well
        self._decide(isr, partition_epoch, now_ms)
        self.is_recovering = False
        return True

    def refused(self, proposal: IsrProposal, now_ms: int) -> None:
        """The controller said no to `proposal`, so that it will never be true: what is decided holds. Whoever
        should have joined is not waited for until it gets on: its disk may be full."""
        if self.proposal is proposal:
            self.proposal = None
            joining = {member.node_id for member in proposal.isr}.difference(self.committed)
            self._turned_away_ms.update(dict.fromkeys(joining, now_ms))

    def was_turned_away(self, node_id: int, now_ms: int) -> bool:
        """Whether it was refused or put out just now, so that asking for it again would only hold up what is
        committed."""
        return now_ms - self._turned_away_ms.get(node_id, NEVER_MS) < ASK_AGAIN_MS

    def fetched(
        self,
        node_id: int,
        offset: int,
        leader_end: int,
        broker_epoch: int,
        now_ms: int,
        log_start_offset: int = NO_OFFSET,
    ) -> bool:
        """A follower asks for `offset`, so it holds everything from its log's start to there. False if it is
        no replica here, or an older process than one that was heard."""
        progress = self.followers.get(node_id)
        if progress is None or broker_epoch < progress.broker_epoch:
            return False
        if offset < progress.end_offset and node_id not in self.maximal:
            # It has lost what it had, so nobody waits for it as for one that has just been caught up.
            progress = self.followers[node_id] = FollowerProgress()
        if offset > progress.end_offset or broker_epoch != progress.broker_epoch:
            self._turned_away_ms.pop(node_id, None)
        progress.broker_epoch, progress.log_start_offset = broker_epoch, log_start_offset
        progress.fetched(offset, leader_end, now_ms)
        return True

    def start_of(self, node_id: int) -> int:
        """Where a follower's log starts, as it told; NO_OFFSET as long as it did not."""
        progress = self.followers.get(node_id)
        return NO_OFFSET if progress is None else progress.log_start_offset

    def committed_end(
        self, own_end: int, leader_end: int, min_isr: int, now_ms: int, is_eligible: Eligible
    ) -> int:
        """The smallest end offset (exclusive) of all replicas that count; NO_OFFSET while nothing commits.

        `own_end` is the end of what is safe here, `leader_end` the log end offset. Below `min_isr`, which is
        never more than there are replicas, nothing is committed (KIP-966). A follower outside of the ISR that
        is caught up and eligible counts as well: else it could never reach a moving high watermark.
        The caller recomputes it when any input changes, `now_ms` and eligibility too: see leading.py.
        """
        if self.is_under(min_isr):
            return NO_OFFSET
        maximal = self.maximal
        end = own_end
        for node_id, progress in self.followers.items():
            if progress.end_offset >= end:
                continue
            if node_id in maximal or (
                node_id not in self._turned_away_ms
                and progress.is_caught_up(leader_end, now_ms, self._max_lag_ms)
                and is_eligible(node_id, progress.broker_epoch)
            ):
                end = progress.end_offset
        return end

    def is_silent(self, node_id: int, leader_end: int, now_ms: int) -> bool:
        """Whether nothing was heard for so long from a follower that misses records that it would have to
        leave at once."""
        progress = self.followers[node_id]
        is_recent = now_ms - progress.last_fetch_ms <= self._max_lag_ms
        return not is_recent and not progress.is_caught_up(leader_end, now_ms, self._max_lag_ms)

    def propose_growth(
        self, node_id: int, high_watermark: int, leader_broker_epoch: int, is_eligible: Eligible
    ) -> IsrProposal | None:
        """The ISR with `node_id` in it, if it has reached the high watermark and the start of this epoch."""
        progress = self.followers.get(node_id)
        if self.proposal is not None or progress is None or node_id in self.committed:
            return None
        if progress.end_offset < max(high_watermark, self._epoch_start_offset):
            return None
        if not is_eligible(node_id, progress.broker_epoch):
            return None
        return self._propose((*self.committed, node_id), leader_broker_epoch)

    def propose_shrink(self, leader_end: int, now_ms: int, leader_broker_epoch: int) -> IsrProposal | None:
        """The ISR without those that lag for longer than replica.lag.time.max.ms, if there are any; else, of
        a leader that was elected uncleanly, the same ISR, which says that it leads on."""
        if self.proposal is not None:
            return None
        lagging = self.lagging(leader_end, now_ms)
        if not lagging and not self.is_recovering:
            return None
        return self._propose([node for node in self.committed if node not in lagging], leader_broker_epoch)

    def lagging(self, leader_end: int, now_ms: int) -> tuple[int, ...]:
        """Members of the committed ISR that are not caught up."""
        return tuple(
            node_id
            for node_id in self.committed
            if node_id != self._node_id
            and not self.followers[node_id].is_caught_up(leader_end, now_ms, self._max_lag_ms)
        )

    def check(self) -> None:
        """Assert the laws of this object."""
        maximal = self.maximal
        assert self._node_id in self.committed, "a leader is in its ISR"
        assert set(self.committed) <= set(maximal)
        assert all(node == self._node_id or node in self.followers for node in maximal)
        assert self._node_id not in self.followers, "a leader follows nobody"
        if self.proposal is not None:
            assert self.proposal.partition_epoch == self.partition_epoch, "a proposal of an older state"
            assert self.proposal.leader_epoch == self.leader_epoch

    def _decide(self, isr: tuple[int, ...], partition_epoch: int, now_ms: int) -> None:
        for node_id in isr:
            progress = self.followers.get(node_id)
            if progress is not None and node_id not in self.committed:
                progress.caught_up_ms = max(progress.caught_up_ms, now_ms)  # its time counts from here
        # Whom the controller took out may have been caught up a moment ago, and its disk be gone since.
        self._turned_away_ms |= {node_id: now_ms for node_id in self.committed if node_id not in isr}
        for node_id in isr:
            self._turned_away_ms.pop(node_id, None)
        self.committed, self.partition_epoch = isr, partition_epoch
        self.proposal = None

    def _propose(self, isr: Sequence[int], leader_broker_epoch: int) -> IsrProposal:
        members = tuple(
            IsrMember(node_id, self._broker_epoch_of(node_id, leader_broker_epoch)) for node_id in sorted(isr)
        )
        self.proposal = IsrProposal(members, self.leader_epoch, self.partition_epoch)
        return self.proposal

    def _broker_epoch_of(self, node_id: int, leader_broker_epoch: int) -> int:
        """Of a member that was not heard in this leadership it is not known, and not checked."""
        if node_id == self._node_id:
            return leader_broker_epoch
        return self.followers[node_id].broker_epoch

    def _follow(self, replicas: Sequence[int], now_ms: int) -> None:
        """Keep exactly the replicas that are assigned; new members of the ISR get their time from now.

        Members of the ISR stay even if they are not assigned any more: the controller takes them out first.
        """
        known = self.followers
        self.followers = {
            node_id: known.get(node_id)
            or FollowerProgress(caught_up_ms=now_ms if node_id in self.committed else NEVER_MS)
            for node_id in dict.fromkeys((*replicas, *self.maximal))
            if node_id != self._node_id
        }
