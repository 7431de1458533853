"""Nodes whose log dirs are all cordoned get no new replicas (KIP-1066) and keep those that they have."""

import pytest
from controller_kit import Driver
from headrace.protocol.errors import IneligibleReplicaError, InvalidReplicationFactorError
from headrace.protocol.messages.control import CreatePartitionsRequest, PartitionGrowth, ReplicaAssignment

DISKS = {node: (bytes([node, 1] * 8), bytes([node, 2] * 8)) for node in (1, 2, 3)}


@pytest.fixture
def driver() -> Driver:
    """Three nodes with two log dirs each; "t" lies on all."""
    driver = Driver()
    for node, disks in DISKS.items():
        driver.join(node, log_dir_ids=disks)
    driver.place("t", (1, 2, 3))
    return driver


def cordon(driver: Driver, node: int, count: int = 2, **facts) -> None:
    driver.heartbeat(node, cordoned_log_dirs=DISKS[node][:count], **facts)


def test_placement_avoids_a_cordoned_node(driver: Driver) -> None:
    """New topics and new partitions; a node with one usable log dir gets replicas."""
    cordon(driver, 1)
    driver.create("u", num_partitions=6, replication_factor=2)
    assert {node for part in driver.partitions("u") for node in part.replicas} == {2, 3}
    driver.ask(CreatePartitionsRequest((PartitionGrowth("u", 9),)))
    assert {node for part in driver.partitions("u") for node in part.replicas} == {2, 3}
    assert driver.create("v", replication_factor=3).error_code == InvalidReplicationFactorError.code
    cordon(driver, 1, count=1)
    assert driver.create("v", replication_factor=3).error_code == 0
    cordon(driver, 1)
    cordon(driver, 1, count=0)
    assert driver.create("w", replication_factor=3).error_code == 0


def test_an_offline_log_dir_is_not_usable(driver: Driver) -> None:
    """One log dir is cordoned, the other one offline."""
    cordon(driver, 1, count=1, offline_log_dirs=DISKS[1][1:])
    assert driver.create("u", replication_factor=3).error_code == InvalidReplicationFactorError.code


def test_explicit_assignments_are_refused(driver: Driver) -> None:
    """In new topics, new partitions and reassignments that add a replica."""
    cordon(driver, 1)
    refused = driver.create("u", assignments=(ReplicaAssignment(0, (2, 1)),))
    assert refused.error_code == IneligibleReplicaError.code
    growth = PartitionGrowth("t", 2, (ReplicaAssignment(1, (1, 2, 3)),))
    assert driver.ask(CreatePartitionsRequest((growth,))).results[0].error_code == refused.error_code
    assert driver.reassign("t", 0, (1, 2)) == 0, "the node has a replica"
    driver.place("u", (2,))
    assert driver.reassign("u", 0, (1,)) == refused.error_code
    assert driver.reassign("u", 0, (3,)) == 0


def test_the_next_heartbeat_after_fencing_replaces_the_report(driver: Driver) -> None:
    """Cordoned log dirs are soft state of a session."""
    cordon(driver, 1)
    driver.fence(1)
    driver.heartbeat(1)
    assert driver.create("u", replication_factor=3).error_code == 0
