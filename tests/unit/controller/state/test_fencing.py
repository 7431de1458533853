"""Expiry of sessions: which nodes are fenced, when, and what happens to their partitions."""

from controller_kit import Driver
from headrace.controller.state.broker_states import BrokerState, state_of

SESSION_MS = 1500


def test_a_node_without_heartbeats_is_fenced_when_its_session_expires(driver: Driver) -> None:
    """The partitions that it led have no leader until its next heartbeat."""
    driver.join(1, 2)
    driver.create("t", num_partitions=4)
    for _ in range(4):
        driver.wait(400)
        driver.heartbeat(2)
    assert state_of(driver.image, 1) is BrokerState.FENCED
    assert state_of(driver.image, 2) is BrokerState.ACTIVE
    assert driver.core.timed_out_nodes == 1
    assert sorted(p.leader for p in driver.partitions("t")) == [-1, -1, 2, 2]
    assert all(len(p.isr + p.elr) == 1 for p in driver.partitions("t")), "the only replica stays eligible"
    driver.heartbeat(1)
    assert sorted(p.leader for p in driver.partitions("t")) == [1, 1, 2, 2]
    assert max(p.leader_epoch for p in driver.partitions("t")) == 2


def test_a_new_controller_starts_a_session_for_each_active_node(driver: Driver) -> None:
    """It has received no heartbeat, and fences only nodes that send none from then on."""
    driver.join(1, 2)
    driver.now_ms += 60_000
    driver.restart()
    driver.wait(SESSION_MS - 10)
    assert state_of(driver.image, 1) is BrokerState.ACTIVE
    driver.heartbeat(2)
    driver.wait(10)
    assert state_of(driver.image, 1) is BrokerState.FENCED
    assert state_of(driver.image, 2) is BrokerState.ACTIVE


def test_a_stalled_controller_extends_the_sessions(driver: Driver) -> None:
    """It was stopped for a minute and received no heartbeat, so that no session expires at once."""
    driver.join(1)
    driver.now_ms += 60_000
    driver.core.tick(driver.now_ms)
    assert not driver.core.decide_expiry(driver.now_ms)
    driver.wait(SESSION_MS)
    assert state_of(driver.image, 1) is BrokerState.FENCED
