"""Election strategies, over the ballots in which they differ."""

import pytest
from headrace.controller.state.elections import NO_LEADER, STRATEGIES, Ballot, Elected

CLEAN = {"offline", "preferred", "reassignment", "controlled-shutdown", "unclean"}
DRAIN = {"drain"}


def ballot(isr, candidates, leader=-1, elr=(), last=-1, replicas=(1, 2, 3)) -> Ballot:
    return Ballot(replicas, isr, elr, leader, frozenset(candidates), last)


def elected(name, *args, **facts) -> Elected:
    return STRATEGIES[name](ballot(*args, **facts))


@pytest.mark.parametrize("name", sorted(CLEAN | DRAIN))
def test_the_first_of_the_isr_in_the_order_of_the_replicas(name) -> None:
    """Leader 1 is fenced: 3 comes before 2 in the assignment and leads, though 2 is the smaller id."""
    assert elected(name, (2, 3), {2, 3}, leader=1, replicas=(1, 3, 2)) == Elected(3, is_clean=True)


@pytest.mark.parametrize("name", sorted((CLEAN | DRAIN) - {"preferred"}))
def test_an_active_leader_stays(name) -> None:
    """Node 2 leads; that 1 is preferred is no reason."""
    assert elected(name, (1, 2), {1, 2}, leader=2) == Elected(2, is_clean=True)


def test_the_preferred_leader_is_elected_if_it_is_in_sync() -> None:
    """Otherwise the leader stays, or another one is elected."""
    assert elected("preferred", (1, 2), {1, 2}, leader=2).leader == 1
    assert elected("preferred", (2,), {1, 2}, leader=2).leader == 2
    assert elected("preferred", (1, 2), {2}, leader=2).leader == 2
    assert elected("preferred", (2, 3), {2, 3}, leader=-1).leader == 2


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_the_elr_leads_only_while_the_isr_is_empty(name) -> None:
    """2 is eligible but not in the ISR."""
    assert elected(name, (), {2, 3}, elr=(2,)) == Elected(2, is_clean=True)
    assert elected(name, (3,), {2, 3}, elr=(2,)).leader == 3


@pytest.mark.parametrize("name", sorted(CLEAN - {"unclean"}))
def test_no_replica_is_elected_that_may_lack_records(name) -> None:
    """2 and 3 are active, but the ISR is 1, which is fenced: no leader, not even the last known one."""
    assert elected(name, (1,), {2, 3}) == NO_LEADER
    assert elected(name, (1,), {2, 3}, last=2) == NO_LEADER
    assert elected(name, (), {2, 3}, elr=(1,), last=2) == NO_LEADER


@pytest.mark.parametrize(("name", "leader"), [("offline", 2), ("preferred", 2), ("controlled-shutdown", -1)])
def test_the_last_known_leader_is_elected_with_isr_and_elr_empty(name, leader) -> None:
    """Except in a controlled shutdown."""
    assert elected(name, (), {2, 3}, last=2).leader == leader
    assert elected(name, (), {3}, last=2) == NO_LEADER, "the last leader is no candidate"


def test_electing_the_last_known_leader_is_unclean() -> None:
    """It may have lost records."""
    assert not elected("offline", (), {2, 3}, last=2).is_clean


def test_unclean_elects_any_candidate_as_a_last_resort() -> None:
    """In the order of the replicas; while `offline` finds a leader, the election is clean."""
    assert elected("unclean", (1,), {2, 3}) == Elected(2, is_clean=False)
    assert elected("unclean", (1,), {2, 3}, replicas=(1, 3, 2)) == Elected(3, is_clean=False)
    assert elected("unclean", (3,), {2, 3}) == Elected(3, is_clean=True)
    assert elected("unclean", (1,), {4}) == NO_LEADER, "no replica is a candidate"


def test_a_reassigned_partition_is_led_by_one_of_its_replicas() -> None:
    """The leader was removed from the replicas, although it is still in the ISR."""
    assert elected("reassignment", (2, 4), {2, 4}, leader=4) == Elected(2, is_clean=True)
    assert elected("reassignment", (2, 3), {2, 3}, leader=3) == Elected(3, is_clean=True)


def test_a_drained_leader_stays_without_a_successor() -> None:
    """Node 1 is drained: 2 is elected if it is in sync, else 1 stays."""
    assert elected("drain", (2,), {2, 3}, leader=1).leader == 2
    assert elected("drain", (1,), {2, 3}, leader=1) == Elected(1, is_clean=True)


def test_a_chosen_replica_is_elected_or_none() -> None:
    """Not the first of the replicas but the chosen one, clean only if it is in sync; else none."""
    choose = STRATEGIES["unclean-chosen"]
    assert choose(ballot((1,), {2, 3})._replace(chosen=3)) == Elected(3, is_clean=False)
    assert choose(ballot((3,), {2, 3})._replace(chosen=3)) == Elected(3, is_clean=True)
    assert choose(ballot((1,), {2})._replace(chosen=3)) == NO_LEADER, "it is not active"
    assert choose(ballot((1,), {2, 4})._replace(chosen=4)) == NO_LEADER, "it has no replica"
