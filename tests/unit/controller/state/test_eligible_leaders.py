"""ISR, ELR, last known leader (KIP-966) and elections when nodes fail, restart and lose records."""

from dataclasses import replace

import pytest
from controller_kit import Driver
from headrace.controller.state.laws import check_change
from headrace.protocol.errors import IneligibleReplicaError
from headrace.protocol.metadata.image import PartitionRegistration


def a_cluster(min_isr: int = 2, replicas=(1, 2, 3), **config) -> Driver:
    """Three active nodes and topic "t" with one partition on `replicas`."""
    driver = Driver(**config)
    driver.join(1, 2, 3)
    driver.place("t", replicas, min_insync_replicas=str(min_isr))
    return driver


@pytest.fixture
def driver() -> Driver:
    return a_cluster()


def facts(driver: Driver):
    """Leader, ISR, ELR, last known leader."""
    p = driver.partitions("t")[0]
    return p.leader, p.isr, p.elr, p.last_known_elr


def test_the_next_in_sync_replica_is_elected(driver: Driver) -> None:
    """The remaining ISR satisfies min ISR, so that the fenced leader is not eligible."""
    driver.fence(1)
    assert facts(driver) == (2, (2, 3), (), ())


def test_below_min_isr_a_removed_replica_stays_eligible(driver: Driver) -> None:
    """The high watermark does not advance from then on, so both removed replicas have every acknowledged
    record."""
    driver.fence(1, 2)
    assert facts(driver) == (3, (3,), (2,), ())
    driver.fence(3)
    assert facts(driver) == (-1, (), (2, 3), (3,))
    driver.heartbeat(1)
    assert facts(driver)[0] == -1, "1 left while min ISR was kept: it may miss records"
    driver.heartbeat(2)
    assert facts(driver) == (2, (2,), (3,), ()), "an eligible one is as good as one in sync"


def test_the_elr_is_emptied_when_min_isr_is_reached(driver: Driver) -> None:
    """From then on the high watermark advances without the removed replicas."""
    driver.fence(1, 2)
    driver.heartbeat(1)
    assert driver.alter_partition("t", 0, (1, 3)).error_code == 0
    assert facts(driver) == (3, (1, 3), (), ())


def test_a_lower_min_isr_empties_the_elr(driver: Driver) -> None:
    """min.insync.replicas is lowered to 1 while all nodes are fenced. The first node to return leads, and the
    ELR is emptied: its members could otherwise lead later without the records acknowledged meanwhile."""
    driver.fence(1, 2, 3)
    driver.configure("t", min_insync_replicas="1")
    assert facts(driver)[2] == (2, 3)
    driver.heartbeat(3)
    assert facts(driver) == (3, (3,), (), ())


def test_an_isr_shrunk_by_its_leader_leaves_an_elr(driver: Driver) -> None:
    """AlterPartition, not fencing: both followers lag."""
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    assert facts(driver) == (1, (1,), (2, 3), ())


def test_min_isr_is_bounded_by_the_replicas() -> None:
    """min.insync.replicas 3 with two replicas: both in sync is enough, one is not."""
    driver = a_cluster(min_isr=3, replicas=(1, 2))
    driver.fence(2)
    assert facts(driver) == (1, (1,), (2,), ())
    driver.heartbeat(2)
    assert driver.alter_partition("t", 0, (1, 2)).error_code == 0
    assert facts(driver) == (1, (1, 2), (), ())


def test_an_unclean_restart_ends_eligibility(driver: Driver) -> None:
    """2 was eligible and restarts after a power loss: it may lack records and must not lead; 3 must."""
    driver.fence(1, 2, 3)
    driver.come_back(2, 22, is_clean=False)
    assert facts(driver) == (-1, (), (3,), (3,))
    driver.come_back(3, 33, is_clean=True)
    assert facts(driver) == (3, (3,), (), ())


def test_a_clean_restart_keeps_eligibility(driver: Driver) -> None:
    """It reports the newest broker epoch that the controller knows."""
    driver.fence(1, 2, 3)
    driver.come_back(2, 22, is_clean=True)
    assert facts(driver) == (2, (2,), (3,), ())


@pytest.mark.parametrize("off", [-1, +1])
def test_a_clean_shutdown_under_another_epoch_ends_eligibility(driver: Driver, off) -> None:
    """The disk was copied, or an older snapshot of the machine was started."""
    driver.fence(1, 2, 3)
    epoch = driver.image.brokers[2].broker_epoch
    assert driver.register(2, 22, previous_broker_epoch=epoch + off).error_code == 0
    assert facts(driver)[2] == (3,)


def test_a_process_without_its_registration_response_keeps_eligibility(driver: Driver) -> None:
    """It shut down cleanly and reports the epoch before: it appended nothing under the new one. However often
    that happens, and also when it registers again meanwhile."""
    driver.fence(1, 2, 3)
    epoch = driver.image.brokers[2].broker_epoch
    for process in (22, 222, 222, 2222):
        assert driver.register(2, process, previous_broker_epoch=epoch, port=process).error_code == 0
        driver.now_ms += 60_000
        assert facts(driver)[2] == (2, 3)
    lost = (("t", 0),)
    assert driver.register(2, 23, previous_broker_epoch=epoch, lost_replicas=lost).error_code == 0
    assert facts(driver)[2] == (3,)


def test_an_unfenced_process_must_report_its_own_epoch(driver: Driver) -> None:
    """An older copy of its disk was started: it had appended since."""
    driver.fence(1, 2, 3)
    epoch = driver.image.brokers[2].broker_epoch
    driver.come_back(2, 22, is_clean=True)
    driver.fence(2)
    assert driver.register(2, 222, previous_broker_epoch=epoch).error_code == 0
    assert facts(driver)[2] == (3,)


def test_lost_records_stay_lost_after_a_clean_shutdown(driver: Driver) -> None:
    """The process did not know its epoch either, and shut down cleanly."""
    driver.fence(1, 2, 3)
    for process in (22, 222):
        assert driver.register(2, process).error_code == 0
        driver.now_ms += 60_000
        assert facts(driver)[2] == (3,)


def test_a_truncated_log_ends_eligibility_of_its_partition_alone(driver: Driver) -> None:
    """2 shut down cleanly, and the log of one of its two partitions was truncated then. A deleted topic and
    an unknown partition are ignored."""
    driver.place("u", (1, 2, 3), (1, 2, 3), min_insync_replicas="2")
    driver.fence(1, 2, 3)
    lost = (("t", 0), ("u", 1), ("u", 7), ("gone", 0))
    driver.come_back(2, 22, is_clean=True, lost_replicas=lost)
    assert facts(driver) == (-1, (), (3,), (3,))
    assert [(p.leader, p.elr) for p in driver.partitions("u")] == [(2, (3,)), (-1, (3,))]


def test_a_truncated_log_of_an_unfenced_node() -> None:
    """It shut down cleanly without the controller, and its session expired: the ISR of the truncated log
    loses it, in the other partition it stays eligible."""
    driver = a_cluster(replicas=(1, 2))
    driver.place("u", (1, 2), min_insync_replicas="2")
    epoch = driver.image.brokers[2].broker_epoch
    driver.now_ms += 1500
    answer = driver.register(2, 22, previous_broker_epoch=epoch, lost_replicas=(("t", 0),))
    assert answer.error_code == 0
    assert facts(driver) == (1, (1,), (), ())
    assert driver.partitions("u")[0].elr == (2,)


def test_a_quick_unclean_restart_leaves_the_isr(driver: Driver) -> None:
    """Its session had expired, but it was not fenced yet when its next process registered."""
    driver.now_ms += 1500
    assert driver.register(1, 11).error_code == 0
    assert facts(driver) == (2, (2, 3), (), ())


def test_after_unclean_restarts_of_all_the_last_known_leader_leads(driver: Driver) -> None:
    """No replica is sure to have everything. The last known leader has the most; it is RECOVERING."""
    driver.fence(1, 2, 3)
    for node in (2, 1):
        driver.come_back(node, node * 11, is_clean=False)
    assert facts(driver) == (-1, (), (3,), (3,))
    assert driver.register(3, 33).error_code == 0
    assert facts(driver) == (-1, (), (), (3,)), "1 and 2 are active, but were not the last leader"
    driver.heartbeat(3)
    assert facts(driver) == (3, (3,), (), ())
    assert driver.partitions("t")[0].leader_recovery_state == 1


def test_unclean_recovery_strategy_none_waits_for_an_operator() -> None:
    driver = a_cluster(replicas=(1,), min_isr=1, **{"unclean.recovery.strategy": "None"})
    driver.fence(1)
    driver.come_back(1, 11, is_clean=False)
    assert facts(driver) == (-1, (), (), (1,))
    assert driver.elect(1, "t", 0) == [0]
    assert facts(driver) == (1, (1,), (), ())


def test_a_single_replica_survives_any_restart() -> None:
    """There is no other replica to elect."""
    driver = a_cluster(replicas=(1,), min_isr=1)
    for process, is_clean in ((11, True), (12, False)):
        driver.fence(1)
        assert facts(driver) == (-1, (), (1,), (1,))
        driver.come_back(1, process, is_clean=is_clean)
        assert facts(driver) == (1, (1,), (), ())


def test_with_min_isr_1_only_the_last_isr_member_is_eligible() -> None:
    """Each one removed before may lack records."""
    driver = a_cluster(min_isr=1)
    driver.fence(1, 2, 3)
    assert facts(driver) == (-1, (), (3,), (3,))
    driver.heartbeat(1)
    driver.heartbeat(2)
    assert facts(driver)[0] == -1
    driver.heartbeat(3)
    assert facts(driver)[0] == 3


@pytest.mark.parametrize("where", ["t", "", "static"])
def test_unclean_election_where_it_is_allowed(where) -> None:
    """By the topic, the cluster, or the controller's own config; at once when the last one is fenced."""
    static = {"unclean.leader.election.enable": "true"} if where == "static" else {}
    driver = a_cluster(min_isr=1, **static)
    if where != "static":
        driver.configure(where, unclean_leader_election_enable="true")
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    driver.fence(1)
    assert facts(driver) == (2, (2,), (), ())
    assert driver.partitions("t")[0].leader_recovery_state == 1


def test_a_topic_may_forbid_unclean_elections() -> None:
    """The topic's own config wins over the cluster's."""
    driver = a_cluster(min_isr=1)
    driver.configure("", unclean_leader_election_enable="true")
    driver.configure("t", unclean_leader_election_enable="false")
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    driver.fence(1)
    assert facts(driver)[0] == -1


def test_a_smaller_min_isr_empties_elrs_in_the_same_decision() -> None:
    """For a topic, and for the cluster where the topic has no value; a larger one empties none."""
    driver = a_cluster(min_isr=2)
    driver.place("own", (1, 2, 3), min_insync_replicas="3")
    driver.place("none", (1, 2, 3))
    driver.configure("", min_insync_replicas="2")
    for name in ("t", "own", "none"):
        assert driver.alter_partition(name, 0, (1,)).error_code == 0
    driver.configure("", min_insync_replicas="1")
    assert [driver.partitions(name)[0].elr for name in ("t", "own", "none")] == [(2, 3), (2, 3), ()]
    driver.configure("own", min_insync_replicas="2")
    assert driver.partitions("own")[0].elr == (2, 3)
    driver.configure("own", min_insync_replicas="1")
    assert driver.partitions("own")[0].elr == ()


def test_the_configured_min_isr_is_in_the_first_records() -> None:
    """Storage nodes read only the metadata log, and use the same number."""
    driver = a_cluster(**{"min.insync.replicas": "3"})
    assert driver.image.configs[4, ""] == {"min.insync.replicas": "3"}
    driver.place("u", (1, 2, 3))
    driver.fence(3)
    assert driver.partitions("u")[0].elr == (3,)


def test_a_failed_disk_affects_its_partitions_only(driver: Driver) -> None:
    """Node 1 lost the disk of one of its partitions and still leads the other; it is in the ELR of the
    first."""
    driver.place("u", (1, 2), (1, 2), min_insync_replicas="2")
    broken = ((driver.image.topics["u"].topic_id, 1),)
    driver.heartbeat(1, offline_replicas=broken)
    assert [(p.leader, p.elr) for p in driver.partitions("u")] == [(1, ()), (2, (1,))]
    driver.fence(2)
    assert driver.partitions("u")[1].leader == -1, "1 is eligible and active, but its disk is not"
    driver.heartbeat(1, offline_replicas=broken)
    assert driver.partitions("u")[1].leader == -1
    driver.heartbeat(1)
    assert driver.partitions("u")[1].leader == 1


def test_a_disk_replaced_during_a_controller_restart() -> None:
    """The new controller has the failure from the metadata, and elects again."""
    driver = a_cluster(replicas=(1,), min_isr=1)
    driver.heartbeat(1, offline_replicas=((driver.image.topics["t"].topic_id, 0),))
    assert facts(driver)[0] == -1
    driver.restart()
    driver.heartbeat(1)
    assert facts(driver)[0] == 1


def test_offline_replicas_are_in_the_metadata() -> None:
    """From the heartbeat that reports them, once, also of a fenced node; a restarted controller knows them
    and elects no leader there. The node's next process reports again."""
    driver = a_cluster(replicas=(1,), min_isr=1)
    broken = ((driver.image.topics["t"].topic_id, 0),)
    driver.heartbeat(1, offline_replicas=broken * 2)
    assert driver.image.brokers[1].offline_replicas == broken
    offset = driver.image.offset
    driver.heartbeat(1, offline_replicas=broken)
    assert driver.image.offset == offset
    driver.restart()
    assert facts(driver)[0] == -1
    driver.heartbeat(1, want_fence=True, offline_replicas=broken)
    assert driver.image.brokers[1].is_fenced
    driver.heartbeat(1, offline_replicas=broken)
    assert (driver.image.brokers[1].is_fenced, facts(driver)[0]) == (False, -1)
    driver.fence(1)
    driver.register(1, 77, previous_broker_epoch=driver.image.brokers[1].broker_epoch)
    assert driver.image.brokers[1].offline_replicas == ()
    driver.heartbeat(1, offline_replicas=broken)
    assert (driver.image.brokers[1].offline_replicas, facts(driver)[0]) == (broken, -1)
    driver.heartbeat(1)
    assert (driver.image.brokers[1].offline_replicas, facts(driver)[0]) == ((), 1)


def test_a_node_without_an_online_log_dir_is_fenced(driver: Driver) -> None:
    """It has one of two left, then none; unknown ones do not count."""
    disks = (b"a" * 16, b"b" * 16)
    driver.join(1, log_dir_ids=disks)
    assert not driver.heartbeat(1, offline_log_dirs=(disks[0], b"c" * 16)).is_fenced
    assert driver.heartbeat(1, offline_log_dirs=disks).is_fenced


def test_an_older_log_with_a_fenced_node_in_the_isr() -> None:
    """Before there was an ELR the last member stayed in the ISR while it was fenced. It still leads when it
    is unfenced, and after an unclean restart it is the last known leader."""
    driver = a_cluster(replicas=(1,), min_isr=1)
    driver.fence(1)
    from headrace.protocol.metadata.records import PartitionChangeRecord

    topic_id = driver.image.topics["t"].topic_id
    old = PartitionChangeRecord(topic_id, 0, isr=(1,), elr=(), last_known_elr=())
    driver.take((old,))
    driver.come_back(1, 11, is_clean=True)
    assert facts(driver) == (1, (1,), (), ())
    driver.fence(1)
    driver.take((old,))
    driver.come_back(1, 12, is_clean=False)
    assert facts(driver) == (1, (1,), (), ())
    assert driver.partitions("t")[0].leader_recovery_state == 1


def full(driver: Driver, node: int, topic: str = "t", partition: int = 0) -> None:
    """The node has no free space for the partition."""
    driver.heartbeat(node, full_replicas=((driver.image.topics[topic].topic_id, partition),))


def test_a_replica_on_a_full_disk_leaves_the_isr(driver: Driver) -> None:
    """Two others in sync are enough for min ISR 2. It does not join again without free space."""
    full(driver, 1)
    assert facts(driver) == (2, (2, 3), (), ())
    refused = driver.alter_partition("t", 0, (1, 2, 3))
    assert refused.error_code == IneligibleReplicaError.code
    assert "full" in refused.error_detail
    driver.heartbeat(1)
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == 0
    assert facts(driver)[0] == 2


def test_a_full_follower_leaves_the_isr_at_once(driver: Driver) -> None:
    """Otherwise acks=all would wait until it counts as lagging."""
    full(driver, 3)
    assert facts(driver) == (1, (1, 2), (), ())


@pytest.mark.parametrize(("replicas", "min_isr"), [((1,), 1), ((1, 2), 2), ((1, 2, 3), 3)])
def test_a_replica_on_a_full_disk_stays_with_too_few_others(replicas, min_isr: int) -> None:
    """Producers are refused either way, consumers are served."""
    driver = a_cluster(min_isr, replicas)
    full(driver, 1)
    assert facts(driver) == (1, replicas, (), ())


def test_replicas_on_full_disks_serve_reads(driver: Driver) -> None:
    """The second one has no successor with free space and stays leader; the ISR keeps its size."""
    full(driver, 1)
    full(driver, 2)
    full(driver, 3)
    assert facts(driver) == (2, (2, 3), (), ())
    driver.fence(2)
    assert facts(driver)[:2] == (3, (3,)), "a leader is elected, also with a full disk"


def test_replicas_with_free_space_are_elected_first(driver: Driver) -> None:
    """1 is fenced; 2 is first in order, but full: it stayed in the ISR, since 3 alone is too few."""
    driver.fence(1)
    full(driver, 2)
    assert facts(driver)[0] == 2
    driver.heartbeat(1)
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == 0
    full(driver, 2)
    assert facts(driver)[:2] == (1, (1, 3)), "relieved as soon as others are enough"


def test_a_drained_leader_adds_eligible_replicas_and_one_is_elected() -> None:
    """Valid: both have every acknowledged record. A leader outside of ISR and ELR is not."""
    before = PartitionRegistration((3, 4, 1), (3,), 3, 0, 1, elr=(1, 4))
    check_change(before, PartitionRegistration((3, 4, 1), (1, 4), 4, 1, 2), 2, frozenset())
    with pytest.raises(AssertionError, match="an unclean leader"):
        check_change(
            replace(before, isr=(), leader=-1, elr=(1,)),
            PartitionRegistration((3, 4, 1), (4,), 4, 1, 2, elr=(1,)),
            2,
            frozenset(),
        )


def test_unclean_election_may_take_a_member_of_the_elr() -> None:
    """The disk of the ISR's last member has failed: a member of the ELR is elected, and the record marks the
    election as unclean. Without the mark it breaks the invariant."""
    before = PartitionRegistration((4, 1, 2), (4,), -1, 3, 4, elr=(2,))
    after = PartitionRegistration((4, 1, 2), (2,), 2, 4, 5, leader_recovery_state=1)
    check_change(before, after, 2, frozenset())
    with pytest.raises(AssertionError, match="an unclean leader"):
        check_change(before, replace(after, leader_recovery_state=0), 2, frozenset())
