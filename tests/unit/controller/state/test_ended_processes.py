"""The second source: a host says that a process has ended. Right, late, wrong and repeated notices."""

from __future__ import annotations

from controller_kit import Driver, incarnation
from headrace.controller.state.broker_states import BrokerState, state_of
from headrace.protocol.errors import DuplicateBrokerRegistrationError
from headrace.protocol.messages.control import ReplicaAssignment

HOUR_MS = 3_600_000


def driver_of_three() -> Driver:
    """Three nodes, one partition on all of them that node 1 leads, and sessions that last for an hour."""
    driver = Driver(**{"broker.session.timeout.ms": HOUR_MS})
    driver.join(1, 2, 3)
    driver.create("t", assignments=(ReplicaAssignment(0, (1, 2, 3)),))
    return driver


def notice(driver: Driver, *processes: int) -> None:
    driver.core.note_ended({incarnation(number) for number in processes})
    while records := driver.core.decide_expiry(driver.now_ms):
        driver.take(records)


def test_its_partitions_are_led_by_others_at_once() -> None:
    """No time passes; the others are left alone."""
    driver = driver_of_three()
    assert driver.partitions("t")[0].leader == 1
    notice(driver, 1)
    assert state_of(driver.image, 1) is BrokerState.FENCED
    assert driver.partitions("t")[0].leader in (2, 3)
    assert driver.partitions("t")[0].isr == (2, 3)
    assert {state_of(driver.image, node) for node in (2, 3)} == {BrokerState.ACTIVE}


def test_the_next_process_need_not_wait_for_the_session() -> None:
    """Without the notice it would be refused for an hour."""
    driver = driver_of_three()
    assert driver.register(1, process=11).error_code == DuplicateBrokerRegistrationError.code
    notice(driver, 1)
    before = driver.image.brokers[1].broker_epoch
    driver.join(1, process=11)
    assert driver.image.brokers[1].broker_epoch > before


def test_a_late_notice_means_the_process_before_only() -> None:
    """The node has registered anew meanwhile: its new process is not fenced for the end of the old one."""
    driver = driver_of_three()
    notice(driver, 1)
    driver.join(1, process=11)
    count = len(driver.records)
    notice(driver, 1)
    notice(driver, 99)
    assert len(driver.records) == count
    assert state_of(driver.image, 1) is BrokerState.ACTIVE


def test_a_wrong_notice_heals_with_the_next_heartbeat() -> None:
    """Ray took a living process for dead: it is fenced, and back with its next word, under the same epoch."""
    driver = driver_of_three()
    epoch = driver.image.brokers[1].broker_epoch
    notice(driver, 1)
    assert not driver.heartbeat(1).is_fenced
    assert state_of(driver.image, 1) is BrokerState.ACTIVE
    assert driver.image.brokers[1].broker_epoch == epoch


def test_a_repeated_notice_changes_nothing() -> None:
    """Of a node that is fenced already."""
    driver = driver_of_three()
    notice(driver, 1)
    count = len(driver.records)
    notice(driver, 1)
    assert len(driver.records) == count


def test_what_was_heard_after_the_notice_counts() -> None:
    """A word between the notice and the look at the sessions: the process lives."""
    driver = driver_of_three()
    driver.core.note_ended({incarnation(1)})
    driver.heartbeat(1)
    assert driver.core.decide_expiry(driver.now_ms) == ()
