"""Registration and removal of storage nodes, step by step on a clock that the test moves."""

import pytest
from controller_kit import Driver, incarnation
from headrace.controller.state.broker_states import BrokerState, state_of
from headrace.protocol import errors
from headrace.protocol.messages.control import BrokerHeartbeatRequest, UnregisterBrokerRequest

SESSION_MS = 1500


def test_a_new_node_is_fenced_until_it_has_caught_up(driver: Driver) -> None:
    """It may not lead before it has applied its own registration."""
    answer = driver.register(1)
    assert answer.broker_epoch == driver.image.offset
    assert answer.cluster_id == "cluster-1"
    assert (answer.heartbeat_interval_ms, answer.session_timeout_ms) == (300, SESSION_MS)
    assert driver.heartbeat(1, metadata_offset=answer.broker_epoch - 1).is_fenced
    assert state_of(driver.image, 1) is BrokerState.FENCED
    assert not driver.heartbeat(1, metadata_offset=answer.broker_epoch).is_fenced
    assert state_of(driver.image, 1) is BrokerState.ACTIVE


def test_a_repeated_registration_changes_nothing(driver: Driver) -> None:
    """The response was lost and the node sends the request again: same epoch, no record."""
    first = driver.register(1)
    count = len(driver.records)
    assert driver.register(1) == first
    assert len(driver.records) == count


def test_the_same_process_may_change_its_address(driver: Driver) -> None:
    """Another port: the broker epoch stays, and the node stays unfenced."""
    driver.join(1)
    epoch = driver.image.brokers[1].broker_epoch
    assert driver.register(1, port=9999).broker_epoch == epoch
    broker = driver.image.brokers[1]
    assert (broker.port, broker.is_fenced, broker.broker_epoch) == (9999, False, epoch)


def test_a_second_process_registers_when_the_session_of_the_first_has_expired(driver: Driver) -> None:
    """Two processes with one node id; the first one's broker epoch is stale afterwards."""
    driver.join(1)
    driver.create("t")
    old = driver.image.brokers[1].broker_epoch
    assert driver.register(1, process=2).error_code == errors.DuplicateBrokerRegistrationError.code
    driver.now_ms += SESSION_MS - 1
    assert driver.register(1, process=2).error_code == errors.DuplicateBrokerRegistrationError.code
    driver.now_ms += 1  # the registration fences the first process, before the timer does
    assert driver.register(1, process=2).error_code == 0
    assert driver.partitions("t")[0].leader == -1
    assert driver.heartbeat(1, broker_epoch=old).error_code == errors.StaleBrokerEpochError.code
    assert not driver.heartbeat(1).is_fenced
    assert driver.partitions("t")[0].leader == 1


def test_a_fenced_node_that_sends_heartbeats_keeps_its_id(driver: Driver) -> None:
    """A live process that is catching up with the metadata is not replaced."""
    driver.register(1)
    driver.now_ms += 1000
    driver.heartbeat(1, metadata_offset=-1)
    driver.now_ms += 1000
    assert driver.register(1, process=2).error_code == errors.DuplicateBrokerRegistrationError.code


def test_generated_ids_are_above_the_reserved_ones_and_survive_a_lost_response(driver: Driver) -> None:
    """Two nodes without an id, one of which sends its request twice."""
    assert driver.register(-1, process=7).node_id == 1001
    assert driver.register(-1, process=8).node_id == 1002
    assert driver.register(-1, process=7).node_id == 1001
    driver.restart()
    assert driver.register(-1, process=9).node_id == 1003
    assert driver.register(1002, process=8).error_code == 0, "the process sends its generated id"


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({"node_id": 1001}, errors.InvalidRequestError),  # above the reserved ids, and never generated
        ({"node_id": 2**31}, errors.InvalidRequestError),
        ({"node_id": -2}, errors.InvalidRequestError),
        ({"cluster_id": "another"}, errors.InconsistentClusterIdError),
        ({"incarnation_id": b"short"}, errors.InvalidRequestError),
        ({"log_dir_ids": (b"short",)}, errors.InvalidRequestError),
        ({"log_dir_ids": (bytes(16),) * 101}, errors.InvalidRequestError),
        ({"host": ""}, errors.InvalidRequestError),
        ({"host": "h" * 256}, errors.InvalidRequestError),
        ({"port": 0}, errors.InvalidRequestError),
        ({"port": 65_536}, errors.InvalidRequestError),
        ({"rack": "r" * 256}, errors.InvalidRequestError),
    ],
)
def test_invalid_registrations_are_refused(driver: Driver, facts, error) -> None:
    """Each has one invalid field; no record is written."""
    before = driver.image
    assert driver.register(**({"node_id": 1, "process": 1} | facts)).error_code == error.code
    assert driver.image is before


def test_lost_replicas_are_bounded_by_max_partitions() -> None:
    """A longer list is refused before it is read."""
    driver = Driver(**{"max.partitions": 2})
    lost = tuple(("t", number) for number in range(3))
    assert driver.register(1, lost_replicas=lost).error_code == errors.InvalidRequestError.code
    assert driver.register(1, lost_replicas=lost[:2]).error_code == 0


def test_the_number_of_nodes_is_bounded() -> None:
    """A new node id above max.storage.nodes is refused; a registered one is not."""
    driver = Driver(**{"max.storage.nodes": 2})
    driver.register(1)
    driver.register(2)
    assert driver.register(3).error_code == errors.InvalidRequestError.code
    assert driver.register(2, port=1).error_code == 0, "a registered node"


def test_unregistration_needs_a_fenced_node_without_replicas(driver: Driver) -> None:
    """Afterwards neither the node id nor its broker epoch is known."""
    driver.join(1, 2)
    driver.create("t", num_partitions=2)

    def unregister(node_id):
        return driver.ask(UnregisterBrokerRequest(node_id)).error_code

    assert unregister(1) == errors.InvalidRequestError.code
    driver.wait(SESSION_MS)
    assert unregister(1) == errors.InvalidRequestError.code, "the node has a replica"
    driver.join(3)
    driver.wait(SESSION_MS)
    assert unregister(3) == 0
    assert unregister(3) == errors.BrokerIdNotRegisteredError.code
    assert driver.ask(BrokerHeartbeatRequest(3, 0, 0)).error_code == errors.BrokerIdNotRegisteredError.code


def test_incarnation_ids_of_the_kit_are_distinct() -> None:
    """The tests above depend on it."""
    assert incarnation(1) != incarnation(2)
