"""Death notices of processes: right, late, wrong and repeated."""

import pytest
from controller_kit import Driver, incarnation
from headrace.controller.state.broker_states import BrokerState, state_of
from headrace.protocol.errors import DuplicateBrokerRegistrationError
from headrace.protocol.messages.control import ReplicaAssignment

HOUR_MS = 3_600_000


@pytest.fixture
def driver() -> Driver:
    """Three nodes, one partition on all of them led by node 1, and sessions of an hour."""
    driver = Driver(**{"broker.session.timeout.ms": HOUR_MS})
    driver.join(1, 2, 3)
    driver.create("t", assignments=(ReplicaAssignment(0, (1, 2, 3)),))
    return driver


def notice(driver: Driver, *processes: int) -> None:
    driver.core.note_ended({incarnation(number) for number in processes})
    while records := driver.core.decide_expiry(driver.now_ms):
        driver.take(records)


def test_a_notice_fences_the_node_at_once(driver: Driver) -> None:
    """Without waiting; other nodes are not affected."""
    assert driver.partitions("t")[0].leader == 1
    notice(driver, 1)
    assert state_of(driver.image, 1) is BrokerState.FENCED
    assert driver.partitions("t")[0].leader in (2, 3)
    assert driver.partitions("t")[0].isr == (2, 3)
    assert {state_of(driver.image, node) for node in (2, 3)} == {BrokerState.ACTIVE}


def test_the_next_process_registers_at_once(driver: Driver) -> None:
    """Without the notice it would be refused for an hour."""
    assert driver.register(1, process=11).error_code == DuplicateBrokerRegistrationError.code
    notice(driver, 1)
    before = driver.image.brokers[1].broker_epoch
    driver.join(1, process=11)
    assert driver.image.brokers[1].broker_epoch > before


def test_a_late_notice_does_not_affect_the_next_process(driver: Driver) -> None:
    """The node has registered again meanwhile."""
    notice(driver, 1)
    driver.join(1, process=11)
    count = len(driver.records)
    notice(driver, 1)
    notice(driver, 99)
    assert len(driver.records) == count
    assert state_of(driver.image, 1) is BrokerState.ACTIVE


def test_a_wrong_notice_heals_with_the_next_heartbeat(driver: Driver) -> None:
    """Ray took a living process for dead: it is fenced, and unfenced by its next heartbeat under the same
    epoch."""
    epoch = driver.image.brokers[1].broker_epoch
    notice(driver, 1)
    assert not driver.heartbeat(1).is_fenced
    assert state_of(driver.image, 1) is BrokerState.ACTIVE
    assert driver.image.brokers[1].broker_epoch == epoch


def test_a_repeated_notice_changes_nothing(driver: Driver) -> None:
    """The node is fenced already."""
    notice(driver, 1)
    count = len(driver.records)
    notice(driver, 1)
    assert len(driver.records) == count


def test_a_heartbeat_after_the_notice_counts(driver: Driver) -> None:
    """Between the notice and the check of the sessions: the process is alive."""
    driver.core.note_ended({incarnation(1)})
    driver.heartbeat(1)
    assert driver.core.decide_expiry(driver.now_ms) == ()
