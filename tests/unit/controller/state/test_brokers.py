"""Registration, heartbeats, fencing and removal, step by step on a clock that the test moves."""

from __future__ import annotations

import pytest
from controller_kit import Driver, incarnation
from headrace.controller.state.broker_states import (
    TRANSITIONS,
    BrokerEvent,
    BrokerState,
    next_state,
    state_of,
)
from headrace.protocol.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    StaleBrokerEpochError,
)
from headrace.protocol.messages.control import BrokerHeartbeatRequest, UnregisterBrokerRequest

SESSION_MS = 1500


def test_a_new_node_is_fenced_until_it_has_caught_up() -> None:
    """It may not lead before it has applied its own registration."""
    driver = Driver()
    answer = driver.register(1)
    assert answer.broker_epoch == driver.image.offset
    assert answer.cluster_id == "cluster-1"
    assert (answer.heartbeat_interval_ms, answer.session_timeout_ms) == (300, SESSION_MS)
    assert driver.beat(1, metadata_offset=answer.broker_epoch - 1).is_fenced
    assert state_of(driver.image, 1) is BrokerState.FENCED
    assert not driver.beat(1, metadata_offset=answer.broker_epoch).is_fenced
    assert state_of(driver.image, 1) is BrokerState.ACTIVE


def test_a_repeated_registration_changes_nothing() -> None:
    """The answer was lost and the node asks again: same epoch, no record."""
    driver = Driver()
    first = driver.register(1)
    count = len(driver.records)
    assert driver.register(1) == first
    assert len(driver.records) == count


def test_the_same_process_may_amend_its_endpoint() -> None:
    """It moved to another port: the epoch and the fencing stay."""
    driver = Driver()
    driver.join(1)
    epoch = driver.image.brokers[1].broker_epoch
    assert driver.register(1, port=9999).broker_epoch == epoch
    broker = driver.image.brokers[1]
    assert (broker.port, broker.is_fenced, broker.broker_epoch) == (9999, False, epoch)


def test_a_second_process_waits_until_the_first_is_silent() -> None:
    """Two processes claim one id: the later one gets in only when the session of the first has run out, and
    the first one's epoch is stale then."""
    driver = Driver()
    driver.join(1)
    driver.create("t")
    old = driver.image.brokers[1].broker_epoch
    assert driver.register(1, process=2).error_code == DuplicateBrokerRegistrationError.code
    driver.now_ms += SESSION_MS - 1
    assert driver.register(1, process=2).error_code == DuplicateBrokerRegistrationError.code
    driver.now_ms += 1  # not even fenced by the timer yet: the registration does it
    assert driver.register(1, process=2).error_code == 0
    assert driver.partitions("t")[0].leader == -1
    assert driver.beat(1, broker_epoch=old).error_code == StaleBrokerEpochError.code
    assert not driver.beat(1).is_fenced
    assert driver.partitions("t")[0].leader == 1


def test_a_fenced_node_that_still_beats_keeps_its_id() -> None:
    """A live process that is catching up is not replaced by another one."""
    driver = Driver()
    driver.register(1)
    driver.now_ms += 1000
    driver.beat(1, metadata_offset=-1)
    driver.now_ms += 1000
    assert driver.register(1, process=2).error_code == DuplicateBrokerRegistrationError.code


def test_generated_ids_start_above_the_reserved_ones_and_survive_a_lost_answer() -> None:
    """Two nodes without an id, one of which asks twice."""
    driver = Driver()
    assert driver.register(-1, process=7).node_id == 1001
    assert driver.register(-1, process=8).node_id == 1002
    assert driver.register(-1, process=7).node_id == 1001
    driver.restart()
    assert driver.register(-1, process=9).node_id == 1003
    assert driver.register(1002, process=8).error_code == 0, "it knows its id by now"


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"node_id": 1001}, InvalidRequestError),  # above the reserved ids, and never generated
        ({"node_id": 2**31}, InvalidRequestError),
        ({"node_id": -2}, InvalidRequestError),
        ({"cluster_id": "another"}, InconsistentClusterIdError),
        ({"incarnation_id": b"short"}, InvalidRequestError),
        ({"log_dir_ids": (b"short",)}, InvalidRequestError),
        ({"log_dir_ids": (bytes(16),) * 101}, InvalidRequestError),
        ({"host": ""}, InvalidRequestError),
        ({"host": "h" * 256}, InvalidRequestError),
        ({"port": 0}, InvalidRequestError),
        ({"port": 65_536}, InvalidRequestError),
        ({"rack": "r" * 256}, InvalidRequestError),
    ],
)
def test_bad_registrations_are_refused(facts, error) -> None:
    """Each has one wrong fact; nothing is recorded."""
    driver = Driver()
    before = driver.image
    assert driver.register(**({"node_id": 1, "process": 1} | facts)).error_code == error.code
    assert driver.image is before


def test_nobody_loses_more_replicas_than_the_cluster_has() -> None:
    """A list without end costs nothing."""
    driver = Driver(**{"max.partitions": 2})
    lost = tuple(("t", number) for number in range(3))
    assert driver.register(1, lost_replicas=lost).error_code == InvalidRequestError.code
    assert driver.register(1, lost_replicas=lost[:2]).error_code == 0


def test_the_number_of_nodes_is_bounded() -> None:
    """Somebody registers new ids without end."""
    driver = Driver(**{"max.storage.nodes": 2})
    driver.register(1)
    driver.register(2)
    assert driver.register(3).error_code == InvalidRequestError.code
    assert driver.register(2, port=1).error_code == 0, "a known one may still come"


def test_a_silent_node_is_fenced_when_its_session_runs_out() -> None:
    """Two nodes, one falls silent; what it led has no leader until it is heard again."""
    driver = Driver()
    driver.join(1, 2)
    driver.create("t", num_partitions=4)
    for _ in range(4):
        driver.wait(400)
        driver.beat(2)
    assert state_of(driver.image, 1) is BrokerState.FENCED
    assert state_of(driver.image, 2) is BrokerState.ACTIVE
    assert sorted(p.leader for p in driver.partitions("t")) == [-1, -1, 2, 2]
    assert all(len(p.isr + p.elr) == 1 for p in driver.partitions("t")), "the only replica stays eligible"
    driver.beat(1)
    assert sorted(p.leader for p in driver.partitions("t")) == [1, 1, 2, 2]
    assert max(p.leader_epoch for p in driver.partitions("t")) == 2


def test_a_restarted_controller_gives_everybody_a_session() -> None:
    """It heard nobody yet, and fences only those who stay silent from now on."""
    driver = Driver()
    driver.join(1, 2)
    driver.now_ms += 60_000
    driver.restart()
    driver.wait(SESSION_MS - 10)
    assert state_of(driver.image, 1) is BrokerState.ACTIVE
    driver.beat(2)
    driver.wait(10)
    assert state_of(driver.image, 1) is BrokerState.FENCED
    assert state_of(driver.image, 2) is BrokerState.ACTIVE


def test_a_controller_that_stood_still_fences_nobody_on_waking() -> None:
    """It was stopped for a minute: no node could be heard, so nobody is blamed at once."""
    driver = Driver()
    driver.join(1)
    driver.now_ms += 60_000
    driver.core.tick(driver.now_ms)
    assert not driver.core.decide_expiry(driver.now_ms)
    driver.wait(SESSION_MS)
    assert state_of(driver.image, 1) is BrokerState.FENCED


def test_controlled_shutdown() -> None:
    """The node asks to leave: fenced and told to go on in one step, also when it asks again; its next process
    need not wait."""
    driver = Driver()
    driver.join(1)
    driver.create("t")
    answer = driver.beat(1, want_shutdown=True)
    assert answer.should_shutdown
    assert answer.is_fenced
    assert driver.partitions("t")[0].leader == -1
    count = len(driver.records)
    assert driver.beat(1, want_shutdown=True).should_shutdown
    assert len(driver.records) == count
    assert driver.register(1, process=2).error_code == 0


def test_a_node_may_ask_to_be_fenced() -> None:
    """It lost its disk, say, and leads nothing until it stops asking."""
    driver = Driver()
    driver.join(1)
    assert driver.beat(1, want_fence=True).is_fenced
    assert driver.beat(1, want_fence=True).is_fenced
    assert not driver.beat(1).is_fenced


def test_heartbeats_of_strangers() -> None:
    """Never registered, an old epoch, or more metadata than the controller has."""
    driver = Driver()
    driver.register(1)
    unknown = driver.ask(BrokerHeartbeatRequest(9, 1, 0))
    assert unknown.error_code == BrokerIdNotRegisteredError.code
    assert driver.beat(1, broker_epoch=0).error_code == StaleBrokerEpochError.code
    ahead = driver.beat(1, metadata_offset=driver.image.offset + 1)
    assert ahead.error_code == OffsetOutOfRangeError.code
    assert "lost" in ahead.error_detail


def test_unregistration() -> None:
    """Refused while the node is active or holds replicas; then it is gone, and its epoch with it."""
    driver = Driver()
    driver.join(1, 2)
    driver.create("t", num_partitions=2)

    def leave(node_id):
        return driver.ask(UnregisterBrokerRequest(node_id)).error_code

    assert leave(1) == InvalidRequestError.code
    driver.wait(SESSION_MS)
    assert leave(1) == InvalidRequestError.code, "it holds a partition"
    driver.join(3)
    driver.wait(SESSION_MS)
    assert leave(3) == 0
    assert leave(3) == BrokerIdNotRegisteredError.code
    assert driver.ask(BrokerHeartbeatRequest(3, 0, 0)).error_code == BrokerIdNotRegisteredError.code


def test_the_table_of_states_allows_nothing_else() -> None:
    """Every pair that the table leaves out is a bug and asserts."""
    for state in BrokerState:
        for event in BrokerEvent:
            if event in TRANSITIONS[state]:
                assert next_state(state, event) is TRANSITIONS[state][event]
            else:
                with pytest.raises(AssertionError):
                    next_state(state, event)


def test_incarnations_are_told_apart() -> None:
    """The kit's own helper makes distinct ids; the tests above rest on it."""
    assert incarnation(1) != incarnation(2)


def test_a_heartbeat_is_told_how_far_the_metadata_was_decided() -> None:
    """With what it decides itself: a node that knows all of it knows what it led when it was heard."""
    driver = Driver()
    epoch = driver.register(1).broker_epoch
    let_in = driver.beat(1, metadata_offset=epoch)
    assert let_in.metadata_offset == driver.image.offset
    assert driver.beat(1, metadata_offset=epoch).metadata_offset == driver.image.offset
