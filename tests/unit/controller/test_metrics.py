"""Metrics of a controller: gauges of the image, elections of the records."""

from controller_kit import Driver
from headrace.controller.metrics import ElectionCounts, write_image
from headrace.protocol.metadata.records import NoOpRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from headrace.runtime.telemetry import controller_table as table
from headrace.runtime.telemetry.controller_table import CONTROLLER_METRICS
from headrace.runtime.telemetry.samples import Samples

ID = b"t" * 16


def test_gauges_of_a_cluster_with_one_node_down(driver: Driver) -> None:
    """One of two nodes is fenced: its partitions have no leader, and not their preferred one. The skew is
    that of serving nodes."""
    driver.join(1, 2)
    driver.create("t", num_partitions=4)
    driver.heartbeat(2, want_fence=True)
    samples = Samples()
    for _ in write_image(samples, driver.image, ElectionCounts()):
        pass
    samples.check()
    assert samples.by_kafka_name(CONTROLLER_METRICS) == {
        "ActiveBrokerCount": 1,
        "FencedBrokerCount": 1,
        "GlobalTopicCount": 1,
        "GlobalPartitionCount": 4,
        "OfflinePartitionsCount": 2,
        "PreferredReplicaImbalanceCount": 2,
        "LeaderElectionRateAndTimeMs": {"count": 0, "mean": 0, "p50": 0, "p95": 0, "p99": 0, "max": 0},
        "LeaderElectionsPerSec": {"count": 0},
        "UncleanLeaderElectionsPerSec": {"count": 0},
        "LeaderSkew": 1,
        "ReplicaSkew": 1,
    }


def test_skew_is_the_largest_share_over_the_average(driver: Driver) -> None:
    """Four partitions on one of two nodes, which is twice the average."""
    driver.join(1)
    driver.create("t", num_partitions=4)
    driver.join(2)
    samples = Samples()
    for _ in write_image(samples, driver.image, ElectionCounts()):
        pass
    assert (samples.get(table.LEADER_SKEW), samples.get(table.REPLICA_SKEW)) == (2, 2)


def test_elections_are_counted_as_their_records_are_committed() -> None:
    """A first leader is not elected; the same leader or none is no election; from the ELR it is clean."""
    image, counts = Driver().image, ElectionCounts()
    made = [
        TopicRecord("t", ID),
        PartitionRecord(ID, 0, (1, 2, 3), (1, 2), 1, 0, 0),
        PartitionChangeRecord(ID, 0, leader=1, isr=(1,), elr=(2,)),  # an ISR, and a new epoch
        PartitionChangeRecord(ID, 0, leader=-1, isr=(), elr=(1, 2)),
    ]
    counts.committed(image, [made])
    assert (counts.elected, counts.unclean) == (0, 0)
    elected = [
        PartitionRecord(ID, 0, (1, 2, 3), (), -1, 2, 2, elr=(1, 2)),
        PartitionChangeRecord(ID, 0, leader=2, isr=(2,), elr=(1,)),
        PartitionChangeRecord(ID, 0, leader=3, isr=(3,), elr=(), leader_recovery_state=1),
        # The reassignment ends with a leader that has just joined the ISR: a clean election.
        PartitionChangeRecord(ID, 0, isr=(3,), leader_recovery_state=0),
        PartitionChangeRecord(ID, 0, leader=4, isr=(4,), replicas=(4,)),
    ]
    counts.committed(image, [elected])
    assert (counts.elected, counts.unclean) == (3, 1)
    assert counts.times.count == 0, "only the controller that decided them measures them"


def test_elections_of_this_controller_are_timed() -> None:
    """Each with the time of its decision: two in one of 8 ms, one in a later one of 2 ms, none in between."""
    image, counts = Driver().image, ElectionCounts()
    partition = PartitionRecord(ID, 0, (1, 2, 3), (1, 2, 3), 1, 0, 0)
    changes = [PartitionChangeRecord(ID, 0, leader=leader) for leader in (2, 3, 1)]
    decisions = [(TopicRecord("t", ID), partition), changes[:2], [NoOpRecord()], changes[2:]]
    counts.committed(image, decisions, [1, 8, 50, 2])
    assert (counts.elected, counts.times.count, counts.times.total, counts.times.highest) == (3, 3, 18, 8)
