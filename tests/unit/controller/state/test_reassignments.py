"""Reassignments: start, replace, complete, cancel, list, and every refusal."""

import pytest
from controller_kit import Driver
from headrace.protocol import errors
from headrace.protocol.messages import control


@pytest.fixture
def driver() -> Driver:
    """Six nodes; "t" with one partition on 1, 2, 3."""
    driver = Driver()
    driver.join(1, 2, 3, 4, 5, 6)
    driver.place("t", (1, 2, 3), min_insync_replicas="2")
    return driver


def facts(driver: Driver):
    """Replicas, adding, removing."""
    p = driver.partitions("t")[0]
    return p.replicas, p.adding_replicas, p.removing_replicas


def test_a_reassignment_starts_with_all_replicas(driver) -> None:
    """The target first; the leader stays, and a repeated request changes nothing."""
    assert driver.reassign("t", 0, (5, 4, 1)) == 0
    assert facts(driver) == ((5, 4, 1, 2, 3), (4, 5), (2, 3))
    assert driver.reassign("t", 0, (4, 5, 1)) == 0
    assert facts(driver) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert driver.partitions("t")[0].leader == 1
    before = driver.image
    assert driver.reassign("t", 0, (4, 5, 1)) == 0
    assert driver.image is before


def test_a_reassignment_completes_with_its_whole_target_in_sync(driver) -> None:
    """With 4 in sync and 5 not, the reassignment is not complete."""
    driver.reassign("t", 0, (4, 5, 1))
    assert driver.alter_partition("t", 0, (1, 2, 3, 4)).error_code == 0
    assert facts(driver) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert driver.alter_partition("t", 0, (1, 4, 5)).error_code == 0
    assert facts(driver) == ((4, 5, 1), (), ())
    assert driver.partitions("t")[0].leader == 1


def test_a_new_order_completes_at_once(driver) -> None:
    """The same replicas: only the preference and the partition epoch change."""
    epoch = driver.partitions("t")[0].leader_epoch
    assert driver.reassign("t", 0, (3, 1, 2)) == 0
    assert facts(driver) == ((3, 1, 2), (), ())
    assert driver.partitions("t")[0].leader == 1
    assert driver.partitions("t")[0].leader_epoch == epoch


def test_removing_replicas_completes_at_once(driver) -> None:
    """The target is in sync already; if the leader is removed, the next one is elected."""
    assert driver.reassign("t", 0, (2, 3)) == 0
    assert facts(driver) == ((2, 3), (), ())
    p = driver.partitions("t")[0]
    assert (p.leader, p.isr) == (2, (2, 3))


def test_removed_replicas_are_not_in_the_elr(driver) -> None:
    """The ISR after completion is below min ISR, but removed replicas hold nothing any more."""
    assert driver.alter_partition("t", 0, (3,)).error_code
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    assert driver.partitions("t")[0].elr == (2, 3)
    driver.reassign("t", 0, (1, 4))
    driver.alter_partition("t", 0, (1, 4))
    assert facts(driver)[0] == (1, 4)
    driver.configure("t", min_insync_replicas="3")
    driver.reassign("t", 0, (1,))
    assert (facts(driver)[0], driver.partitions("t")[0].elr) == ((1,), ())


def test_cancel_restores_the_replicas(driver) -> None:
    """Added ones leave, in sync or not; if one of them led, another member of the ISR is elected."""
    driver.reassign("t", 0, (4, 5, 6))
    assert driver.alter_partition("t", 0, (1, 2, 3, 4)).error_code == 0
    driver.fence(1)
    assert driver.partitions("t")[0].leader == 4, "the first of the target"
    assert driver.reassign("t", 0, None) == 0
    assert facts(driver) == ((1, 2, 3), (), ())
    p = driver.partitions("t")[0]
    assert (p.leader, p.isr) == (2, (2, 3))
    assert driver.reassign("t", 0, None) == errors.NoReassignmentInProgressError.code


def test_a_cancel_that_would_lose_records_is_refused(driver) -> None:
    """All original replicas lag: it needs an unclean election."""
    driver.configure("t", min_insync_replicas="1")
    driver.reassign("t", 0, (4, 5, 6))
    driver.alter_partition("t", 0, (1, 4))
    driver.fence(1)
    assert driver.partitions("t")[0].isr == (4,)
    assert driver.reassign("t", 0, None) == errors.InvalidReplicaAssignmentError.code
    driver.configure("t", unclean_leader_election_enable="true")
    assert driver.reassign("t", 0, None) == 0
    p = driver.partitions("t")[0]
    assert (p.replicas, p.leader, p.isr, p.leader_recovery_state) == ((1, 2, 3), 2, (2,), 1)


def test_a_cancel_without_an_active_original_replica_is_refused(driver) -> None:
    """Also with unclean elections: only an added replica has everything."""
    driver.configure("t", min_insync_replicas="1", unclean_leader_election_enable="true")
    driver.reassign("t", 0, (4, 5, 6))
    driver.alter_partition("t", 0, (1, 4))
    driver.fence(1, 2, 3)
    assert driver.reassign("t", 0, None) == errors.InvalidReplicaAssignmentError.code


def test_cancel_may_fall_back_to_the_elr(driver) -> None:
    """Below min ISR the ELR has everything, too."""
    driver.reassign("t", 0, (4, 5, 6))
    driver.alter_partition("t", 0, (1, 4))
    driver.fence(1)
    assert (driver.partitions("t")[0].isr, driver.partitions("t")[0].elr) == ((4,), (1,))
    assert driver.reassign("t", 0, None) == 0
    p = driver.partitions("t")[0]
    assert (p.replicas, p.leader, p.isr, p.elr) == ((1, 2, 3), -1, (), (1,))
    driver.heartbeat(1)
    assert driver.partitions("t")[0].leader == 1


def test_a_cancel_without_a_leader(driver) -> None:
    """The last known leader is still waited for."""
    driver.reassign("t", 0, (4, 5, 6))
    driver.fence(1, 2, 3)
    assert driver.partitions("t")[0].elr == (2, 3)
    assert driver.reassign("t", 0, None) == 0
    p = driver.partitions("t")[0]
    assert (p.replicas, p.leader, p.elr, p.last_known_elr) == ((1, 2, 3), -1, (2, 3), (3,))


def test_another_target_replaces_the_first(driver) -> None:
    """Replicas added by the first are removed at the end of the second."""
    driver.reassign("t", 0, (4, 5, 1))
    assert driver.reassign("t", 0, (6, 2, 1)) == 0
    assert facts(driver) == ((6, 2, 1, 4, 5, 3), (6,), (4, 5, 3))
    assert driver.alter_partition("t", 0, (1, 2, 6)).error_code == 0
    assert facts(driver) == ((6, 2, 1), (), ())


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ((), errors.InvalidReplicaAssignmentError),
        ((1, 1), errors.InvalidReplicaAssignmentError),
        ((1, 9), errors.InvalidReplicaAssignmentError),
        ((-1,), errors.InvalidReplicaAssignmentError),
        (tuple(range(32_768)), errors.InvalidReplicaAssignmentError),
    ],
)
def test_invalid_targets(driver, target, error) -> None:
    before = driver.image
    assert driver.reassign("t", 0, target) == error.code
    assert driver.image is before


def test_the_replication_factor_may_be_guarded(driver) -> None:
    """KIP-860: counted by the target's replicas, also during a reassignment."""
    guard = {"allow_replication_factor_change": False}
    assert driver.reassign("t", 0, (1, 2), **guard) == errors.InvalidReplicationFactorError.code
    assert driver.reassign("t", 0, (1, 2, 3, 4), **guard) == errors.InvalidReplicationFactorError.code
    assert driver.reassign("t", 0, (4, 5, 6), **guard) == 0
    assert driver.reassign("t", 0, (4, 5, 6, 1, 2, 3), **guard) == errors.InvalidReplicationFactorError.code
    assert driver.reassign("t", 0, (4, 5, 1), **guard) == 0


def test_each_partition_succeeds_or_fails_alone(driver) -> None:
    """Unknown topic, unknown partition, one named twice, and a valid one."""
    items = (
        control.ReassignablePartition(0, (1, 2, 4)),
        control.ReassignablePartition(7, (1,)),
        control.ReassignablePartition(0, None),
    )
    topics = (control.ReassignableTopic("none", items[:1]), control.ReassignableTopic("t", items))
    reply = driver.ask(control.AlterPartitionReassignmentsRequest(topics))
    assert [r.error_code for r in reply.results] == [
        errors.UnknownTopicOrPartitionError.code,
        0,
        errors.UnknownTopicOrPartitionError.code,
        errors.InvalidRequestError.code,
    ]
    assert reply.metadata_offset == driver.image.offset
    assert facts(driver)[1] == (4,)


def test_the_number_of_partitions_is_bounded() -> None:
    """A request above the limit."""
    driver = Driver(**{"max.partitions.per.request": 2})
    topic = control.ReassignableTopic("t", (control.ReassignablePartition(0, None),) * 3)
    reply = driver.ask(control.AlterPartitionReassignmentsRequest((topic,)))
    assert reply.error_code == errors.InvalidRequestError.code


def test_reassignments_in_progress_are_listed(driver) -> None:
    """All, or those of the request; unknown partitions are left out."""
    driver.place("u", (1, 2), (2, 3))
    driver.reassign("t", 0, (1, 2, 4))
    driver.reassign("u", 1, (2, 4))

    def listed(topics):
        reply = driver.ask(control.ListPartitionReassignmentsRequest(topics))
        return [(o.topic, o.partition, o.adding_replicas, o.removing_replicas) for o in reply.ongoing]

    assert listed(None) == [("t", 0, (4,), (3,)), ("u", 1, (4,), (3,))]
    assert listed((control.TopicPartitions("u", (0, 1, 9)), control.TopicPartitions("none", (0,)))) == [
        ("u", 1, (4,), (3,))
    ]
    assert listed(()) == []


def test_new_partitions_during_a_reassignment(driver) -> None:
    """New partitions have as many replicas as the reassigned ones will have."""
    from headrace.protocol.messages.control import CreatePartitionsRequest, PartitionGrowth

    driver.reassign("t", 0, (4, 5, 6))
    assert driver.ask(CreatePartitionsRequest((PartitionGrowth("t", 2),))).results[0].error_code == 0
    assert len(driver.partitions("t")[1].replicas) == 3
