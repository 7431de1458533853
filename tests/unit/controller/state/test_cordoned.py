"""Nodes all of whose log dirs are cordoned get no new replicas (KIP-1066); what they have stays."""

from __future__ import annotations

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
    driver.beat(node, cordoned_log_dirs=DISKS[node][:count], **facts)


def test_placement_passes_over_a_cordoned_node(driver: Driver) -> None:
    """New topics and new partitions; with one dir left, or the cordon taken back, it is there again."""
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


def test_a_dir_that_is_offline_does_not_count(driver: Driver) -> None:
    """One cordoned, the other one failed: nothing is left."""
    cordon(driver, 1, count=1, offline_log_dirs=DISKS[1][1:])
    assert driver.create("u", replication_factor=3).error_code == InvalidReplicationFactorError.code


def test_explicit_assignments_are_refused(driver: Driver) -> None:
    """Of new topics, of new partitions, and of reassignments that would add a replica there."""
    cordon(driver, 1)
    refused = driver.create("u", assignments=(ReplicaAssignment(0, (2, 1)),))
    assert refused.error_code == IneligibleReplicaError.code
    growth = PartitionGrowth("t", 2, (ReplicaAssignment(1, (1, 2, 3)),))
    assert driver.ask(CreatePartitionsRequest((growth,))).results[0].error_code == refused.error_code
    assert driver.reassign("t", 0, (1, 2)) == 0, "it is there already"
    driver.place("u", (2,))
    assert driver.reassign("u", 0, (1,)) == refused.error_code
    assert driver.reassign("u", 0, (3,)) == 0


def test_a_node_that_comes_back_tells_it_anew(driver: Driver) -> None:
    """What was said before is of the process before."""
    cordon(driver, 1)
    driver.fence(1)
    driver.beat(1)
    assert driver.create("u", replication_factor=3).error_code == 0
