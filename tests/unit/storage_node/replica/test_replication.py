"""Node cores that replicate to each other: acknowledged records are on every next leader."""

import pytest
from fake_files import FakeFiles
from headrace.protocol import errors
from headrace.protocol.metadata.records import UnfenceBrokerRecord
from replica_rig import TOPIC, Replicas


@pytest.mark.parametrize("durability", ["async", "fsync"])
def test_acks_all_record_is_in_every_log(durability) -> None:
    """And every replica knows that it is committed."""
    cluster = Replicas.settled(durability=durability)
    requests = [cluster.produce(b"%d" % number) for number in range(5)]
    assert not any(request.is_answered for request in requests)
    cluster.settle()
    assert [request.first.base_offset for request in requests] == [0, 1, 2, 3, 4]
    for node in (1, 2, 3):
        assert cluster.values(node) == [b"0", b"1", b"2", b"3", b"4"]
        assert cluster.watermark(node) == 5


def test_idle_cluster_only_repeats_waiting_fetches() -> None:
    """No record is lost over it."""
    cluster = Replicas()
    cluster.write()
    cluster.pass_time(3_000)
    assert cluster.registration.isr == (1, 2, 3)
    request = cluster.write()
    assert request.is_answered


def test_acks_all_waits_for_every_isr_member() -> None:
    """An isolated one delays it."""
    cluster = Replicas.settled()
    cluster.cut_link(3, 1)
    request = cluster.write(timeout_ms=60_000)
    assert cluster.end(2) == 1
    assert not request.is_answered
    assert cluster.watermark(1) == 0


def test_lagging_follower_leaves_the_isr_and_waiting_records_commit() -> None:
    """After replica.lag.time.max.ms, not before."""
    cluster = Replicas.settled(min_isr=2, node={"replica_lag_time_max_ms": 1_000})
    cluster.cut_link(3, 1)
    request = cluster.produce(timeout_ms=60_000)
    cluster.pass_time(800)
    assert cluster.registration.isr == (1, 2, 3)
    cluster.pass_time(1_000)
    assert cluster.registration.isr == (1, 2)
    assert request.first.error_code == 0
    assert cluster.nodes[1].core.counters.isr_shrinks == 1


def test_caught_up_follower_joins_the_isr() -> None:
    cluster = Replicas.settled(min_isr=2, node={"replica_lag_time_max_ms": 1_000})
    cluster.cut_link(3, 1)
    cluster.produce()
    cluster.pass_time(2_000)
    cluster.heal()
    cluster.pass_time(2_000)
    assert cluster.registration.isr == (1, 2, 3)
    assert cluster.values(3) == cluster.values(1)
    assert cluster.nodes[1].core.counters.isr_expands == 1


def test_idle_follower_stays_in_sync() -> None:
    """It was at the log end at each fetch, although the fetches did not contain the partition."""
    cluster = Replicas(node={"replica_lag_time_max_ms": 1_000})
    cluster.write()
    cluster.pass_time(5_000)
    cluster.cut = {(2, 1), (3, 1)}
    cluster.break_link(2, 1)
    cluster.break_link(3, 1)
    cluster.produce()
    cluster.nodes[1].core.tick(cluster.nodes[1].now_ms + 400, 0)
    assert cluster.partition(1).in_sync.lagging(cluster.end(1), cluster.now_ms + 400) == ()
    assert cluster.partition(1).in_sync.lagging(cluster.end(1), cluster.now_ms + 2_000) == (2, 3)


def test_new_leader_has_all_acknowledged_records() -> None:
    cluster = Replicas.settled(min_isr=2)
    cluster.write(b"a")
    cluster.crash(1)
    cluster.publish()
    cluster.fence(1)
    cluster.change(leader=2, isr=(2, 3))
    cluster.settle()
    request = cluster.write(b"b")
    assert request.first.base_offset == 1
    assert cluster.values(2) == cluster.values(3) == [b"a", b"b"]


def test_old_leader_truncates_unreplicated_records() -> None:
    """They were never acknowledged (KIP-101)."""
    cluster = Replicas.settled(min_isr=2)
    cluster.write(b"a")
    cluster.isolate(1)
    lost = cluster.produce(b"lost", node=1, timeout_ms=500)
    cluster.nodes[1].produce(TOPIC, acks=1)
    cluster.change(leader=2, isr=(2, 3))
    cluster.write(b"b")
    assert cluster.end(1) == 3
    cluster.heal()
    cluster.settle()
    assert lost.first.error_code == errors.NotLeaderOrFollowerError.code
    cluster.pass_time(1_000)
    assert cluster.values(1) == [b"a", b"b"]
    assert cluster.registration.isr == (1, 2, 3)


def test_isolated_leader_commits_nothing() -> None:
    """It cannot shrink its ISR without the controller."""
    cluster = Replicas.settled(min_isr=1, node={"replica_lag_time_max_ms": 1_000})
    cluster.isolate(1)
    request = cluster.produce(timeout_ms=5_000, node=1)
    cluster.pass_time(6_000)
    assert request.first.error_code == errors.RequestTimedOutError.code
    assert cluster.watermark(1) == 0


def test_epochs_without_records_do_not_prevent_agreement() -> None:
    """KIP-279, KAFKA-10706: two failovers in a row."""
    cluster = Replicas.settled(min_isr=1)
    cluster.write(b"a")
    cluster.isolate(1)
    cluster.produce(b"x", node=1, acks=1)
    for leader in (2, 3, 2, 3):
        cluster.frozen = {1} if leader == 2 else {1, 2}
        cluster.change(leader=leader, isr=(2, 3))
    cluster.frozen = {1}
    cluster.publish()
    cluster.settle()
    cluster.write(b"b")
    cluster.heal()
    cluster.settle()
    cluster.pass_time(2_000)
    assert cluster.values(1) == cluster.values(2) == cluster.values(3) == [b"a", b"b"]
    assert cluster.registration.isr == (1, 2, 3)


def test_logs_that_diverged_over_several_epochs_converge() -> None:
    """KIP-279: leader and follower do not know each other's epochs."""
    cluster = Replicas.settled(nodes=2)
    cluster.write(b"a")
    for epoch in range(4):  # each leads alone and writes, as after unclean elections
        leader, other = (1, 2) if epoch % 2 else (2, 1)
        cluster.isolate(other)
        cluster.change(leader=leader, isr=(leader,))
        for number in range(epoch + 1):
            cluster.produce(b"%d-%d" % (leader, number), acks=1)
        cluster.cut.clear()
        cluster.no_controller.clear()
        cluster.frozen.clear()
        # the other node learns of the next leader epoch only
    cluster.heal()
    cluster.settle()
    cluster.pass_time(2_000)
    assert cluster.values(1) == cluster.values(2)
    cluster.check_prefixes()


def test_acks_all_below_min_isr_appends_nothing() -> None:
    cluster = Replicas.settled(min_isr=2, node={"replica_lag_time_max_ms": 1_000})
    cluster.change(isr=(1,))
    assert cluster.produce().first.error_code == errors.NotEnoughReplicasError.code
    assert cluster.end(1) == 0


def test_below_min_isr_nothing_is_committed() -> None:
    """KIP-966: acks=1 writes are appended, but not visible."""
    cluster = Replicas.settled(min_isr=2)
    for node in (2, 3):
        cluster.fence(node)
        cluster.cut.add((node, 1))
        cluster.break_link(node, 1)
    cluster.change(isr=(1,))
    assert cluster.produce(acks=1).first.error_code == 0
    cluster.settle()
    assert cluster.watermark(1) == 0


def test_follower_without_fetches_does_not_rejoin_the_isr() -> None:
    """Below min.insync.replicas the high watermark stands at the lost followers' last offsets: reaching it
    does not mean that they are alive."""
    cluster = Replicas.settled(min_isr=2, node={"replica_lag_time_max_ms": 1_000})
    for node in (2, 3):
        cluster.cut.add((node, 1))
        cluster.break_link(node, 1)
    cluster.produce(timeout_ms=60_000)
    cluster.pass_time(6_000)
    assert cluster.registration.isr == (1,)
    assert cluster.nodes[1].core.counters.isr_expands == 0
    refused = cluster.write()
    assert refused.first.error_code == errors.NotEnoughReplicasError.code
    cluster.heal()
    cluster.pass_time(2_000)
    assert cluster.registration.isr == (1, 2, 3)


def test_isr_shrink_after_the_append_is_an_error() -> None:
    cluster = Replicas.settled(min_isr=2)
    for node in (2, 3):
        cluster.cut.add((node, 1))
        cluster.break_link(node, 1)
    request = cluster.produce(timeout_ms=400)
    cluster.fence(2)
    cluster.fence(3)
    cluster.change(isr=(1,))
    cluster.pass_time(500)
    assert request.first.error_code == errors.NotEnoughReplicasAfterAppendError.code


def test_restarted_follower_joins_only_after_a_fetch() -> None:
    """KIP-903: the proposal has the broker epoch of the last fetch."""
    cluster = Replicas.settled(node={"replica_lag_time_max_ms": 1_000})
    cluster.change(isr=(1, 2))
    files = cluster.crash(3)
    cluster.restart(3, files)
    cluster.settle()
    cluster.pass_time(200)
    assert cluster.registration.isr == (1, 2, 3)
    assert (3, cluster.epochs[3]) in cluster.asked[-1].partitions[0].isr
    assert (1, cluster.epochs[1]) in cluster.asked[-1].partitions[0].isr


def test_unfenced_follower_joins_without_a_new_fetch() -> None:
    """It was caught up while it was fenced."""
    cluster = Replicas()
    cluster.write()
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    cluster.pass_time(1_000)
    assert cluster.registration.isr == (1, 2)
    cluster.publish(UnfenceBrokerRecord(3, cluster.epochs[3]))
    cluster.settle()
    assert cluster.registration.isr == (1, 2, 3)


def test_node_with_an_empty_disk_fetches_everything() -> None:
    """It counts only afterwards."""
    cluster = Replicas.settled(min_isr=2)
    for number in range(10):
        cluster.produce(b"%d" % number)
    cluster.settle()
    cluster.crash(3)
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    cluster.restart(3, FakeFiles())
    cluster.settle()
    cluster.pass_time(200)
    assert cluster.values(3) == cluster.values(1)
    assert cluster.registration.isr == (1, 2, 3)


def test_follower_starts_at_the_leaders_log_start() -> None:
    """Older records are deleted on the leader."""
    cluster = Replicas.settled()
    for _ in range(5):
        cluster.write()
        cluster.partition(1).log.roll()
    cluster.crash(3)
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    log = cluster.partition(1).log
    assert log.delete_segments_below(3)
    start = log.log_start_offset
    assert start > 0
    cluster.restart(3, FakeFiles())
    cluster.settle()
    cluster.pass_time(500)
    assert cluster.partition(3).log.log_start_offset == start
    assert cluster.values(3) == cluster.values(1)


def test_reassigned_replica_joins_when_it_has_everything() -> None:
    """Then it may lead, and the old replica is removed."""
    cluster = Replicas.settled(nodes=4, rf=3)
    for number in range(5):
        cluster.produce(b"%d" % number)
    cluster.settle()
    cluster.change(replicas=(1, 2, 3, 4), adding_replicas=(4,))
    cluster.settle()
    assert cluster.registration.isr == (1, 2, 3, 4)
    cluster.change(replicas=(4, 1, 2), isr=(1, 2, 4), adding_replicas=(), leader=4)
    cluster.settle()
    request = cluster.write(b"z")
    assert request.first.base_offset == 5
    assert (TOPIC, 0) not in cluster.held(3)
    assert cluster.values(1) == cluster.values(2) == cluster.values(4)


def test_replication_factor_from_one_to_three_and_back() -> None:
    cluster = Replicas(nodes=3, rf=1)
    assert cluster.produce(b"a").is_answered
    cluster.change(replicas=(1, 2, 3), adding_replicas=(2, 3))
    cluster.settle()
    assert cluster.registration.isr == (1, 2, 3)
    assert not cluster.produce(b"b").is_answered
    cluster.settle()
    cluster.change(replicas=(1,), isr=(1,), adding_replicas=())
    assert cluster.partition(1).in_sync is None
    assert cluster.produce(b"c").is_answered


def test_unclean_election_truncates_below_the_high_watermark() -> None:
    """Records are lost, which is logged; the logs agree."""
    cluster = Replicas.settled(nodes=2)
    cluster.write(b"a")
    cluster.isolate(2)
    cluster.fence(2)
    cluster.change(isr=(1,))
    cluster.write(b"b")
    assert cluster.watermark(1) == 2
    cluster.heal()
    cluster.change(leader=2, isr=(2,))
    cluster.settle()
    cluster.pass_time(500)
    assert cluster.values(1) == cluster.values(2) == [b"a"]
    assert cluster.watermark(1) == 1
    assert "below its high watermark 2" in cluster.nodes[1].notes()


@pytest.mark.parametrize("is_checkpointing", [False, True])
def test_truncation_waits_for_flush_and_checkpoint(is_checkpointing) -> None:
    """Both would name offsets that do not exist any more."""
    cluster = Replicas.settled(nodes=2)
    cluster.isolate(1)
    cluster.produce(b"x", node=1, acks=1)
    cluster.change(leader=2, isr=(2,))
    cluster.is_flushing = False
    if is_checkpointing:
        cluster.nodes[1].begin_checkpoint()
    else:
        cluster.nodes[1].core.flush_all()
        cluster.nodes[1].check()
    cluster.heal()
    cluster.settle()
    cluster.pass_time(500)
    assert cluster.end(1) == 1
    if is_checkpointing:
        cluster.nodes[1].end_checkpoint()
    else:
        assert cluster.nodes[1].flush() == 1
    assert cluster.end(1) == 0
    cluster.settle()
    cluster.pass_time(200)
    assert cluster.registration.isr == (1, 2)


def test_fsync_follower_counts_only_flushed_records() -> None:
    """It fetches the next offset after the flush."""
    cluster = Replicas.settled(nodes=2, durability="fsync")
    cluster.is_flushing = False
    request = cluster.produce(timeout_ms=60_000)
    cluster.nodes[1].flush()
    cluster.settle()
    assert cluster.end(2) == 1
    assert not request.is_answered
    cluster.nodes[2].flush()
    cluster.settle()
    assert request.first.error_code == 0


def test_fsync_acks_all_survives_power_loss_of_all_nodes() -> None:
    cluster = Replicas.settled(durability="fsync", min_isr=2)
    requests = [cluster.produce(b"%d" % number) for number in range(5)]
    cluster.settle()
    assert all(request.first.error_code == 0 for request in requests)
    files = {node: cluster.crash(node, power="none") for node in (1, 2, 3)}
    for node in (1, 2, 3):
        cluster.restart(node, files[node])
    cluster.change(leader=3, isr=(1, 2, 3))
    cluster.settle()
    assert cluster.values(3) == [b"0", b"1", b"2", b"3", b"4"]


def test_corrupt_response_is_fetched_again() -> None:
    cluster = Replicas.settled(nodes=2)
    cluster.produce(b"a")
    fetch = next(fetch for fetch in cluster._fetches if fetch.request.is_answered)
    frame = bytearray(fetch.request.answer_frames[0])
    frame[-1] ^= 1
    fetch.request.answer_frames[0] = bytes(frame)
    cluster.settle()
    assert cluster.end(2) == 0
    cluster.pass_time(1_000)
    assert cluster.values(2) == [b"a"]


def test_failed_follower_disk_stops_only_its_partitions() -> None:
    """They leave the ISR like lagging ones."""
    cluster = Replicas.settled(node={"replica_lag_time_max_ms": 1_000})
    cluster.nodes[2].core.replicas.disks.failed(
        cluster.partition(2), errors.KafkaStorageError("gone"), cluster.now_ms
    )
    cluster.nodes[2].check()
    cluster.produce(timeout_ms=60_000)
    cluster.pass_time(3_000)
    assert cluster.registration.isr == (1, 3)


def test_restarted_leader_rejects_old_fetch_sessions() -> None:
    """The follower starts a new one."""
    cluster = Replicas()
    cluster.write(b"a")
    files = cluster.crash(1)
    cluster.restart(1, files)
    cluster.change(leader=1, isr=(1, 2, 3))
    cluster.settle()
    cluster.pass_time(1_000)
    request = cluster.write(b"b")
    assert request.first.error_code == 0


def test_partition_followed_again_is_added_to_the_session_again() -> None:
    """Its state was dropped while the session went on, and no new record will come."""
    cluster = Replicas()
    cluster.write(b"a")
    cluster.pass_time(1_000)
    partition, fetchers = cluster.partition(2), cluster.nodes[2].core.replicas.fetchers
    fetchers.drop(partition.key)
    fetchers.place(partition, 0)
    cluster.pass_time(1_000)
    (followed,) = fetchers.followed
    assert (followed.leader_watermark, followed.leader_start) == (1, 0)


def test_follower_waiting_for_a_flush_sets_no_timer() -> None:
    """After a lost connection nothing is fetched until the flush is done."""
    cluster = Replicas.settled(nodes=2, durability="fsync")
    cluster.is_flushing = False
    cluster.produce()
    cluster.nodes[1].flush()
    cluster.settle()
    cluster.cut_link(2, 1)
    cluster.pass_time(200)
    assert cluster.nodes[2].core.replicas.fetchers.next_deadline_ms() is None
    cluster.nodes[2].flush()
    cluster.heal()
    cluster.pass_time(2_000)
    assert cluster.watermark(1) == 1


def diverged() -> Replicas:
    """Node 3 has `b`, which is committed above its own high watermark, and `x`, which no other node has: node
    2, with `a` and `b`, leads next."""
    cluster = Replicas.settled()
    cluster.write(b"a")
    cluster.cut_link(3, 1)
    cluster.write(b"b")
    cluster.cut = {(2, 1)}
    cluster.break_link(2, 1)
    cluster.produce(b"x")
    cluster.nodes[3].pass_time(2_000)
    while cluster.end(3) < 3:
        assert cluster.step()
    cluster.held_back = {(3, 1)}
    cluster.settle()
    cluster.isolate(1)
    assert (cluster.watermark(1), cluster.watermark(3), cluster.end(3), cluster.end(2)) == (2, 1, 3, 2)
    return cluster


def test_log_is_truncated_by_epoch_not_to_the_high_watermark() -> None:
    """KIP-101: committed records stay."""
    cluster = diverged()
    cluster.change(leader=2, isr=(2, 3))
    ends = []
    while cluster.step():
        ends.append(cluster.end(3))
    assert min(ends) == 2
    assert cluster.values(3) == [b"a", b"b"]
    assert cluster.watermark(3) == 2


def test_diverged_log_takes_no_high_watermark_before_truncation() -> None:
    """KAFKA-14704: otherwise unacknowledged records would count as committed."""
    cluster = diverged()
    cluster.nodes[3].begin_checkpoint()
    cluster.fence(3)
    cluster.change(leader=2, isr=(2,))
    cluster.write(b"y")
    cluster.pass_time(1_000)
    assert cluster.watermark(2) == 3
    assert cluster.watermark(3) <= 2
    cluster.nodes[3].end_checkpoint()
    cluster.settle()
    assert cluster.values(3) == [b"a", b"b", b"y"]
    assert cluster.watermark(3) == 3
