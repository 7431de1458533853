"""Lookups of partitions and nodes by the image."""

import pytest
from core_rig import NODE, CoreRig
from headrace.protocol import errors
from headrace.protocol.metadata.records import FenceBrokerRecord, RegisterBrokerRecord, UnfenceBrokerRecord
from headrace.storage_node.replica.partition_table import PartitionTable


def test_find_raises_the_error_of_a_missing_partition(rig: CoreRig) -> None:
    """Unknown topic id, index outside of the topic, no replica on this node."""
    table = rig.core.table
    here, elsewhere = rig.topic("here"), rig.topic("elsewhere", leader=2, replicas=(2,))
    assert table.find(here, 0) is table.partitions[here, 0]
    with pytest.raises(errors.UnknownTopicIdError):
        table.find(b"?" * 16, 0)
    for index in (-1, 1):
        with pytest.raises(errors.UnknownTopicOrPartitionError):
            table.find(here, index)
    with pytest.raises(errors.NotLeaderOrFollowerError):
        table.find(elsewhere, 0)


def test_leader_hint_is_the_leader_in_the_image(rig: CoreRig) -> None:
    """Also without a local replica; -1, -1 for an unknown partition."""
    topic = rig.topic("elsewhere", leader=2, replicas=(2,))
    assert rig.core.table.leader_hint(topic, 0) == (2, 0)
    assert rig.core.table.leader_hint(topic, 1) == (-1, -1)


def test_eligible_node_is_registered_and_unfenced(rig: CoreRig) -> None:
    """KIP-841, 903: with the broker epoch of its registration."""
    table = rig.core.table
    assert not table.is_alive(NODE)
    epoch = rig.metadata(RegisterBrokerRecord(2, bytes(16), "h", 9_092, None, (), 5))
    assert not table.is_alive(2)
    rig.metadata(UnfenceBrokerRecord(2, 5))
    assert table.is_alive(2)
    assert table.is_eligible(2, table.image.brokers[2].broker_epoch)
    assert not table.is_eligible(2, table.image.brokers[2].broker_epoch - 1)
    rig.metadata(FenceBrokerRecord(2, 5))
    assert not table.is_alive(2)
    assert not table.is_eligible(2, epoch)


def test_new_table_is_empty() -> None:
    """Before the first metadata nothing is known of any topic."""
    table = PartitionTable()
    assert not table.is_caught_up
    with pytest.raises(errors.UnknownTopicIdError):
        table.find(b"i" * 16, 0)
