"""Progress of followers and ISR proposals: rule by rule, and against a model."""

import hypothesis.strategies as st
import pytest
from headrace.protocol.metadata.image import RECOVERING, PartitionRegistration
from headrace.protocol.model import NO_OFFSET
from headrace.storage_node.replica.in_sync import (
    NEVER_MS,
    REFUSAL_BACKOFF_MS,
    FollowerProgress,
    InSyncReplicas,
)
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

LAG_MS = 1_000
EPOCH = 7  # broker epoch of every node
ME = 1


def registration(isr=(1, 2, 3), replicas=(1, 2, 3), partition_epoch=0, **facts) -> PartitionRegistration:
    return PartitionRegistration(replicas, isr, ME, 4, partition_epoch, **facts)


def leading(isr=(1, 2, 3), replicas=(1, 2, 3), start=0, now_ms=0, **facts) -> InSyncReplicas:
    return InSyncReplicas(ME, registration(isr, replicas, **facts), start, now_ms, LAG_MS)


def all_eligible(_node_id: int, _epoch: int) -> bool:
    return True


def none_eligible(_node_id: int, _epoch: int) -> bool:
    return False


def fetched(view: InSyncReplicas, node: int, offset: int, leader_end: int, now_ms: int = 0) -> None:
    assert view.fetched(node, offset, leader_end, EPOCH, now_ms)


def members(proposal) -> tuple[int, ...]:
    return tuple(member.node_id for member in proposal.isr)


# --- progress -------------------------------------------------------------------------------------------


def test_follower_outside_the_isr_is_not_caught_up_at_first() -> None:
    """Also at a time close to the clock's zero."""
    view = leading(isr=(1, 2), now_ms=5)
    assert view.followers[3].caught_up_ms == NEVER_MS
    assert not view.followers[3].is_caught_up(10, 5, LAG_MS)
    assert view.followers[2].is_caught_up(10, 5, LAG_MS)


def test_follower_that_lost_records_does_not_count() -> None:
    """Outside the ISR: a new disk, even if the old one was caught up a moment ago."""
    view = leading(isr=(1, 2))
    fetched(view, 3, 10, 10)
    fetched(view, 2, 10, 10)
    assert view.committed_end(10, 10, 1, 0, all_eligible) == 10
    fetched(view, 2, 12, 12)
    assert view.committed_end(12, 12, 1, 0, all_eligible) == 10
    fetched(view, 3, 0, 12)
    assert view.committed_end(12, 12, 1, 0, all_eligible) == 12


def test_follower_at_the_log_end_is_caught_up() -> None:
    """However long ago its fetch is, while nothing is appended."""
    progress = FollowerProgress()
    progress.fetched(10, 10, 500)
    assert progress.caught_up_ms == 500
    assert progress.is_caught_up(10, 10**9, LAG_MS)


def test_follower_at_the_previous_log_end_was_caught_up_then() -> None:
    """KIP-16: under constant load no follower reaches the present log end."""
    progress = FollowerProgress()
    progress.fetched(0, 10, 500)
    assert progress.caught_up_ms == NEVER_MS
    progress.fetched(10, 20, 700)
    assert progress.caught_up_ms == 500
    progress.fetched(19, 30, 900)
    assert progress.caught_up_ms == 500


def test_incremental_fetch_without_the_partition_counts() -> None:
    """The fetch offset is unchanged."""
    progress = FollowerProgress()
    progress.fetched(10, 10, 500)
    progress.repeated_fetch(900)
    assert progress.caught_up_ms == 900
    behind = FollowerProgress()
    behind.repeated_fetch(900)
    assert behind.caught_up_ms == NEVER_MS
    behind.fetched(5, 10, 500)
    behind.repeated_fetch(900)
    assert behind.caught_up_ms == NEVER_MS


def test_fetches_of_non_replicas_and_older_broker_epochs_are_ignored() -> None:
    """Their progress does not change."""
    view = leading()
    assert not view.fetched(9, 5, 5, EPOCH, 0)
    assert view.fetched(2, 5, 5, EPOCH, 0)
    assert not view.fetched(2, 6, 6, EPOCH - 1, 0)
    assert view.followers[2].end_offset == 5


# --- the committed end ----------------------------------------------------------------------------------


def test_committed_end_is_the_smallest_in_sync_end() -> None:
    """And never above the leader's safe end offset."""
    view = leading()
    assert view.committed_end(10, 10, 1, 0, all_eligible) == NO_OFFSET
    fetched(view, 2, 8, 10)
    assert view.committed_end(10, 10, 1, 0, all_eligible) == NO_OFFSET
    fetched(view, 3, 6, 10)
    assert view.committed_end(10, 10, 1, 0, all_eligible) == 6
    assert view.committed_end(4, 10, 1, 0, all_eligible) == 4


def test_below_min_isr_nothing_is_committed() -> None:
    """Judged by the committed ISR: a proposal may be refused (KIP-966)."""
    view = leading(isr=(1,))
    fetched(view, 2, 10, 10)
    assert view.propose_growth(2, 0, EPOCH, all_eligible) is not None
    assert view.committed_end(10, 10, 2, 0, all_eligible) == NO_OFFSET
    assert view.committed_end(10, 10, 1, 0, none_eligible) == 10


def test_caught_up_eligible_follower_counts() -> None:
    """Outside the ISR, while it is caught up and eligible."""
    view = leading(isr=(1, 2))
    fetched(view, 2, 10, 10)
    fetched(view, 3, 5, 5, now_ms=100)  # at the end as it was
    assert view.committed_end(10, 10, 1, 200, all_eligible) == 5
    assert view.committed_end(10, 10, 1, 200, none_eligible) == 10
    assert view.committed_end(10, 10, 1, 100 + LAG_MS + 1, all_eligible) == 10


def test_proposed_and_removed_members_count_until_the_decision() -> None:
    """Either ISR may be the committed one."""
    view = leading(isr=(1, 2))
    fetched(view, 2, 10, 10)
    fetched(view, 3, 7, 7)
    assert members(view.propose_growth(3, 7, EPOCH, all_eligible)) == (1, 2, 3)
    assert view.maximal == (1, 2, 3)
    assert view.committed_end(10, 10, 1, 10 * LAG_MS, none_eligible) == 7
    view = leading()
    fetched(view, 2, 10, 10)
    fetched(view, 3, 7, 10)
    assert members(view.propose_shrink(10, 10 * LAG_MS, EPOCH)) == (1, 2)
    assert view.maximal == (1, 2, 3)
    assert view.committed_end(10, 10, 1, 10 * LAG_MS, none_eligible) == 7


# --- proposals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "watermark", "start", "joins"), [(9, 10, 0, False), (10, 10, 11, False), (11, 10, 11, True)]
)
def test_joining_follower_has_reached_high_watermark_and_epoch_start(offset, watermark, start, joins) -> None:
    view = leading(isr=(1,), start=start)
    fetched(view, 2, offset, 20)
    assert (view.propose_growth(2, watermark, EPOCH, all_eligible) is not None) == joins


def test_proposal_has_the_broker_epochs_of_fetches() -> None:
    """Also the leader's own; unknown for a member without a fetch in this leader epoch."""
    view = leading(isr=(1, 2))
    assert view.fetched(3, 10, 10, 33, 0)
    proposal = view.propose_growth(3, 0, 11, all_eligible)
    assert proposal is not None
    assert proposal.isr == ((1, 11), (2, -1), (3, 33))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (4, 0)


def test_ineligible_follower_does_not_join() -> None:
    """Nor one without a fetch, nor a node that is not a replica."""
    view = leading(isr=(1,))
    fetched(view, 2, 10, 10)
    assert view.propose_growth(2, 0, EPOCH, none_eligible) is None
    assert view.propose_growth(3, 0, EPOCH, all_eligible) is None  # it has not fetched yet
    assert view.propose_growth(9, 0, EPOCH, all_eligible) is None


def test_one_proposal_at_a_time() -> None:
    """The next one waits for the decision."""
    view = leading(isr=(1,))
    fetched(view, 2, 10, 10)
    fetched(view, 3, 10, 10)
    assert view.propose_growth(2, 0, EPOCH, all_eligible) is not None
    assert view.propose_growth(3, 0, EPOCH, all_eligible) is None
    assert view.propose_shrink(20, 10 * LAG_MS, EPOCH) is None


def test_lagging_follower_leaves_the_isr() -> None:
    """A follower at the log end never lags."""
    view = leading()
    fetched(view, 2, 10, 10, now_ms=LAG_MS)
    fetched(view, 3, 5, 10, now_ms=LAG_MS)
    assert view.lagging(20, LAG_MS) == ()
    assert view.lagging(20, LAG_MS + 1) == (3,)
    assert view.lagging(20, 2 * LAG_MS + 1) == (2, 3)
    assert view.lagging(10, 2 * LAG_MS + 1) == (3,)  # at the log end no follower lags
    assert members(view.propose_shrink(20, 2 * LAG_MS + 1, EPOCH)) == (1,)


def test_uncleanly_elected_leader_proposes_its_isr_once() -> None:
    """It ends the leader recovery state."""
    view = leading(isr=(1,), leader_recovery_state=RECOVERING)
    assert members(view.propose_shrink(0, 0, EPOCH)) == (1,)
    assert view.decided((1,), 1, 0)
    assert view.propose_shrink(0, 0, EPOCH) is None


# --- decisions ------------------------------------------------------------------------------------------


def test_newer_decision_ends_the_proposal() -> None:
    """As a response or as metadata; an older one is ignored."""
    view = leading(isr=(1,))
    fetched(view, 2, 10, 10)
    view.propose_growth(2, 0, EPOCH, all_eligible)
    assert view.decided((1, 2), 1, 50)
    assert (view.committed, view.proposal, view.partition_epoch) == ((1, 2), None, 1)
    assert not view.decided((1,), 0, 60)
    assert not view.updated(registration(isr=(1,)), 60)
    assert view.committed == (1, 2)
    assert view.updated(registration(isr=(1, 2, 3), partition_epoch=2), 70)
    assert view.committed == (1, 2, 3)


def test_decision_with_unknown_replicas_waits_for_metadata() -> None:
    """Assigned replicas come by metadata alone."""
    view = leading(isr=(1,))
    assert not view.decided((1, 9), 5, 0)
    assert view.partition_epoch == 0


def test_lag_time_of_a_new_member_counts_from_its_joining() -> None:
    """The next check for lagging followers does not remove it."""
    view = leading(isr=(1,))
    fetched(view, 2, 10, 20)
    assert view.decided((1, 2), 1, 5_000)
    assert view.lagging(20, 5_000 + LAG_MS) == ()


def test_late_refusal_does_not_withdraw_the_next_proposal() -> None:
    """A refusal concerns its own proposal."""
    view = leading(isr=(1,))
    fetched(view, 2, 10, 10)
    first = view.propose_growth(2, 0, EPOCH, all_eligible)
    view.refused(first, 0)
    second = view.propose_growth(2, 0, EPOCH, all_eligible)
    assert second is not None
    view.refused(first, 0)
    assert view.proposal is second


def test_refused_follower_does_not_count_until_it_progresses() -> None:
    """Its disk may be full: it was caught up a moment ago and may never fetch more."""
    view = leading(isr=(1, 2))
    fetched(view, 2, 10, 10)
    fetched(view, 3, 10, 10)
    proposal = view.propose_growth(3, 10, EPOCH, all_eligible)
    assert proposal is not None
    fetched(view, 2, 12, 12)
    assert view.committed_end(12, 12, 1, 0, all_eligible) == 10
    view.refused(proposal, 50)
    assert view.committed_end(12, 12, 1, 0, all_eligible) == 12
    assert view.was_turned_away(3, 50 + REFUSAL_BACKOFF_MS - 1)
    assert not view.was_turned_away(3, 50 + REFUSAL_BACKOFF_MS)
    assert view.committed_end(12, 12, 1, 50 + REFUSAL_BACKOFF_MS, all_eligible) == 12
    fetched(view, 2, 14, 14)
    fetched(view, 3, 12, 14)
    assert view.committed_end(14, 14, 1, 0, all_eligible) == 12, (
        "the follower makes progress, so the leader waits for it again"
    )


def test_follower_removed_by_the_controller_does_not_count() -> None:
    """Its log dir failed: it was caught up until then and will not fetch again."""
    view = leading(isr=(1, 2, 3))
    for node in (2, 3):
        fetched(view, node, 10, 10)
    fetched(view, 2, 12, 12)
    assert view.committed_end(12, 12, 1, 0, all_eligible) == 10
    view.updated(registration(isr=(1, 2), partition_epoch=1), 0)
    assert view.committed_end(12, 12, 1, 0, all_eligible) == 12
    fetched(view, 3, 12, 12)
    assert view.propose_growth(3, 12, EPOCH, all_eligible) is not None


def test_reassignment_keeps_the_progress_of_remaining_replicas() -> None:
    """Replicas are added and removed by metadata."""
    view = leading(isr=(1, 2), replicas=(1, 2))
    fetched(view, 2, 10, 10)
    view.updated(registration((1, 2), (1, 2, 3), 1), 0)
    assert sorted(view.followers) == [2, 3]
    assert view.followers[2].end_offset == 10
    view.updated(registration((1,), (3, 1), 2), 0)
    assert sorted(view.followers) == [3]


class InSyncMachine(RuleBasedStateMachine):
    """A leader, three followers, and a controller that decides late, refuses, or does not respond."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms, self.end, self.watermark, self.min_isr = 0, 0, 0, 2
        self.isr: tuple[int, ...] = (1, 2, 3, 4)  # as the controller has decided
        self.partition_epoch = 0
        self.has = dict.fromkeys((2, 3, 4), 0)  # what the followers really have
        self.view = leading(isr=self.isr, replicas=(1, 2, 3, 4))
        self.barred: set[int] = set()

    def eligible(self, node_id: int, _epoch: int) -> bool:
        return node_id not in self.barred

    def advance(self) -> None:
        end = self.view.committed_end(self.end, self.end, self.min_isr, self.now_ms, self.eligible)
        self.watermark = max(self.watermark, end)

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.end += count
        self.advance()

    @rule(node=st.sampled_from((2, 3, 4)), share=st.floats(0, 1))
    def fetch(self, node: int, share: float) -> None:
        self.has[node] += int((self.end - self.has[node]) * share)
        fetched(self.view, node, self.has[node], self.end, self.now_ms)
        self.view.propose_growth(node, self.watermark, EPOCH, self.eligible)
        self.advance()

    @rule(milliseconds=st.integers(1, 2 * LAG_MS))
    def wait(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.view.propose_shrink(self.end, self.now_ms, EPOCH)

    @rule(node=st.sampled_from((2, 3, 4)))
    def bar(self, node: int) -> None:
        self.barred ^= {node}

    @precondition(lambda self: self.view.proposal is not None)
    @rule(is_notified=st.booleans())
    def decide(self, is_notified: bool) -> None:
        proposal = self.view.proposal
        if proposal.partition_epoch == self.partition_epoch:
            self.isr, self.partition_epoch = members(proposal), self.partition_epoch + 1
        if is_notified:
            self.receive_metadata()

    @precondition(lambda self: self.view.proposal is not None)
    @rule()
    def refuse(self) -> None:
        if self.view.proposal.partition_epoch == self.partition_epoch:
            self.view.refused(self.view.proposal, self.now_ms)
            self.advance()

    @rule()
    def receive_metadata(self) -> None:
        self.view.updated(registration(self.isr, (1, 2, 3, 4), self.partition_epoch), self.now_ms)
        self.advance()

    @rule(node=st.sampled_from((2, 3, 4)))
    def fence(self, node: int) -> None:
        """The controller takes a node out on its own."""
        if node in self.isr:
            self.isr = tuple(member for member in self.isr if member != node)
            self.partition_epoch += 1
            self.barred.add(node)

    @invariant()
    def each_isr_member_has_all_committed_records(self) -> None:
        for node in self.isr:
            assert node == ME or self.has[node] >= self.watermark

    @invariant()
    def laws(self) -> None:
        self.view.check()
        assert set(self.isr) <= set(self.view.maximal), "the maximal ISR holds the controller's"


InSyncMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestInSyncMachine = InSyncMachine.TestCase
