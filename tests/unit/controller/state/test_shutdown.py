"""Controlled shutdown and drain: leaders move first, the node ends only when the others know."""

from __future__ import annotations

import pytest
from controller_kit import Driver
from headrace.controller.state.broker_states import BrokerState, state_of
from headrace.protocol.errors import BrokerIdNotRegisteredError
from headrace.protocol.messages.control import (
    CreatePartitionsRequest,
    DrainNodeRequest,
    PartitionGrowth,
    ReplicaAssignment,
)

STOP = {"want_shutdown": True}


@pytest.fixture
def driver() -> Driver:
    """Three nodes; "t" with three partitions, each node leads one."""
    driver = Driver()
    driver.join(1, 2, 3)
    driver.place("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    return driver


def leaders(driver: Driver, topic: str = "t") -> list[int]:
    return [p.leader for p in driver.partitions(topic)]


def others_beat(driver: Driver, *node_ids: int) -> None:
    for node_id in node_ids:
        driver.beat(node_id)


def test_a_leader_ends_in_two_steps(driver) -> None:
    """First it hands over and leaves the ISRs; it may end once both others have seen that."""
    first = driver.beat(1, **STOP)
    assert (first.should_shutdown, first.is_fenced) == (False, False)
    assert state_of(driver.image, 1) is BrokerState.SHUTTING_DOWN
    assert leaders(driver) == [2, 2, 3]
    assert all(1 not in p.isr for p in driver.partitions("t"))
    others_beat(driver, 2)
    assert not driver.beat(1, **STOP).should_shutdown, "3 may still send clients to 1"
    others_beat(driver, 3)
    last = driver.beat(1, **STOP)
    assert (last.should_shutdown, last.is_fenced) == (True, True)
    assert state_of(driver.image, 1) is BrokerState.FENCED


def test_seeing_one_record_less_is_not_enough(driver) -> None:
    """The exact edge: the offset of the last record of the hand-over."""
    driver.beat(1, **STOP)
    needed = driver.image.offset
    driver.beat(2)
    driver.beat(3, metadata_offset=needed - 1)
    assert not driver.beat(1, **STOP).should_shutdown
    driver.beat(3, metadata_offset=needed)
    assert driver.beat(1, **STOP).should_shutdown


def test_later_news_does_not_prolong_it(driver) -> None:
    """Topics go on being created; what counts is the hand-over."""
    driver.beat(1, **STOP)
    seen = driver.image.offset
    driver.create("u")
    for node_id in (2, 3):
        driver.beat(node_id, metadata_offset=seen)
    assert driver.beat(1, **STOP).should_shutdown


def test_a_node_that_was_fenced_meanwhile_is_not_waited_for(driver) -> None:
    """3 died: nobody hears of it what it has seen."""
    driver.beat(1, **STOP)
    driver.fence(3)
    others_beat(driver, 2)
    assert driver.beat(1, **STOP).should_shutdown


def test_a_node_that_leads_nothing_ends_at_once(driver) -> None:
    """It leaves the ISRs in the same step."""
    driver.join(4)
    driver.place("u", (1, 4))
    assert driver.beat(4, **STOP).should_shutdown
    assert driver.partitions("u")[0].isr == (1,)


def test_the_last_active_node_ends_at_once() -> None:
    """Nobody is left who could take over or would have to know."""
    driver = Driver()
    driver.join(1)
    driver.create("t")
    assert driver.beat(1, **STOP).should_shutdown
    assert leaders(driver) == [-1]
    assert driver.partitions("t")[0].elr == (1,)


def test_what_nobody_else_may_lead_waits_leaderless(driver) -> None:
    """The only replica in sync shuts down: no guess; it is eligible when it is back. Whoever is eligible
    leads."""
    driver.place("u", (1, 2), min_insync_replicas="2")
    driver.place("v", (1, 2), min_insync_replicas="1")
    for name in ("u", "v"):
        assert driver.alter_partition(name, 0, (1,)).error_code == 0
    driver.beat(1, **STOP)
    u, v = driver.partitions("u")[0], driver.partitions("v")[0]
    assert (u.leader, u.isr, u.elr) == (2, (2,), (1,)), "2 left below min ISR and has everything"
    assert (v.leader, v.isr, v.elr, v.last_known_elr) == (-1, (), (1,), (1,))


def test_nothing_new_is_placed_on_a_node_that_shuts_down(driver) -> None:
    """Neither by itself nor by name alone; three replicas do not fit two nodes."""
    driver.beat(1, **STOP)
    for name in ("u", "v", "w"):
        assert driver.create(name, num_partitions=2, replication_factor=2).error_code == 0
        assert all(1 not in p.replicas for p in driver.partitions(name))
    assert driver.create("x", replication_factor=3).error_code == 38
    assert driver.create("y", assignments=(ReplicaAssignment(0, (1,)),)).error_code == 39


def test_a_restarted_controller_asks_again_what_the_others_know(driver) -> None:
    """It has forgotten the offset, so it takes the newest one."""
    driver.beat(1, **STOP)
    others_beat(driver, 2, 3)
    driver.restart()
    assert not driver.beat(1, **STOP).should_shutdown
    others_beat(driver, 2)
    assert not driver.beat(1, **STOP).should_shutdown
    others_beat(driver, 3)
    assert driver.beat(1, **STOP).should_shutdown


def test_the_next_process_is_no_more_shutting_down(driver) -> None:
    """And it ended in order, so it did not lose anything."""
    epoch = driver.image.brokers[1].broker_epoch
    driver.beat(1, **STOP)
    others_beat(driver, 2, 3)
    driver.beat(1, **STOP)
    assert driver.register(1, 11, previous_broker_epoch=epoch).error_code == 0
    assert not driver.beat(1).is_fenced
    assert state_of(driver.image, 1) is BrokerState.ACTIVE


def test_an_amended_registration_goes_on_shutting_down(driver) -> None:
    """The same process registers again, with another port."""
    driver.beat(1, **STOP)
    driver.register(1, 1, port=9_999)
    assert state_of(driver.image, 1) is BrokerState.SHUTTING_DOWN


def test_fencing_and_shutdown_at_once(driver) -> None:
    """A node whose disks all failed does not wait for anybody."""
    answer = driver.beat(1, want_fence=True, want_shutdown=True)
    assert (answer.should_shutdown, answer.is_fenced) == (True, True)
    assert leaders(driver) == [2, 2, 3]


# --- drain ----------------------------------------------------------------------------------------------


def test_a_drained_node_leads_nothing_and_goes_on(driver) -> None:
    """Out of ISRs and leadership, not fenced; taken back it may join again, and preferred leaders return."""
    assert driver.ask(DrainNodeRequest(1)).leaders_left == 0
    assert leaders(driver) == [2, 2, 3]
    assert all(1 not in p.isr for p in driver.partitions("t"))
    answer = driver.beat(1)
    assert (answer.is_fenced, answer.should_shutdown) == (False, False)
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == 107
    assert driver.ask(DrainNodeRequest(1, is_drained=False)).error_code == 0
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == 0
    assert driver.elect(0, "t", 0) == [0]


def test_a_drained_node_keeps_what_nobody_else_may_lead(driver) -> None:
    """The only replica of "u": it leads on, and says so. Asking again is safe."""
    driver.place("u", (1,))
    for _ in range(2):
        before = driver.image
        assert driver.ask(DrainNodeRequest(1)).leaders_left == 1
        assert leaders(driver, "u") == [1]
    assert driver.image is before
    assert driver.beat(1, **STOP).should_shutdown is False
    assert leaders(driver, "u") == [-1], "at its end it leads nothing"


def test_a_drain_outlives_a_blip(driver) -> None:
    """The node was fenced for a moment: it is still drained, and again leads only what nobody else may."""
    driver.place("u", (1,))
    driver.ask(DrainNodeRequest(1))
    driver.beat(1, want_fence=True)
    assert leaders(driver, "u") == [-1]
    assert state_of(driver.image, 1) is BrokerState.FENCED
    driver.beat(1)
    assert state_of(driver.image, 1) is BrokerState.SHUTTING_DOWN
    assert leaders(driver, "u") == [1]
    assert leaders(driver) == [2, 2, 3]


def test_draining_a_fenced_or_unknown_node(driver) -> None:
    """A fenced one is drained when it comes; an unknown one is refused."""
    driver.fence(1)
    assert driver.ask(DrainNodeRequest(1)).error_code == 0
    driver.beat(1)
    assert state_of(driver.image, 1) is BrokerState.SHUTTING_DOWN
    assert driver.ask(DrainNodeRequest(9)).error_code == BrokerIdNotRegisteredError.code


def test_a_drained_leader_forgets_nobody_whose_disk_is_broken(driver) -> None:
    """2 is in sync, but was reported without its disk before the partition came to it: 1 leads on alone, and
    2, which has every acknowledged record, stays eligible."""
    driver.place("u", (2, 1))
    driver.beat(2, offline_replicas=((driver.image.topics["u"].topic_id, 1),))
    driver.ask(CreatePartitionsRequest((PartitionGrowth("u", 2, (ReplicaAssignment(1, (1, 2)),)),)))
    driver.configure("u", min_insync_replicas="2")
    driver.ask(DrainNodeRequest(1))
    p = driver.partitions("u")[1]
    assert (p.leader, p.isr, p.elr) == (1, (1,), (2,))


def test_a_drain_that_stops_acks_all_says_so() -> None:
    """Three replicas, min.insync.replicas 2: the first drain leaves two in sync, the second one. A topic that
    needs one replica only, and one without a replica on the node, are not named."""
    driver = Driver()
    driver.join(1, 2, 3, 4)
    driver.place("a", (1, 2, 3), (2, 3, 1), min_insync_replicas="2")
    driver.place("b", (1, 2, 3), min_insync_replicas="1")
    driver.place("c", (4,), min_insync_replicas="2")
    first = driver.ask(DrainNodeRequest(1))
    assert (first.below_min_isr, first.topics_below_min_isr) == (0, ())
    driver.core.notes.take()
    for _ in range(2):
        second = driver.ask(DrainNodeRequest(2))
        assert (second.below_min_isr, second.topics_below_min_isr) == (2, ("a",))
    drained, warning = driver.core.notes.take()
    assert drained.text.startswith("draining node 2 (broker epoch ")
    assert warning.is_warning
    assert "leaves 2 partitions below min.insync.replicas" in warning.text
    assert warning.text.endswith("for a")
    back = driver.ask(DrainNodeRequest(2, is_drained=False))
    assert (back.below_min_isr, back.topics_below_min_isr) == (0, ())
    assert driver.core.notes.take()[0].text.startswith("ending the drain of node 2 ")
