"""Who leads: every strategy over the ballots that tell it from the others."""

from __future__ import annotations

import pytest
from headrace.controller.state.elections import NOBODY, STRATEGIES, Ballot, Elected

CLEAN = {"offline", "preferred", "reassignment", "controlled-shutdown", "unclean"}
DRAIN = {"drain"}


def ballot(isr, candidates, leader=-1, elr=(), last=-1, replicas=(1, 2, 3)) -> Ballot:
    return Ballot(replicas, isr, elr, leader, frozenset(candidates), last)


def elected(name, *args, **facts) -> Elected:
    return STRATEGIES[name](ballot(*args, **facts))


@pytest.mark.parametrize("name", sorted(CLEAN | DRAIN))
def test_the_first_of_the_isr_in_the_order_of_the_replicas(name) -> None:
    """The leader 1 is gone: 3 comes before 2 in the assignment, so 3 leads, though 2 is the smaller id."""
    assert elected(name, (2, 3), {2, 3}, leader=1, replicas=(1, 3, 2)) == Elected(3, is_clean=True)


@pytest.mark.parametrize("name", sorted((CLEAN | DRAIN) - {"preferred"}))
def test_a_good_leader_stays(name) -> None:
    """Node 2 leads and may; that 1 is preferred is no reason."""
    assert elected(name, (1, 2), {1, 2}, leader=2) == Elected(2, is_clean=True)


def test_the_preferred_leader_comes_back() -> None:
    """Only if it is in sync and active; else the leader stays, or another is found."""
    assert elected("preferred", (1, 2), {1, 2}, leader=2).leader == 1
    assert elected("preferred", (2,), {1, 2}, leader=2).leader == 2
    assert elected("preferred", (1, 2), {2}, leader=2).leader == 2
    assert elected("preferred", (2, 3), {2, 3}, leader=-1).leader == 2


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_the_elr_only_while_the_isr_is_empty(name) -> None:
    """2 is eligible but away from the ISR: it leads only once nobody is in sync."""
    assert elected(name, (), {2, 3}, elr=(2,)) == Elected(2, is_clean=True)
    assert elected(name, (3,), {2, 3}, elr=(2,)).leader == 3


@pytest.mark.parametrize("name", sorted(CLEAN - {"unclean"}))
def test_nobody_who_may_miss_records(name) -> None:
    """2 and 3 are active, but the ISR is 1, who is away: nobody leads, also not the last leader, while there
    is an ISR or an ELR to wait for."""
    assert elected(name, (1,), {2, 3}) == NOBODY
    assert elected(name, (1,), {2, 3}, last=2) == NOBODY
    assert elected(name, (), {2, 3}, elr=(1,), last=2) == NOBODY


@pytest.mark.parametrize(("name", "leader"), [("offline", 2), ("preferred", 2), ("controlled-shutdown", -1)])
def test_the_last_leader_when_nothing_else_is_left(name, leader) -> None:
    """ISR and ELR are empty. A shutdown never guesses."""
    assert elected(name, (), {2, 3}, last=2).leader == leader
    assert elected(name, (), {3}, last=2) == NOBODY, "the last leader is away"


def test_the_last_leader_is_an_unclean_choice() -> None:
    """It may have lost records, and so says the election."""
    assert not elected("offline", (), {2, 3}, last=2).is_clean


def test_unclean_takes_whoever_is_there_but_only_then() -> None:
    """In order of the replicas; and it is as clean as `offline` while that finds somebody."""
    assert elected("unclean", (1,), {2, 3}) == Elected(2, is_clean=False)
    assert elected("unclean", (1,), {2, 3}, replicas=(1, 3, 2)) == Elected(3, is_clean=False)
    assert elected("unclean", (3,), {2, 3}) == Elected(3, is_clean=True)
    assert elected("unclean", (1,), {4}) == NOBODY, "no replica is there"


def test_a_reassigned_partition_is_not_led_by_a_node_that_holds_none() -> None:
    """The leader was removed from the replicas; it does not matter that it still is in the ISR."""
    assert elected("reassignment", (2, 4), {2, 4}, leader=4) == Elected(2, is_clean=True)
    assert elected("reassignment", (2, 3), {2, 3}, leader=3) == Elected(3, is_clean=True)


def test_a_drained_node_keeps_what_nobody_else_may_lead() -> None:
    """Node 1 is drained: 2 takes over if it is in sync, else 1 goes on."""
    assert elected("drain", (2,), {2, 3}, leader=1).leader == 2
    assert elected("drain", (1,), {2, 3}, leader=1) == Elected(1, is_clean=True)
