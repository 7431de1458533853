"""DeleteRecords: what is refused, what is waited for, what is answered."""

import errno
from typing import Any

import pytest
from core_rig import CoreRig, FakePeer, FakeRequest
from fake_files import FakeFiles
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import DeleteRecordsPartition, DeleteRecordsRequest
from node_rig import batch
from replica_rig import TOPIC, Replicas


def asked(rig: CoreRig, topic_id: bytes, *offsets: int, timeout_ms: int = 1_000, **facts: Any) -> FakeRequest:
    """Delete records of partition 0 up to an offset, or of partitions 0, 1, .. up to one each."""
    epoch = facts.pop("epoch", -1)
    entries = tuple(
        DeleteRecordsPartition(topic_id, index, offset, epoch) for index, offset in enumerate(offsets)
    )
    return rig.ask(registry.DELETE_RECORDS, DeleteRecordsRequest(timeout_ms, entries), **facts)


def alone(**configs: str) -> tuple[CoreRig, bytes]:
    """A node with five records in one partition."""
    rig = CoreRig()
    topic_id = rig.topic(**configs)
    for number in range(5):
        rig.produce(topic_id, batch(b"%d" % number, key=b"k"))  # a compacted topic takes no other
    return rig, topic_id


def test_log_start_moves_after_it_is_written() -> None:
    """Not before: a crash would bring the records back."""
    rig, topic_id = alone()
    request = asked(rig, topic_id, 2)
    assert not request.is_answered
    assert rig.values(topic_id) == [b"0", b"1", b"2", b"3", b"4"]
    assert rig.checkpoint_starts()
    assert (request.first.error_code, request.first.low_watermark) == (0, 2)
    assert rig.fetch(topic_id, 1).first.error_code == errors.OffsetOutOfRangeError.code
    again = rig.restarted(power="none")
    assert again.core.table.partitions[topic_id, 0].log.log_start_offset == 2


def test_timeout_does_not_count_for_the_leaders_write() -> None:
    """A single replica responds when its log start is written, however long that takes."""
    rig, topic_id = alone()
    request = asked(rig, topic_id, 2, timeout_ms=0)
    rig.pass_time(50)
    assert not request.is_answered
    rig.checkpoint_starts()
    assert (request.first.error_code, request.first.low_watermark) == (0, 2)
    again = asked(rig, topic_id, 1, timeout_ms=0)
    assert (again.first.error_code, again.first.low_watermark) == (0, 2), (
        "the low watermark is reached already"
    )


def test_timeout_0_does_not_wait_for_followers() -> None:
    """RequestTimedOutError once the leader's log start is written."""
    cluster = Replicas()
    cluster.write(b"a", b"b", b"c")
    rig = cluster.leader
    request = asked(rig, TOPIC, 2, timeout_ms=0)
    rig.pass_time(50)
    assert not request.is_answered
    rig.checkpoint_starts()
    assert request.first.error_code == errors.RequestTimedOutError.code
    assert cluster.partition(1).log.log_start_offset == 2


def test_unwritten_log_start_times_out() -> None:
    """For example on a full disk."""
    rig, topic_id = alone()
    request = asked(rig, topic_id, 2, timeout_ms=0)
    rig.pass_time(3_600_000)
    assert request.first.error_code == errors.RequestTimedOutError.code


def test_offset_minus_one_deletes_up_to_the_high_watermark() -> None:
    """The log continues after it."""
    rig, topic_id = alone()
    request = asked(rig, topic_id, -1)
    rig.checkpoint_starts()
    assert request.first.low_watermark == 5
    assert rig.fetch(topic_id, 5).first.error_code == 0
    assert rig.produce(topic_id).first.base_offset == 5


def test_offset_below_the_log_start_succeeds_at_once() -> None:
    """The log start never decreases."""
    rig, topic_id = alone()
    asked(rig, topic_id, 3)
    rig.checkpoint_starts()
    request = asked(rig, topic_id, 1)
    assert (request.first.error_code, request.first.low_watermark) == (0, 3)
    assert not rig.checkpoint_starts()


@pytest.mark.parametrize("offset", [6, -2, 2**62])
def test_offset_out_of_range_is_refused(offset: int) -> None:
    """Above the high watermark, or negative."""
    rig, topic_id = alone()
    assert asked(rig, topic_id, offset).first.error_code == errors.OffsetOutOfRangeError.code
    assert not rig.checkpoint_starts()


@pytest.mark.parametrize(
    ("policy", "code"),
    [("compact", errors.PolicyViolationError.code), ("compact,delete", 0), ("", 0), ("delete", 0)],
)
def test_compacted_topic_is_refused(policy: str, code: int) -> None:
    """Allowed with compact,delete, and without a policy, as in Kafka."""
    rig, topic_id = alone()
    rig.configure("t", "cleanup.policy", policy)
    request = asked(rig, topic_id, 2)
    rig.checkpoint_starts()
    assert request.first.error_code == code


def test_internal_topics_are_refused(rig: CoreRig) -> None:
    topic_id = rig.topic("__consumer_offsets")
    assert asked(rig, topic_id, 0).first.error_code == errors.InvalidTopicError.code


def test_entries_are_independent(rig: CoreRig) -> None:
    """One response for all of them."""
    topic_id = rig.topic(partitions=3)
    for partition in (0, 2):
        rig.produce(topic_id, partition=partition)
    request = asked(rig, topic_id, 1, 1, 1, 0)
    assert not request.is_answered
    rig.checkpoint_starts()
    codes = [answer.error_code for answer in request.answer.partitions]
    assert codes == [0, errors.OffsetOutOfRangeError.code, 0, 3]


def test_invalid_entries_and_requests_are_refused() -> None:
    """Unknown ids, other epochs, other leaders, too many entries."""
    rig, topic_id = alone()
    assert asked(rig, b"x" * 16, 1).first.error_code == errors.UnknownTopicIdError.code
    assert asked(rig, topic_id, 1, epoch=7).first.error_code == errors.UnknownLeaderEpochError.code
    rig.set_leader(topic_id, 2)
    answer = asked(rig, topic_id, 1).first
    assert (answer.error_code, answer.leader_id) == (errors.NotLeaderOrFollowerError.code, 2)
    many = [0] * (rig.config.max_request_partitions + 1)
    assert isinstance(asked(rig, topic_id, *many).error, errors.InvalidRequestError)


def test_requests_share_a_checkpoint() -> None:
    """Those that arrive during it wait for the next one."""
    rig, topic_id = alone()
    first, second = asked(rig, topic_id, 1), asked(rig, topic_id, 2)
    rig.begin_checkpoint()
    third = asked(rig, topic_id, 3)
    rig.end_checkpoint()
    assert (first.first.low_watermark, second.first.low_watermark) == (2, 2)
    assert not third.is_answered
    assert rig.checkpoint_starts()
    assert third.first.low_watermark == 3
    assert not rig.checkpoint_starts()


def test_request_of_a_disconnected_client_leaves_purgatory() -> None:
    rig, topic_id = alone()
    peer = FakePeer(session=5)
    request = asked(rig, topic_id, 1, peer=peer)
    peer.is_connected = False
    rig.core.connection_gone(5, rig.now_ms)
    assert request.is_dropped
    assert rig.core.parked == 0


# --- replicas -----------------------------------------------------------------------------------------------


def replicated(count: int = 4, **facts: Any) -> Replicas:
    cluster = Replicas.settled(**facts)
    for number in range(count):
        cluster.write(b"%d" % number)
    return cluster


def starts(cluster: Replicas) -> dict[int, int]:
    return {node: cluster.partition(node).log.log_start_offset for node in cluster.nodes}


@pytest.mark.parametrize("durability", ["async", "fsync"])
def test_response_waits_for_all_live_replicas(durability: str) -> None:
    """Followers learn the log start without new records, and report theirs."""
    cluster = replicated(durability=durability)
    request = asked(cluster.leader, TOPIC, 3)
    cluster.leader.checkpoint_starts()
    assert not request.is_answered, "the followers have not advanced their log starts"
    cluster.settle()
    assert (request.first.error_code, request.first.low_watermark) == (0, 3)
    assert starts(cluster) == {1: 3, 2: 3, 3: 3}
    for node in (2, 3):
        files = cluster.crash(node, power="none")
        assert _start_on(files, node) == 3
        cluster.restart(node, files)
    cluster.settle()
    assert cluster.values(2) == cluster.values(1) == [b"3"]


def _start_on(files: Any, node: int) -> int:
    rig = CoreRig(files.restart(), f"/d{node}", (), node)
    (log,) = rig.manager.logs.values()
    return int(log.log_start_offset)


def test_unreachable_follower_causes_a_timeout() -> None:
    cluster = replicated()
    cluster.cut = {(3, 1)}
    cluster.break_link(3, 1)
    request = asked(cluster.leader, TOPIC, 2, timeout_ms=500)
    cluster.settle()
    assert starts(cluster) == {1: 2, 2: 2, 3: 0}
    cluster.pass_time(600)
    assert request.first.error_code == errors.RequestTimedOutError.code
    again = asked(cluster.leader, TOPIC, 2, timeout_ms=5_000)
    assert not again.is_answered
    cluster.heal()
    cluster.pass_time(1_000)
    assert again.first.low_watermark == 2


def test_fenced_follower_does_not_count() -> None:
    """It has to fetch before it may lead. The metadata change ends the wait."""
    cluster = replicated()
    cluster.cut = {(3, 1)}
    cluster.break_link(3, 1)
    request = asked(cluster.leader, TOPIC, 2)
    cluster.settle()
    assert not request.is_answered
    cluster.fence(3)
    assert request.first.low_watermark == 2


def test_lost_leadership_is_an_error() -> None:
    """The next leader may not have deleted anything."""
    cluster = replicated()
    cluster.cut = {(3, 1)}
    cluster.break_link(3, 1)
    request = asked(cluster.nodes[1], TOPIC, 2)
    cluster.settle()
    cluster.change(leader=2)
    answer = request.first
    assert (answer.error_code, answer.leader_id) == (errors.NotLeaderOrFollowerError.code, 2)


def test_follower_starts_at_the_batch_of_the_log_start() -> None:
    """Records were deleted up to the middle of a batch: a new replica fetches the whole batch, also if a
    running checkpoint delays it."""
    cluster = _beginning_inside_a_batch()
    cluster.nodes[3].begin_checkpoint()
    cluster.settle()
    assert cluster.end(3) == 2
    cluster.nodes[3].end_checkpoint()
    _has_come_in(cluster)


def test_follower_without_space_for_the_batch_of_the_log_start_stays_empty() -> None:
    """Its log never ends before it starts."""
    cluster = _beginning_inside_a_batch()
    full = cluster.nodes[3]
    full.files.capacity_bytes = full.files.used_bytes() + 60
    for _ in range(50):
        cluster.step()
        log = cluster.partition(3).log
        assert log.log_start_offset == cluster.partition(3).high_watermark == log.log_end_offset == 2
    assert "no records are appended there until there is free space" in full.notes()
    full.files.capacity_bytes = None
    full.tick()
    _has_come_in(cluster)


def _beginning_inside_a_batch() -> Replicas:
    """Replica 3 lost its disk, and has just begun its log at offset 2, within the batch of four records."""
    cluster = Replicas.settled()
    cluster.write(b"a", b"b", b"c", b"d")
    request = asked(cluster.leader, TOPIC, 2)
    cluster.settle()
    assert request.first.low_watermark == 2
    cluster.crash(3)
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    cluster.restart(3, FakeFiles())
    for _ in range(100):
        if cluster.partition(3).log.log_start_offset == 2:
            break
        cluster.step()
    assert cluster.end(3) == 2
    return cluster


def _has_come_in(cluster: Replicas) -> None:
    cluster.pass_time(3_000)
    assert (starts(cluster), cluster.end(3)) == ({1: 2, 2: 2, 3: 2}, 4)
    assert cluster.registration.isr == (1, 2, 3)
    assert cluster.values(3) == cluster.values(1)
    again = cluster.crash(3, power="none")
    assert _start_on(again, 3) == 2


def test_follower_without_space_to_restart_inside_a_batch() -> None:
    """Its log ends before its start; nothing is committed there, and it continues when there is space."""
    cluster = Replicas.settled()
    cluster.write(b"a", b"b", b"c", b"d")
    asked(cluster.leader, TOPIC, 2)
    cluster.settle()
    cluster.crash(3)
    cluster.fence(3)
    cluster.change(isr=(1, 2))
    files = FakeFiles()
    files.fail("pwrite", f"{0:020d}.log", errno.ENOSPC)
    cluster.restart(3, files)
    for _ in range(100):
        cluster.step()
    cluster.pass_time(3_000)
    assert cluster.end(3) == 4
    assert cluster.values(3) == cluster.values(1)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_former_leader_restarts_at_the_log_start(count: int) -> None:
    """Its own records may differ from the deleted ones, whose epochs are unknown: it restarts before it takes
    a high watermark."""
    cluster = replicated(1)
    cluster.isolate(1)
    for _ in range(count):
        cluster.produce(b"mine", node=1, acks=1)
    cluster.fence(1)
    cluster.change(leader=2, isr=(2, 3))
    cluster.write(b"a", b"b")
    request = asked(cluster.leader, TOPIC, -1)
    cluster.settle()
    assert request.first.low_watermark == 3
    cluster.write(b"c")
    cluster.nodes[1].checkpoint_starts = lambda: False  # a start that is only wanted comes too late
    cluster.heal()
    cluster.settle()
    cluster.pass_time(500)
    assert (cluster.partition(1).log.log_start_offset, cluster.values(1)) == (3, [b"c"])


def test_deleted_records_stay_deleted_after_a_failover() -> None:
    """The acknowledged log start holds on the next leader."""
    cluster = replicated()
    request = asked(cluster.leader, TOPIC, 3)
    cluster.settle()
    assert request.first.low_watermark == 3
    cluster.crash(1, power="none")
    cluster.fence(1)
    cluster.change(leader=2, isr=(2, 3))
    cluster.settle()
    assert cluster.nodes[2].fetch(TOPIC, 2).first.error_code == errors.OffsetOutOfRangeError.code
