"""Heartbeats: requests to be fenced and to shut down, and refused heartbeats."""

import pytest
from controller_kit import Driver
from headrace.controller.state.broker_states import BrokerState, state_of
from headrace.protocol.errors import BrokerIdNotRegisteredError, OffsetOutOfRangeError, StaleBrokerEpochError
from headrace.protocol.messages.control import BrokerHeartbeatRequest, ReplicaAssignment

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


def send_heartbeats(driver: Driver, *node_ids: int) -> None:
    for node_id in node_ids:
        driver.heartbeat(node_id)


def test_the_only_node_shuts_down_in_one_step() -> None:
    """A repeated request writes no record, and its next process can register at once."""
    driver = Driver()
    driver.join(1)
    driver.create("t")
    answer = driver.heartbeat(1, want_shutdown=True)
    assert answer.should_shutdown
    assert answer.is_fenced
    assert driver.partitions("t")[0].leader == -1
    count = len(driver.records)
    assert driver.heartbeat(1, want_shutdown=True).should_shutdown
    assert len(driver.records) == count
    assert driver.register(1, process=2).error_code == 0


def test_node_can_request_its_fencing() -> None:
    """It stays fenced until a heartbeat without the request."""
    driver = Driver()
    driver.join(1)
    assert driver.heartbeat(1, want_fence=True).is_fenced
    assert driver.heartbeat(1, want_fence=True).is_fenced
    assert not driver.heartbeat(1).is_fenced


def test_refused_heartbeats() -> None:
    """An unregistered node, a stale broker epoch, and metadata that the controller does not have."""
    driver = Driver()
    driver.register(1)
    unknown = driver.ask(BrokerHeartbeatRequest(9, 1, 0))
    assert unknown.error_code == BrokerIdNotRegisteredError.code
    assert driver.heartbeat(1, broker_epoch=0).error_code == StaleBrokerEpochError.code
    ahead = driver.heartbeat(1, metadata_offset=driver.image.offset + 1)
    assert ahead.error_code == OffsetOutOfRangeError.code
    assert "lost" in ahead.error_detail


def test_the_response_has_the_end_of_the_decided_metadata() -> None:
    """Including the records of the heartbeat itself: a node that has applied them knows what it leads."""
    driver = Driver()
    epoch = driver.register(1).broker_epoch
    unfenced = driver.heartbeat(1, metadata_offset=epoch)
    assert unfenced.metadata_offset == driver.image.offset
    assert driver.heartbeat(1, metadata_offset=epoch).metadata_offset == driver.image.offset


def test_a_leader_shuts_down_in_two_steps(driver) -> None:
    """First other leaders are elected; it may shut down once both other nodes have applied that."""
    first = driver.heartbeat(1, **STOP)
    assert (first.should_shutdown, first.is_fenced) == (False, False)
    assert state_of(driver.image, 1) is BrokerState.SHUTTING_DOWN
    assert leaders(driver) == [2, 2, 3]
    assert all(1 not in p.isr for p in driver.partitions("t"))
    send_heartbeats(driver, 2)
    assert not driver.heartbeat(1, **STOP).should_shutdown, "3 may still name 1 as a leader to clients"
    send_heartbeats(driver, 3)
    last = driver.heartbeat(1, **STOP)
    assert (last.should_shutdown, last.is_fenced) == (True, True)
    assert state_of(driver.image, 1) is BrokerState.FENCED


def test_the_other_nodes_must_have_applied_the_last_record(driver) -> None:
    """The last record of the elections; one offset less is not enough."""
    driver.heartbeat(1, **STOP)
    needed = driver.image.offset
    driver.heartbeat(2)
    driver.heartbeat(3, metadata_offset=needed - 1)
    assert not driver.heartbeat(1, **STOP).should_shutdown
    driver.heartbeat(3, metadata_offset=needed)
    assert driver.heartbeat(1, **STOP).should_shutdown


def test_later_metadata_does_not_delay_a_shutdown(driver) -> None:
    """A topic is created after the elections."""
    driver.heartbeat(1, **STOP)
    applied = driver.image.offset
    driver.create("u")
    for node_id in (2, 3):
        driver.heartbeat(node_id, metadata_offset=applied)
    assert driver.heartbeat(1, **STOP).should_shutdown


def test_a_shutdown_does_not_wait_for_a_fenced_node(driver) -> None:
    """Node 3 died and reports no applied offset."""
    driver.heartbeat(1, **STOP)
    driver.fence(3)
    send_heartbeats(driver, 2)
    assert driver.heartbeat(1, **STOP).should_shutdown


def test_a_node_without_leaderships_shuts_down_in_one_step(driver) -> None:
    """It is removed from the ISRs in the same decision."""
    driver.join(4)
    driver.place("u", (1, 4))
    assert driver.heartbeat(4, **STOP).should_shutdown
    assert driver.partitions("u")[0].isr == (1,)


def test_the_last_active_node_shuts_down_in_one_step() -> None:
    """There is no other leader to elect; its partitions stay without one."""
    driver = Driver()
    driver.join(1)
    driver.create("t")
    assert driver.heartbeat(1, **STOP).should_shutdown
    assert leaders(driver) == [-1]
    assert driver.partitions("t")[0].elr == (1,)


def test_a_partition_without_another_eligible_replica_has_no_leader(driver) -> None:
    """The only in-sync replica of "v" shuts down: no unclean election, it stays in the ELR. In "u" the other
    replica is in the ELR and leads."""
    driver.place("u", (1, 2), min_insync_replicas="2")
    driver.place("v", (1, 2), min_insync_replicas="1")
    for name in ("u", "v"):
        assert driver.alter_partition(name, 0, (1,)).error_code == 0
    driver.heartbeat(1, **STOP)
    u, v = driver.partitions("u")[0], driver.partitions("v")[0]
    assert (u.leader, u.isr, u.elr) == (2, (2,), (1,)), "2 left below min ISR and has everything"
    assert (v.leader, v.isr, v.elr, v.last_known_elr) == (-1, (), (1,), (1,))


def test_new_partitions_avoid_a_node_that_shuts_down(driver) -> None:
    """Automatic placement and an assignment to that node alone; three replicas need three other nodes."""
    driver.heartbeat(1, **STOP)
    for name in ("u", "v", "w"):
        assert driver.create(name, num_partitions=2, replication_factor=2).error_code == 0
        assert all(1 not in p.replicas for p in driver.partitions(name))
    assert driver.create("x", replication_factor=3).error_code == 38
    assert driver.create("y", assignments=(ReplicaAssignment(0, (1,)),)).error_code == 39


def test_a_new_controller_waits_again_for_the_other_nodes(driver) -> None:
    """The needed offset is soft state: the new controller requires the newest one."""
    driver.heartbeat(1, **STOP)
    send_heartbeats(driver, 2, 3)
    driver.restart()
    assert not driver.heartbeat(1, **STOP).should_shutdown
    send_heartbeats(driver, 2)
    assert not driver.heartbeat(1, **STOP).should_shutdown
    send_heartbeats(driver, 3)
    assert driver.heartbeat(1, **STOP).should_shutdown


def test_the_next_process_is_not_shutting_down(driver) -> None:
    """It registers after a clean shutdown and becomes active."""
    epoch = driver.image.brokers[1].broker_epoch
    driver.heartbeat(1, **STOP)
    send_heartbeats(driver, 2, 3)
    driver.heartbeat(1, **STOP)
    assert driver.register(1, 11, previous_broker_epoch=epoch).error_code == 0
    assert not driver.heartbeat(1).is_fenced
    assert state_of(driver.image, 1) is BrokerState.ACTIVE


def test_a_changed_registration_stays_in_shutdown(driver) -> None:
    """The same process registers again, with another port."""
    driver.heartbeat(1, **STOP)
    driver.register(1, 1, port=9_999)
    assert state_of(driver.image, 1) is BrokerState.SHUTTING_DOWN


def test_node_that_requests_fencing_shuts_down_at_once(driver) -> None:
    """A node without a working disk does not wait for other nodes."""
    answer = driver.heartbeat(1, want_fence=True, want_shutdown=True)
    assert (answer.should_shutdown, answer.is_fenced) == (True, True)
    assert leaders(driver) == [2, 2, 3]
