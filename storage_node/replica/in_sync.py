"""Who follows a partition that this node leads, how far, and who of them is in sync. Pure.

The committed ISR is what the controller says. While a change of it is on its way to the controller, both the
old and the proposed ISR may be true, so records count as committed only when both hold them: the maximal ISR.
Growing counts at once, shrinking only once it is decided (Kafka: PendingExpandIsr, PendingShrinkIsr).
Source: Kafka Partition.scala, Replica.scala; KIP-497, 841, 903, 966; found rules (3) and (4) of the TLA+ models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...protocol.metadata.image import PartitionRegistration

NO_BROKER_EPOCH = -1


class IsrMember(NamedTuple):
    """One member of a proposed ISR, with the process of it that was heard."""

    node_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
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
    broker_epoch: int = NO_BROKER_EPOCH
    caught_up_ms: int = 0  # when it last had everything that the leader had
    last_fetch_ms: int = 0
    last_leader_end: int = 0  # where the leader's log ended at its last fetch

    def fetched(self, offset: int, leader_end: int, broker_epoch: int, now_ms: int) -> None:
        """It asks for `offset`. A follower that reaches where the leader was at its previous fetch has been
        caught up as of then: under constant load nobody ever reaches the very end (KIP-16)."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.last_leader_end and self.end_offset != NO_OFFSET:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.end_offset, self.broker_epoch = offset, broker_epoch
        self.last_leader_end, self.last_fetch_ms = leader_end, now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has everything, or had everything not longer than `max_lag_ms` ago."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms


class InSyncReplicas:
    """The followers of one leadership. A new one is made for each leader epoch.

    Invariant: `maximal` contains `committed`.
    Invariant: at most one proposal is on its way.
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
        self.proposal: IsrProposal | None = None
        self._follow(registration, now_ms)

    @property
    def maximal(self) -> tuple[int, ...]:
        """Everybody who may be counted on as in sync, by what is decided or proposed; sorted."""
        if self.proposal is None:
            return self.committed
        proposed = (member.node_id for member in self.proposal.isr)
        return tuple(sorted({*self.committed, *proposed}))

    def updated(self, registration: PartitionRegistration, now_ms: int) -> None:
        """The controller's decision of the same leader epoch, newer than what is known; else nothing."""
        assert registration.leader_epoch == self.leader_epoch, "a new epoch has a new object"
        if registration.partition_epoch <= self.partition_epoch:
            return
        self.committed = registration.isr
        self.partition_epoch = registration.partition_epoch
        self.proposal = None
        self._follow(registration, now_ms)

    def refused(self, proposal: IsrProposal) -> None:
        """The controller said no to `proposal`, or it was never asked: what is decided holds."""
        if self.proposal is proposal:
            self.proposal = None

    def fetched(self, node_id: int, offset: int, leader_end: int, broker_epoch: int, now_ms: int) -> bool:
        """A follower asks for `offset`, so it holds everything below; False if it is no replica here."""
        progress = self.followers.get(node_id)
        if progress is None:
            return False
        progress.fetched(offset, leader_end, broker_epoch, now_ms)
        return True

    def committed_end(self, leader_end: int, min_isr: int, now_ms: int, is_eligible: Eligible) -> int:
        """How far records are on everybody who counts; NO_OFFSET while that must not move.

        Below min.insync.replicas nothing is committed (KIP-966). A follower that is caught up and may join
        the ISR is waited for as well: else it could never reach a moving high watermark.
        """
        maximal = self.maximal
        if len(maximal) < min(min_isr, len(self.followers) + 1):
            return NO_OFFSET
        end = leader_end
        for node_id, progress in self.followers.items():
            if progress.end_offset >= end:
                continue
            if node_id in maximal or (
                progress.is_caught_up(leader_end, now_ms, self._max_lag_ms)
                and is_eligible(node_id, progress.broker_epoch)
            ):
                end = progress.end_offset
        return end

    def propose_growth(self, node_id: int, high_watermark: int, is_eligible: Eligible) -> IsrProposal | None:
        """The ISR with `node_id` in it, if it has reached the high watermark and the start of this epoch."""
        progress = self.followers.get(node_id)
        if self.proposal is not None or progress is None or node_id in self.committed:
            return None
        if progress.end_offset < max(high_watermark, self._epoch_start_offset):
            return None
        if not is_eligible(node_id, progress.broker_epoch):
            return None
        return self._propose((*self.committed, node_id))

    def propose_shrink(self, leader_end: int, now_ms: int) -> IsrProposal | None:
        """The ISR without those that lag for longer than replica.lag.time.max.ms, if there are any."""
        if self.proposal is not None:
            return None
        lagging = self.lagging(leader_end, now_ms)
        if not lagging:
            return None
        return self._propose([node for node in self.committed if node not in lagging])

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
        if self.proposal is not None:
            assert self.proposal.partition_epoch == self.partition_epoch, "a proposal of an older state"

    def _propose(self, isr: Sequence[int]) -> IsrProposal:
        members = tuple(IsrMember(node_id, self._broker_epoch_of(node_id)) for node_id in sorted(isr))
        self.proposal = IsrProposal(members, self.leader_epoch, self.partition_epoch)
        return self.proposal

    def _broker_epoch_of(self, node_id: int) -> int:
        progress = self.followers.get(node_id)
        return NO_BROKER_EPOCH if progress is None else progress.broker_epoch

    def _follow(self, registration: PartitionRegistration, now_ms: int) -> None:
        """Keep exactly the replicas that are assigned; new members of the ISR get their time from now."""
        known: Mapping[int, FollowerProgress] = self.followers
        self.followers = {
            node_id: known.get(node_id) or FollowerProgress(caught_up_ms=now_ms if node_id in self.committed else 0)
            for node_id in registration.replicas
            if node_id != self._node_id
        }


Eligible = "Callable[[int, int], bool]"
