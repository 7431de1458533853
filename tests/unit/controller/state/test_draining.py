"""Drains: a drained node leads only where no other replica can, stays out of ISRs and keeps running."""

import pytest
from controller_kit import Driver
from headrace.controller.state.broker_states import BrokerState, state_of
from headrace.protocol.errors import BrokerIdNotRegisteredError
from headrace.protocol.messages import control


@pytest.fixture
def driver() -> Driver:
    """Three nodes; "t" with three partitions, each node leads one."""
    driver = Driver()
    driver.join(1, 2, 3)
    driver.place("t", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    return driver


def leaders(driver: Driver, topic: str = "t") -> list[int]:
    return [p.leader for p in driver.partitions(topic)]


def test_a_drained_node_leads_nothing_and_is_not_fenced(driver) -> None:
    """After the drain is ended it may join ISRs and be elected as preferred leader."""
    assert driver.ask(control.DrainNodeRequest(1)).leaders_left == 0
    assert leaders(driver) == [2, 2, 3]
    assert all(1 not in p.isr for p in driver.partitions("t"))
    answer = driver.heartbeat(1)
    assert (answer.is_fenced, answer.should_shutdown) == (False, False)
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == 107
    assert driver.ask(control.DrainNodeRequest(1, is_drained=False)).error_code == 0
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == 0
    assert driver.elect(0, "t", 0) == [0]


def test_a_drained_node_leads_where_no_other_replica_can(driver) -> None:
    """It is the only replica of "u"; the response counts the leadership. A repeated request changes
    nothing."""
    driver.place("u", (1,))
    for _ in range(2):
        before = driver.image
        assert driver.ask(control.DrainNodeRequest(1)).leaders_left == 1
        assert leaders(driver, "u") == [1]
    assert driver.image is before
    assert driver.heartbeat(1, want_shutdown=True).should_shutdown is False
    assert leaders(driver, "u") == [-1], "a node that shuts down leads nothing"


def test_a_drain_outlives_fencing(driver) -> None:
    """Unfenced again, the node is still drained and leads only where no other replica can."""
    driver.place("u", (1,))
    driver.ask(control.DrainNodeRequest(1))
    driver.heartbeat(1, want_fence=True)
    assert leaders(driver, "u") == [-1]
    assert state_of(driver.image, 1) is BrokerState.FENCED
    driver.heartbeat(1)
    assert state_of(driver.image, 1) is BrokerState.SHUTTING_DOWN
    assert leaders(driver, "u") == [1]
    assert leaders(driver) == [2, 2, 3]


def test_drains_of_a_fenced_and_of_an_unregistered_node(driver) -> None:
    """A fenced node is drained when it is unfenced; an unregistered one is refused."""
    driver.fence(1)
    assert driver.ask(control.DrainNodeRequest(1)).error_code == 0
    driver.heartbeat(1)
    assert state_of(driver.image, 1) is BrokerState.SHUTTING_DOWN
    assert driver.ask(control.DrainNodeRequest(9)).error_code == BrokerIdNotRegisteredError.code


def test_a_drained_leader_keeps_a_replica_with_a_failed_disk_eligible(driver) -> None:
    """2 is in sync, but its replica was reported offline before the partition was created: 1 leads alone, and
    2, which has every acknowledged record, is in the ELR."""
    driver.place("u", (2, 1))
    driver.heartbeat(2, offline_replicas=((driver.image.topics["u"].topic_id, 1),))
    driver.ask(
        control.CreatePartitionsRequest(
            (control.PartitionGrowth("u", 2, (control.ReplicaAssignment(1, (1, 2)),)),)
        )
    )
    driver.configure("u", min_insync_replicas="2")
    driver.ask(control.DrainNodeRequest(1))
    p = driver.partitions("u")[1]
    assert (p.leader, p.isr, p.elr) == (1, (1,), (2,))


def test_a_drain_warns_of_partitions_below_min_isr() -> None:
    """Three replicas, min.insync.replicas 2: the first drain leaves an ISR of two, the second of one. Topics
    with min.insync.replicas 1 and without a replica on the node are not named."""
    driver = Driver()
    driver.join(1, 2, 3, 4)
    driver.place("a", (1, 2, 3), (2, 3, 1), min_insync_replicas="2")
    driver.place("b", (1, 2, 3), min_insync_replicas="1")
    driver.place("c", (4,), min_insync_replicas="2")
    first = driver.ask(control.DrainNodeRequest(1))
    assert (first.below_min_isr, first.topics_below_min_isr) == (0, ())
    driver.core.notes.take()
    for _ in range(2):
        second = driver.ask(control.DrainNodeRequest(2))
        assert (second.below_min_isr, second.topics_below_min_isr) == (2, ("a",))
    drained, warning = driver.core.notes.take()
    assert drained.text.startswith("draining node 2 (broker epoch ")
    assert warning.is_warning
    assert "leaves 2 partitions below min.insync.replicas" in warning.text
    assert warning.text.endswith("for a")
    back = driver.ask(control.DrainNodeRequest(2, is_drained=False))
    assert (back.below_min_isr, back.topics_below_min_isr) == (0, ())
    assert driver.core.notes.take()[0].text.startswith("ending the drain of node 2 ")
