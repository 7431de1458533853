"""AlterPartition: valid proposals, every refusal, and what follows from an accepted ISR."""

import pytest
from controller_kit import Driver
from headrace.protocol import errors
from headrace.protocol.messages.control import AlterPartitionItem, AlterPartitionRequest, DrainNodeRequest


@pytest.fixture
def driver() -> Driver:
    """Four nodes; the one partition of "t" on 1, 2, 3, led by 1, with leader epoch and partition epoch above
    0."""
    driver = Driver()
    driver.join(1, 2, 3, 4)
    driver.place("t", (1, 2, 3))
    driver.fence(1)
    driver.heartbeat(1)
    assert not driver.alter_partition("t", 0, (1, 2, 3)).error_code
    assert driver.elect(0, "t", 0) == [0]
    return driver


def partition(driver: Driver):
    return driver.partitions("t")[0]


def test_the_isr_shrinks_and_grows(driver) -> None:
    """The response is the partition after the change: the partition epoch rises, the leader epoch does
    not."""
    before = partition(driver)
    for isr in ((1, 2), (1,), (1, 2, 3)):
        answer = driver.alter_partition("t", 0, isr)
        assert (answer.error_code, answer.isr) == (0, isr)
        assert (answer.leader, answer.leader_epoch) == (1, before.leader_epoch)
        assert answer.partition_epoch == partition(driver).partition_epoch
        assert partition(driver).isr == isr
    assert partition(driver).partition_epoch == before.partition_epoch + 3


def test_the_same_isr_again_records_nothing(driver) -> None:
    """The response was lost and the leader proposes again with the newest epochs; members in any order."""
    before = driver.image
    answer = driver.alter_partition("t", 0, (3, 1, 2))
    assert (answer.error_code, answer.isr) == (0, (1, 2, 3))
    assert driver.image is before


@pytest.mark.parametrize(
    ("isr", "facts", "error"),
    [
        ((1, 2), {"topic_id": b"?" * 16}, errors.UnknownTopicIdError),
        ((1, 2), {"partition": 1}, errors.UnknownTopicOrPartitionError),
        ((1, 2), {"partition": -1}, errors.UnknownTopicOrPartitionError),
        ((1, 2), {"leader_epoch": +1}, errors.NotControllerError),
        ((1, 2), {"partition_epoch": +1}, errors.NotControllerError),
        ((1, 2), {"leader_epoch": -1}, errors.FencedLeaderEpochError),
        ((1, 2), {"partition_epoch": -1}, errors.InvalidUpdateVersionError),
        ((2, 3), {"node_id": 2}, errors.InvalidRequestError),  # not the leader
        (
            (2, 3),
            {"node_id": 2, "leader_epoch": -1},
            errors.FencedLeaderEpochError,
        ),  # not the leader any more
        ((), {}, errors.InvalidRequestError),
        ((2, 3), {}, errors.InvalidRequestError),  # without the leader
        ((1, 1), {}, errors.InvalidRequestError),
        ((1, 4), {}, errors.InvalidRequestError),  # 4 is no replica
        ((1, 9), {}, errors.InvalidRequestError),
        ((1, 2), {"leader_recovery_state": 1}, errors.InvalidRequestError),
        ((1,), {"leader_recovery_state": 1}, errors.InvalidRequestError),  # it has recovered
        ((1,), {"leader_recovery_state": 2}, errors.InvalidRequestError),
        ((1,), {"leader_recovery_state": -1}, errors.InvalidRequestError),
    ],
)
def test_invalid_proposals_are_refused(driver, isr, facts, error) -> None:
    """Each breaks one rule; no record is written. Epochs in `facts` are added to the true ones."""
    now = partition(driver)
    for name in ("leader_epoch", "partition_epoch"):
        if name in facts:
            facts = facts | {name: getattr(now, name) + facts[name]}
    before = driver.image
    answer = driver.alter_partition("t", 0, isr, **facts)
    assert answer.error_code == error.code, answer.error_detail
    assert answer.error_detail
    assert driver.image is before
    if error not in (errors.UnknownTopicIdError, errors.UnknownTopicOrPartitionError):
        assert (answer.leader, answer.partition_epoch) == (1, now.partition_epoch), (
            "the response has the present state"
        )


@pytest.mark.parametrize("epoch", [-1, +1])
def test_a_sender_with_another_broker_epoch_is_refused_as_a_whole(driver, epoch) -> None:
    """It was restarted meanwhile, or was never registered."""
    now = driver.image.brokers[1].broker_epoch
    answer = driver.alter_partition("t", 0, (1, 2), broker_epoch=now + epoch)
    assert answer.error_code == errors.StaleBrokerEpochError.code
    assert driver.ask(AlterPartitionRequest(9, 1, ())).error_code == errors.StaleBrokerEpochError.code


def test_a_fenced_replica_does_not_join(driver) -> None:
    """KIP-841: the leader still gets its fetches, the controller knows better."""
    driver.fence(3)
    assert partition(driver).isr == (1, 2)
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == errors.IneligibleReplicaError.code
    driver.heartbeat(3)
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == 0


def test_a_replica_that_shuts_down_does_not_join(driver) -> None:
    """It was removed for its shutdown, and must not join again before it ends."""
    driver.place("u", (3, 1))
    assert not driver.heartbeat(3, want_shutdown=True).should_shutdown
    assert partition(driver).isr == (1, 2)
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == errors.IneligibleReplicaError.code


def test_a_restarted_replica_does_not_join_by_old_fetches(driver) -> None:
    """KIP-903: the leader counted fetches of the previous process, which may have had more."""
    old = driver.image.brokers[3].broker_epoch
    driver.fence(3)
    driver.come_back(3, 33, is_clean=True)
    new = driver.image.brokers[3].broker_epoch
    refused = driver.alter_partition("t", 0, (1, (3, old)))
    assert refused.error_code == errors.IneligibleReplicaError.code
    assert "restarted" in refused.error_detail
    assert driver.alter_partition("t", 0, (1, (3, new + 1))).error_code != 0
    assert driver.alter_partition("t", 0, (1, (3, new))).error_code == 0
    assert driver.alter_partition("t", 0, ((1, -1), (2, -1))).error_code == 0, "-1 is not checked"


def test_one_invalid_partition_fails_alone(driver) -> None:
    """Of three partitions one is named twice, and refused both times; the other one is changed."""
    driver.place("u", (1, 2), (1, 2))
    topic = driver.image.topics["u"].topic_id
    items = [AlterPartitionItem(topic, number, 0, 0, ((1, -1),)) for number in (0, 1, 0)]
    epoch = driver.image.brokers[1].broker_epoch
    answers = driver.ask(AlterPartitionRequest(1, epoch, tuple(items))).partitions
    assert [a.error_code for a in answers] == [
        errors.InvalidRequestError.code,
        0,
        errors.InvalidRequestError.code,
    ]
    assert [p.isr for p in driver.partitions("u")] == [(1, 2), (1,)]


def test_the_number_of_partitions_is_bounded() -> None:
    """A request larger than any valid one."""
    driver = Driver(**{"max.partitions.per.request": 2})
    driver.join(1)
    epoch = driver.image.brokers[1].broker_epoch
    items = (AlterPartitionItem(b"t" * 16, 0, 0, 0, ()),) * 3
    assert driver.ask(AlterPartitionRequest(1, epoch, items)).error_code == errors.InvalidRequestError.code


def test_recovery_ends_with_the_leaders_proposal() -> None:
    """After an unclean election the ISR cannot grow until the leader has recovered."""
    driver = Driver()
    driver.join(1, 2)
    driver.place("t", (1, 2))
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    driver.fence(1)
    assert driver.elect(1, "t", 0) == [0]
    assert (partition(driver).leader, partition(driver).leader_recovery_state) == (2, 1)
    driver.heartbeat(1)
    grown = driver.alter_partition("t", 0, (1, 2), leader_recovery_state=1)
    assert grown.error_code == errors.InvalidRequestError.code
    assert driver.alter_partition("t", 0, (2,), leader_recovery_state=1).error_code == 0
    assert partition(driver).leader_recovery_state == 1
    assert driver.alter_partition("t", 0, (1, 2), leader_recovery_state=0).leader_recovery_state == 0
    assert partition(driver).leader_recovery_state == 0


def test_a_reassignment_completes_with_its_last_replica_in_sync(driver) -> None:
    """From 1, 2, 3 to 2, 3, 4. When 4 joins, leader 1 is removed: the response names the new leader."""
    assert driver.reassign("t", 0, (2, 3, 4)) == 0
    assert partition(driver).replicas == (2, 3, 4, 1)
    epoch = partition(driver).leader_epoch
    answer = driver.alter_partition("t", 0, (1, 2, 3, 4))
    assert answer.error_code == errors.NewLeaderElectedError.code
    after = partition(driver)
    assert (after.replicas, after.isr, after.leader) == ((2, 3, 4), (2, 3, 4), 2)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
    assert (answer.leader, answer.leader_epoch) == (2, epoch + 1)


def test_a_reassignment_that_keeps_the_leader_raises_its_epoch(driver) -> None:
    """The removed replica has to be fenced: the leader epoch rises although the leader stays."""
    assert driver.reassign("t", 0, (1, 2, 4)) == 0
    epoch = partition(driver).leader_epoch
    assert driver.alter_partition("t", 0, (1, 2, 4)).error_code == 0
    assert (partition(driver).leader, partition(driver).leader_epoch) == (1, epoch + 1)


def test_a_drained_leader_leaves_when_another_joins(driver) -> None:
    """1 alone is in sync when it is drained and stays leader; when 2 has caught up, 2 leads and 1 leaves the
    ISR."""
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    assert driver.ask(DrainNodeRequest(1)).leaders_left == 1
    assert partition(driver).leader == 1
    answer = driver.alter_partition("t", 0, (1, 2))
    assert (answer.error_code, answer.leader, answer.isr) == (errors.NewLeaderElectedError.code, 2, (2,))
    assert driver.ask(DrainNodeRequest(1)).leaders_left == 0


def test_leader_with_stale_min_isr_cannot_shrink_the_isr(driver) -> None:
    """It would acknowledge by the old value what 2 and 3 lack, while they stay eligible by the new one."""
    old = partition(driver)
    driver.configure("t", min_insync_replicas="2")
    late = driver.alter_partition("t", 0, (1,), partition_epoch=old.partition_epoch)
    assert late.error_code == errors.InvalidUpdateVersionError.code
    assert partition(driver).leader_epoch == old.leader_epoch
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    assert partition(driver).elr == (2, 3)
    before = driver.image
    driver.configure("", min_insync_replicas="3")
    assert driver.image.offset == before.offset + 1, "the topic has its own value"
