"""Who leads when nodes go, come and lose records: ISR, ELR and last known leader (KIP-966), through the
core."""

from __future__ import annotations

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


def facts(driver: Driver):
    """Leader, ISR, ELR, last known leader."""
    p = driver.partitions("t")[0]
    return p.leader, p.isr, p.elr, p.last_known_elr


def test_the_next_in_sync_takes_over() -> None:
    """The leader goes; who is left satisfies min ISR, so the one that went is not eligible."""
    driver = a_cluster()
    driver.fence(1)
    assert facts(driver) == (2, (2, 3), (), ())


def test_below_min_isr_who_leaves_stays_eligible() -> None:
    """The high watermark stands still from then on, so both that left have every acknowledged record."""
    driver = a_cluster()
    driver.fence(1, 2)
    assert facts(driver) == (3, (3,), (2,), ())
    driver.fence(3)
    assert facts(driver) == (-1, (), (2, 3), (3,))
    driver.heartbeat(1)
    assert facts(driver)[0] == -1, "1 left while min ISR was kept: it may miss records"
    driver.heartbeat(2)
    assert facts(driver) == (2, (2,), (3,), ()), "an eligible one is as good as one in sync"


def test_the_elr_ends_when_min_isr_is_reached() -> None:
    """From then on the high watermark moves without those who are away."""
    driver = a_cluster()
    driver.fence(1, 2)
    driver.heartbeat(1)
    assert driver.alter_partition("t", 0, (1, 3)).error_code == 0
    assert facts(driver) == (3, (1, 3), (), ())


def test_an_elr_of_several_ends_with_an_isr_that_is_enough_alone() -> None:
    """min.insync.replicas went down to 1 while all were away. The first one back is enough: had the others
    stayed eligible, they could lead later without the records acknowledged meanwhile."""
    driver = a_cluster()
    driver.fence(1, 2, 3)
    driver.configure("t", min_insync_replicas="1")
    assert facts(driver)[2] == (2, 3)
    driver.heartbeat(3)
    assert facts(driver) == (3, (3,), (), ())


def test_a_leader_that_shrinks_below_min_isr_leaves_the_others_eligible() -> None:
    """AlterPartition, not fencing: both followers lag."""
    driver = a_cluster()
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    assert facts(driver) == (1, (1,), (2, 3), ())


def test_more_min_isr_than_replicas_counts_as_all() -> None:
    """min.insync.replicas 3 with two replicas: both in sync is enough, one is not."""
    driver = a_cluster(min_isr=3, replicas=(1, 2))
    driver.fence(2)
    assert facts(driver) == (1, (1,), (2,), ())
    driver.heartbeat(2)
    assert driver.alter_partition("t", 0, (1, 2)).error_code == 0
    assert facts(driver) == (1, (1, 2), (), ())


def test_a_restart_that_lost_records_ends_eligibility() -> None:
    """2 was eligible and comes back after a power cut: it may miss records and must not lead; 3 must."""
    driver = a_cluster()
    driver.fence(1, 2, 3)
    driver.come_back(2, 22, is_clean=False)
    assert facts(driver) == (-1, (), (3,), (3,))
    driver.come_back(3, 33, is_clean=True)
    assert facts(driver) == (3, (3,), (), ())


def test_a_clean_restart_keeps_eligibility() -> None:
    """The epoch it ended under is the newest one the controller knows."""
    driver = a_cluster()
    driver.fence(1, 2, 3)
    driver.come_back(2, 22, is_clean=True)
    assert facts(driver) == (2, (2,), (3,), ())


@pytest.mark.parametrize("off", [-1, +1])
def test_a_clean_end_under_another_epoch_is_no_proof(off) -> None:
    """The disk was copied, or an older snapshot of the machine was started."""
    driver = a_cluster()
    driver.fence(1, 2, 3)
    epoch = driver.image.brokers[2].broker_epoch
    assert driver.register(2, 22, previous_broker_epoch=epoch + off).error_code == 0
    assert facts(driver)[2] == (3,)


def test_a_process_that_never_heard_its_epoch_keeps_eligibility() -> None:
    """It registered, the answer was lost, and it ended in order: all it can say is what was said before it.
    Nothing was written under an epoch that it never knew. As often as that happens, and also when it
    registers again meanwhile."""
    driver = a_cluster()
    driver.fence(1, 2, 3)
    epoch = driver.image.brokers[2].broker_epoch
    for process in (22, 222, 222, 2222):
        assert driver.register(2, process, previous_broker_epoch=epoch, port=process).error_code == 0
        driver.now_ms += 60_000
        assert facts(driver)[2] == (2, 3)
    lost = (("t", 0),)
    assert driver.register(2, 23, previous_broker_epoch=epoch, lost_replicas=lost).error_code == 0
    assert facts(driver)[2] == (3,)


def test_who_was_let_in_is_believed_its_own_epoch_alone() -> None:
    """An older copy of its disk was started: it had written since."""
    driver = a_cluster()
    driver.fence(1, 2, 3)
    epoch = driver.image.brokers[2].broker_epoch
    driver.come_back(2, 22, is_clean=True)
    driver.fence(2)
    assert driver.register(2, 222, previous_broker_epoch=epoch).error_code == 0
    assert facts(driver)[2] == (3,)


def test_who_lost_records_lost_them_for_good() -> None:
    """It does not know its epoch either, and ended in order since."""
    driver = a_cluster()
    driver.fence(1, 2, 3)
    for process in (22, 222):
        assert driver.register(2, process).error_code == 0
        driver.now_ms += 60_000
        assert facts(driver)[2] == (3,)


def test_a_log_that_was_cut_while_its_node_was_down_ends_eligibility_of_that_partition_alone() -> None:
    """2 ended in order, and the log of one of its two partitions was cut then. A topic that is gone, and a
    partition that never was, are passed over."""
    driver = a_cluster()
    driver.place("u", (1, 2, 3), (1, 2, 3), min_insync_replicas="2")
    driver.fence(1, 2, 3)
    lost = (("t", 0), ("u", 1), ("u", 7), ("gone", 0))
    driver.come_back(2, 22, is_clean=True, lost_replicas=lost)
    assert facts(driver) == (-1, (), (3,), (3,))
    assert [(p.leader, p.elr) for p in driver.partitions("u")] == [(2, (3,)), (-1, (3,))]


def test_a_cut_log_of_a_node_that_is_not_fenced_yet() -> None:
    """It ended in order but could not say goodbye, and its session had run out: the ISR of the cut log loses
    it for good, the other partition keeps it eligible."""
    driver = a_cluster(replicas=(1, 2))
    driver.place("u", (1, 2), min_insync_replicas="2")
    epoch = driver.image.brokers[2].broker_epoch
    driver.now_ms += 1500
    answer = driver.register(2, 22, previous_broker_epoch=epoch, lost_replicas=(("t", 0),))
    assert answer.error_code == 0
    assert facts(driver) == (1, (1,), (), ())
    assert driver.partitions("u")[0].elr == (2,)


def test_a_quick_restart_that_lost_records_leaves_the_isr() -> None:
    """Its session had run out, but it was not fenced yet when its next process came."""
    driver = a_cluster()
    driver.now_ms += 1500
    assert driver.register(1, 11).error_code == 0
    assert facts(driver) == (2, (2, 3), (), ())


def test_all_restarted_and_lost_records_the_last_leader_leads() -> None:
    """Nobody is sure to have everything. The one that led last has the most; it says that it must recover."""
    driver = a_cluster()
    driver.fence(1, 2, 3)
    for node in (2, 1):
        driver.come_back(node, node * 11, is_clean=False)
    assert facts(driver) == (-1, (), (3,), (3,))
    assert driver.register(3, 33).error_code == 0
    assert facts(driver) == (-1, (), (), (3,)), "1 and 2 are active, but were not the last leader"
    driver.heartbeat(3)
    assert facts(driver) == (3, (3,), (), ())
    assert driver.partitions("t")[0].leader_recovery_state == 1


def test_the_last_leader_waits_for_an_operator_if_so_configured() -> None:
    """unclean.recovery.strategy=None."""
    driver = a_cluster(replicas=(1,), min_isr=1, **{"unclean.recovery.strategy": "None"})
    driver.fence(1)
    driver.come_back(1, 11, is_clean=False)
    assert facts(driver) == (-1, (), (), (1,))
    assert driver.elect(1, "t", 0) == [0]
    assert facts(driver) == (1, (1,), (), ())


def test_a_single_replica_survives_any_restart() -> None:
    """There is nobody else to ask."""
    driver = a_cluster(replicas=(1,), min_isr=1)
    for process, is_clean in ((11, True), (12, False)):
        driver.fence(1)
        assert facts(driver) == (-1, (), (1,), (1,))
        driver.come_back(1, process, is_clean=is_clean)
        assert facts(driver) == (1, (1,), (), ())


def test_with_min_isr_of_one_only_the_last_one_is_eligible() -> None:
    """Each that left before it may miss records."""
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
    """By the topic, by the cluster, or by the controller's own config; at once when the last one goes."""
    static = {"unclean.leader.election.enable": "true"} if where == "static" else {}
    driver = a_cluster(min_isr=1, **static)
    if where != "static":
        driver.configure(where, unclean_leader_election_enable="true")
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    driver.fence(1)
    assert facts(driver) == (2, (2,), (), ())
    assert driver.partitions("t")[0].leader_recovery_state == 1


def test_a_topic_may_forbid_what_the_cluster_allows() -> None:
    """The nearest config wins."""
    driver = a_cluster(min_isr=1)
    driver.configure("", unclean_leader_election_enable="true")
    driver.configure("t", unclean_leader_election_enable="false")
    assert driver.alter_partition("t", 0, (1,)).error_code == 0
    driver.fence(1)
    assert facts(driver)[0] == -1


def test_smaller_min_isr_ends_elrs_in_the_same_decision() -> None:
    """Topic by topic, and for the cluster where the topic has no value of its own; a larger one ends none."""
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


def test_the_configured_min_isr_is_the_clusters_from_its_first_record_on() -> None:
    """So that storage nodes, which read only the metadata log, go by the same number."""
    driver = a_cluster(**{"min.insync.replicas": "3"})
    assert driver.image.configs[4, ""] == {"min.insync.replicas": "3"}
    driver.place("u", (1, 2, 3))
    driver.fence(3)
    assert driver.partitions("u")[0].elr == (3,)


def test_a_broken_disk_is_like_being_away_for_its_partitions_only() -> None:
    """1 lost the disk under one of its partitions, and leads the other one on; the ELR takes it up."""
    driver = a_cluster()
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


def test_a_disk_that_came_back_while_the_controller_was_restarted() -> None:
    """The new controller never knew that it was broken, so nothing seems to have changed."""
    driver = a_cluster(replicas=(1,), min_isr=1)
    driver.heartbeat(1, offline_replicas=((driver.image.topics["t"].topic_id, 0),))
    assert facts(driver)[0] == -1
    driver.restart()
    driver.heartbeat(1)
    assert facts(driver)[0] == 1


def test_what_lies_on_broken_disks_is_in_the_metadata() -> None:
    """From the heartbeat on that tells it, once, also of a fenced node; a controller that is restarted knows
    it, and nobody leads there. The node's next process tells anew."""
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


def test_a_node_without_any_disk_is_fenced() -> None:
    """It has one of two left, then none; unknown ones do not count."""
    driver = Driver()
    disks = (b"a" * 16, b"b" * 16)
    driver.join(1, log_dir_ids=disks)
    assert not driver.heartbeat(1, offline_log_dirs=(disks[0], b"c" * 16)).is_fenced
    assert driver.heartbeat(1, offline_log_dirs=disks).is_fenced


def test_an_older_log_with_a_fenced_node_in_the_isr() -> None:
    """Before there was an ELR the last member stayed in the ISR while it was away. It still leads when it is
    back, and if it lost records, it is known as the last one."""
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
    """The node has no room for records of the partition."""
    driver.heartbeat(node, full_replicas=((driver.image.topics[topic].topic_id, partition),))


def test_a_full_disk_hands_over_and_leaves_the_isr_where_producers_can_go_on() -> None:
    """Two others in sync are enough for min ISR 2. Who has no room does not come back before it has."""
    driver = a_cluster()
    full(driver, 1)
    assert facts(driver) == (2, (2, 3), (), ())
    refused = driver.alter_partition("t", 0, (1, 2, 3))
    assert refused.error_code == IneligibleReplicaError.code
    assert "full" in refused.error_detail
    driver.heartbeat(1)
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == 0
    assert facts(driver)[0] == 2


def test_a_full_follower_leaves_the_isr_at_once() -> None:
    """Else acks=all would wait for it until it counts as lagging."""
    driver = a_cluster()
    full(driver, 3)
    assert facts(driver) == (1, (1, 2), (), ())


@pytest.mark.parametrize(("replicas", "min_isr"), [((1,), 1), ((1, 2), 2), ((1, 2, 3), 3)])
def test_a_full_disk_stays_where_that_helps_nobody(replicas, min_isr: int) -> None:
    """Too few others: producers are refused either way, readers are served."""
    driver = a_cluster(min_isr, replicas)
    full(driver, 1)
    assert facts(driver) == (1, replicas, (), ())


def test_disks_that_are_all_full_are_read_on() -> None:
    """The second one finds nobody with room, and leads on; the ISR keeps its size."""
    driver = a_cluster()
    full(driver, 1)
    full(driver, 2)
    full(driver, 3)
    assert facts(driver) == (2, (2, 3), (), ())
    driver.fence(2)
    assert facts(driver)[:2] == (3, (3,)), "somebody must lead, with or without room"


def test_who_has_room_is_elected_before_who_has_not() -> None:
    """1 leads and goes; 2 is first in order, but full: it stayed, since 3 alone is too few."""
    driver = a_cluster()
    driver.fence(1)
    full(driver, 2)
    assert facts(driver)[0] == 2
    driver.heartbeat(1)
    assert driver.alter_partition("t", 0, (1, 2, 3)).error_code == 0
    full(driver, 2)
    assert facts(driver)[:2] == (1, (1, 3)), "relieved as soon as others are enough"


def test_a_drained_leader_lets_the_eligible_in_and_hands_over_in_one_step() -> None:
    """Lawful: both have every acknowledged record. That one outside of ISR and ELR leads instead is not."""
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
    """The disk of the ISR's last member has failed: a member of the ELR is elected, and the record says that
    the election was unclean. Without that mark it breaks the law."""
    before = PartitionRegistration((4, 1, 2), (4,), -1, 3, 4, elr=(2,))
    after = PartitionRegistration((4, 1, 2), (2,), 2, 4, 5, leader_recovery_state=1)
    check_change(before, after, 2, frozenset())
    with pytest.raises(AssertionError, match="an unclean leader"):
        check_change(before, replace(after, leader_recovery_state=0), 2, frozenset())
