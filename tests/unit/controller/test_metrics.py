"""The controller's metrics: gauges off the image, elections off the records."""

from __future__ import annotations

from controller_kit import Driver
from headrace.controller.metrics import ElectionCounts, controller_metrics
from headrace.protocol.metadata.records import PartitionChangeRecord, PartitionRecord, TopicRecord

ID = b"t" * 16


def test_gauges_of_a_cluster_with_one_node_down() -> None:
    """One of two nodes is fenced: what it led has no leader, and is not led by whom it should be."""
    driver = Driver()
    driver.join(1, 2)
    driver.create("t", num_partitions=4)
    driver.beat(2, want_fence=True)
    facts = controller_metrics(driver.image, ElectionCounts(), is_active=True)
    assert facts == {
        "ActiveControllerCount": 1,
        "ActiveBrokerCount": 1,
        "FencedBrokerCount": 1,
        "OfflinePartitionsCount": 2,
        "PreferredReplicaImbalanceCount": 2,
        "LeaderElectionRateAndTimeMs": {"count": 0},
        "UncleanLeaderElectionsPerSec": {"count": 0},
    }
    assert controller_metrics(driver.image, ElectionCounts(), is_active=False)["ActiveControllerCount"] == 0


def test_elections_are_counted_as_their_records_are_committed() -> None:
    """A first leader is not elected; who led already, or nobody, is no election; of the ELR is clean."""
    image, counts = Driver().image, ElectionCounts()
    counts.committed(
        image,
        [
            TopicRecord("t", ID),
            PartitionRecord(ID, 0, (1, 2, 3), (1, 2), 1, 0, 0),
            PartitionChangeRecord(ID, 0, leader=1, isr=(1,), elr=(2,)),  # the ISR, and a new epoch
            PartitionChangeRecord(ID, 0, leader=-1, isr=(), elr=(1, 2)),
        ],
    )
    assert (counts.elected, counts.unclean) == (0, 0)
    counts.committed(
        image,
        [
            PartitionRecord(ID, 0, (1, 2, 3), (), -1, 2, 2, elr=(1, 2)),
            PartitionChangeRecord(ID, 0, leader=2, isr=(2,), elr=(1,)),
            PartitionChangeRecord(ID, 0, leader=3, isr=(3,), elr=(), leader_recovery_state=1),
            # A reassignment ends with a leader that has just come into the ISR: nothing is lost by it.
            PartitionChangeRecord(ID, 0, isr=(3,), leader_recovery_state=0),
            PartitionChangeRecord(ID, 0, leader=4, isr=(4,), replicas=(4,)),
        ],
    )
    assert (counts.elected, counts.unclean) == (3, 1)
