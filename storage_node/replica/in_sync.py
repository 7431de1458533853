"""The progress of the followers of a led partition, and its ISR. Pure.

The committed ISR is the controller's. While a proposal is in flight, either ISR may be the committed one, so
a record is committed only when the members of both have it: the maximal ISR. Expansion counts at once,
shrinking only after the decision (Kafka: PendingExpandIsr, PendingShrinkIsr). min.insync.replicas is compared
with the committed ISR alone: a proposal may be refused. Source: Kafka Partition.scala, Replica.scala;
KIP-497, 841, 903, 966; TLA+ models, found rules (3) and (4).
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
"""Whether the node (id, broker epoch) may be in an ISR by the newest metadata."""

NO_BROKER_EPOCH = -1
NEVER_MS = -(1 << 62)  # before any time of a monotonic clock
REFUSAL_BACKOFF_MS = 1_000  # before a refused follower is proposed again


class IsrMember(NamedTuple):
    """One member of a proposed ISR, with the broker epoch of its last fetch."""

    node_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class IsrProposal:
    """A change of the ISR for the controller to decide. Void once the partition epoch has changed."""

    isr: tuple[IsrMember, ...]
    leader_epoch: int
    partition_epoch: int


@dataclass(slots=True)
class FollowerProgress:
    """The progress of one follower by its fetches.

    Invariant: `caught_up_ms` never moves back within one leadership.
    """

    end_offset: int = NO_OFFSET  # it has every record below; unknown before its first fetch
    log_start_offset: int = NO_OFFSET
    broker_epoch: int = NO_BROKER_EPOCH
    caught_up_ms: int = NEVER_MS  # when it last had all records of the leader
    last_fetch_ms: int = NEVER_MS
    last_leader_end: int = 0  # the leader's log end offset at its last fetch

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        """The follower fetches from `offset`. One that reaches the leader's end at its previous fetch was
        caught up at that time: under constant load no follower ever reaches the present end (KIP-16)."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.last_leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.last_leader_end, self.last_fetch_ms = leader_end, now_ms

    def repeated_fetch(self, at_ms: int) -> None:
        """The follower fetched at `at_ms`, with unchanged offset and leader's end."""
        if self.end_offset != NO_OFFSET and at_ms > self.last_fetch_ms:
            self.fetched(self.end_offset, self.last_leader_end, at_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has all records, or had them at most `max_lag_ms` ago."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms


class InSyncReplicas:
    """The followers in one leader epoch.

    Invariant: `maximal` contains `committed`, and the leader is in both.
    Invariant: at most one proposal is in flight, and it is based on the newest known state.
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
        """Members of the ISR have `max_lag_ms` from now for their first fetch; no end offset is known yet."""
        self._node_id = node_id
        self._max_lag_ms = max_lag_ms
        self._epoch_start_offset = epoch_start_offset
        self.leader_epoch = registration.leader_epoch
        self.followers: dict[int, FollowerProgress] = {}
        self.committed: tuple[int, ...] = registration.isr
        self.partition_epoch = registration.partition_epoch
        self.is_recovering = registration.leader_recovery_state != RECOVERED
        self.proposal: IsrProposal | None = None
        self._turned_away_ms: dict[
            int, int
        ] = {}  # followers that were refused or removed, and when; until they make progress
        self._follow(registration.replicas, now_ms)

    @property
    def maximal(self) -> tuple[int, ...]:
        """The members of the committed and of the proposed ISR; sorted."""
        if self.proposal is None:
            return self.committed
        proposed = (member.node_id for member in self.proposal.isr)
        return tuple(sorted({*self.committed, *proposed}))

    def is_under(self, min_isr: int) -> bool:
        """Whether the committed ISR is smaller than `min_isr`."""
        return len(self.committed) < min_isr

    def updated(self, registration: PartitionRegistration, now_ms: int) -> bool:
        """Apply metadata of the same leader epoch; False if its partition epoch is not newer.

        The assigned replicas are applied in any case: they come by metadata alone.
        """
        assert registration.leader_epoch == self.leader_epoch, "a new leader epoch has a new object"
        is_newer = registration.partition_epoch > self.partition_epoch
        if is_newer:
            self._decide(registration.isr, registration.partition_epoch, now_ms)
            self.is_recovering = registration.leader_recovery_state != RECOVERED
        if registration.partition_epoch >= self.partition_epoch:
            self._follow(registration.replicas, now_ms)
        return is_newer

    def decided(self, isr: tuple[int, ...], partition_epoch: int, now_ms: int) -> bool:
        """Apply the controller's response to a proposal of this leader epoch; False if it is stale.

        A response without a new partition epoch means that the proposal changed nothing.
        """
        if partition_epoch < self.partition_epoch:
            return False
        if self._node_id not in isr or any(
            node != self._node_id and node not in self.followers for node in isr
        ):
            return False  # based on metadata that this node does not have yet
        self._decide(isr, partition_epoch, now_ms)
        self.is_recovering = False
        return True

    def refused(self, proposal: IsrProposal, now_ms: int) -> None:
        """The controller has refused `proposal`: the committed ISR holds. The follower that should have
        joined does not count until it makes progress: its disk may be full."""
        if self.proposal is proposal:
            self.proposal = None
            joining = {member.node_id for member in proposal.isr}.difference(self.committed)
            self._turned_away_ms.update(dict.fromkeys(joining, now_ms))

    def was_turned_away(self, node_id: int, now_ms: int) -> bool:
        """Whether it was refused or removed a moment ago: another proposal would only delay the high
        watermark."""
        return now_ms - self._turned_away_ms.get(node_id, NEVER_MS) < REFUSAL_BACKOFF_MS

    def fetched(
        self,
        node_id: int,
        offset: int,
        leader_end: int,
        broker_epoch: int,
        now_ms: int,
        log_start_offset: int = NO_OFFSET,
    ) -> bool:
        """A follower fetches from `offset`: it has all records from its log start to there. False if it is
        not an assigned replica, or its broker epoch is older than the known one."""
        progress = self.followers.get(node_id)
        if progress is None or broker_epoch < progress.broker_epoch:
            return False
        if offset < progress.end_offset and node_id not in self.maximal:
            # It has lost records: it does not count as recently caught up any more.
            progress = self.followers[node_id] = FollowerProgress()
        if offset > progress.end_offset or broker_epoch != progress.broker_epoch:
            self._turned_away_ms.pop(node_id, None)
        progress.broker_epoch, progress.log_start_offset = broker_epoch, log_start_offset
        progress.fetched(offset, leader_end, now_ms)
        return True

    def start_of(self, node_id: int) -> int:
        """A follower's log start offset; NO_OFFSET before its first fetch."""
        progress = self.followers.get(node_id)
        return NO_OFFSET if progress is None else progress.log_start_offset

    def committed_end(
        self, own_end: int, leader_end: int, min_isr: int, now_ms: int, is_eligible: Eligible
    ) -> int:
        """The smallest end offset (exclusive) of all replicas that count; NO_OFFSET below `min_isr`
        (KIP-966).

        `own_end` is the leader's safe end offset, `leader_end` its log end offset. A follower outside of the
        ISR that is caught up and eligible counts as well: otherwise it could never reach a moving high
        watermark. The caller recomputes it when any input changes: see isr_manager.py.
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
        """Whether a follower that lacks records has not fetched for so long that it would leave the ISR
        again."""
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
        """Assert the invariants."""
        maximal = self.maximal
        assert self._node_id in self.committed, "the leader is in its ISR"
        assert set(self.committed) <= set(maximal)
        assert all(node == self._node_id or node in self.followers for node in maximal)
        assert self._node_id not in self.followers, "the leader is not its own follower"
        if self.proposal is not None:
            assert self.proposal.partition_epoch == self.partition_epoch, (
                "the proposal is based on an older state"
            )
            assert self.proposal.leader_epoch == self.leader_epoch

    def _decide(self, isr: tuple[int, ...], partition_epoch: int, now_ms: int) -> None:
        for node_id in isr:
            progress = self.followers.get(node_id)
            if progress is not None and node_id not in self.committed:
                progress.caught_up_ms = max(
                    progress.caught_up_ms, now_ms
                )  # replica.lag.time.max.ms counts from now
        # A follower that the controller removed may count as caught up although its disk has failed.
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
        """NO_BROKER_EPOCH, which the controller does not check, before the member's first fetch."""
        if node_id == self._node_id:
            return leader_broker_epoch
        return self.followers[node_id].broker_epoch

    def _follow(self, replicas: Sequence[int], now_ms: int) -> None:
        """Track the assigned replicas; for new members of the ISR the lag time counts from now.

        Members of the ISR stay even if they are not assigned any more: the controller removes them first.
        """
        known = self.followers
        self.followers = {
            node_id: known.get(node_id)
            or FollowerProgress(caught_up_ms=now_ms if node_id in self.committed else NEVER_MS)
            for node_id in dict.fromkeys((*replicas, *self.maximal))
            if node_id != self._node_id
        }
