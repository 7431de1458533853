"""Produce: its checks, its errors, and the time of its response."""

import pytest
from core_rig import CoreRig, FakePeer
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import ProducePartition, ProduceRequest
from headrace.protocol.metadata.records import PartitionChangeRecord
from headrace.storage_node.effects import FlushLog
from node_rig import WALL_MS, batch


@pytest.mark.parametrize("acks", [1, -1])
def test_single_replica_acknowledges_at_once(rig: CoreRig, acks: int) -> None:
    topic_id = rig.topic()
    first = rig.produce(topic_id, batch(b"a", b"b"), acks=acks).first
    second = rig.produce(topic_id, batch(b"c"), acks=acks).first
    assert (first.error_code, first.base_offset, first.log_append_time_ms, first.log_start_offset) == (
        0,
        0,
        -1,
        0,
    )
    assert second.base_offset == 2
    assert rig.values(topic_id) == [b"a", b"b", b"c"]


def test_acks_0_gets_no_response(rig: CoreRig) -> None:
    """Whether the append succeeds or not; failures are counted."""
    topic_id = rig.topic()
    assert rig.produce(topic_id, acks=0).is_dropped
    assert rig.produce(topic_id, b"garbage", acks=0).is_dropped
    assert rig.produce(b"x" * 16, acks=0).is_dropped
    assert rig.values(topic_id) == [b"v"]
    assert rig.core.counters.failed_produce_entries == 2


def test_invalid_acks_0_request_gets_no_response(rig: CoreRig) -> None:
    """The whole request is refused."""
    entries = (ProducePartition(rig.topic(), 0),)
    request = rig.ask(registry.PRODUCE, ProduceRequest(0, 1_000, entries), ())
    assert request.is_dropped
    assert rig.core.counters.refused_requests == 1


@pytest.mark.parametrize("acks", [2, -2, 127])
def test_invalid_acks_are_refused(rig: CoreRig, acks: int) -> None:
    topic_id = rig.topic()
    assert isinstance(rig.produce(topic_id, acks=acks).error, errors.InvalidRequiredAcksError)
    assert rig.values(topic_id) == []


def test_counts_of_entries_and_batches_must_match(rig: CoreRig) -> None:
    topic_id = rig.topic()
    entries = (ProducePartition(topic_id, 0),)
    for frames in ((), (batch(b"a"), batch(b"b"))):
        request = rig.ask(registry.PRODUCE, ProduceRequest(-1, 1_000, entries), frames)
        assert isinstance(request.error, errors.InvalidRequestError)
    assert rig.values(topic_id) == []


def test_partitions_per_request_are_bounded() -> None:
    """Bound: max.request.partitions."""
    rig = CoreRig(max_request_partitions=2)
    topic_id = rig.topic()
    assert rig.produce(topic_id, batch(b"a"), batch(b"b")).error is None
    assert isinstance(rig.produce(topic_id, *[batch(b"c")] * 3).error, errors.InvalidRequestError)


def test_entries_are_independent(rig: CoreRig) -> None:
    """A bad batch between good ones is refused; responses are in the order of entries."""
    topic_id = rig.topic(max_message_bytes="200")
    damaged = bytearray(batch(b"x"))
    damaged[-1] ^= 1
    request = rig.produce(
        topic_id, batch(b"a"), bytes(damaged), batch(b"b" * 300), b"", batch(b"c") + batch(b"d"), batch(b"e")
    )
    codes = [answer.error_code for answer in request.answer.partitions]
    assert codes[:4] == [
        0,
        errors.CorruptMessageError.code,
        errors.MessageTooLargeError.code,
        errors.CorruptMessageError.code,
    ]
    assert codes[4] != 0, "two batches in one frame are not one batch"
    assert codes[5] == 0
    assert rig.values(topic_id) == [b"a", b"e"]


def test_unknown_topic_ids_and_partitions_are_refused(rig: CoreRig) -> None:
    """A forged id, one of wrong length, indexes outside of the topic."""
    topic_id = rig.topic()
    for forged in (b"x" * 16, b"", b"x" * 500):
        assert rig.produce(forged).first.error_code == errors.UnknownTopicIdError.code
    for index in (1, -1, 2**31 - 1, -(2**63)):
        answer = rig.produce(topic_id, partition=index).first
        assert answer.error_code == errors.UnknownTopicOrPartitionError.code


def test_response_names_the_leader(rig: CoreRig) -> None:
    """Of a partition without a replica here, or with another leader."""
    elsewhere = rig.topic("far", leader=2, replicas=(2,))
    answer = rig.produce(elsewhere).first
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (
        errors.NotLeaderOrFollowerError.code,
        2,
        0,
    )
    topic_id = rig.topic("near")
    rig.set_leader(topic_id, -1)
    answer = rig.produce(topic_id).first
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (
        errors.NotLeaderOrFollowerError.code,
        -1,
        1,
    )


def test_leader_epoch_is_checked(rig: CoreRig) -> None:
    """An older one is fenced, a newer one unknown; the present one and -1 pass."""
    topic_id = rig.topic()
    rig.set_leader(topic_id, -1)
    rig.set_leader(topic_id, 1)
    codes = [rig.produce(topic_id, epoch=epoch).first.error_code for epoch in (-1, 2, 1, 3)]
    assert codes == [0, 0, errors.FencedLeaderEpochError.code, errors.UnknownLeaderEpochError.code]


def test_below_min_isr_only_acks_all_is_refused(rig: CoreRig) -> None:
    topic_id = rig.topic(replicas=(1, 2), min_insync_replicas="2")
    rig.metadata(PartitionChangeRecord(topic_id, 0, isr=(1,)))
    assert rig.produce(topic_id, acks=-1).first.error_code == errors.NotEnoughReplicasError.code
    assert rig.produce(topic_id, acks=1).first.base_offset == 0


def test_min_isr_is_limited_to_the_number_of_replicas(rig: CoreRig) -> None:
    """One replica and min.insync.replicas 2: acks=all succeeds, as in Kafka; it is not under min ISR."""
    topic_id = rig.topic(min_insync_replicas="2")
    assert rig.produce(topic_id, acks=-1).first.error_code == 0
    metrics = rig.core.status(rig.now_ms)["metrics"]
    assert (metrics["UnderMinIsrPartitionCount"], metrics["AtMinIsrPartitionCount"]) == (0, 1)


def test_min_isr_holds_in_full_after_adding_a_replica(rig: CoreRig) -> None:
    """From then on both must be in sync."""
    topic_id = rig.topic(min_insync_replicas="2")
    rig.metadata(PartitionChangeRecord(topic_id, 0, replicas=(1, 2), adding_replicas=(2,)))
    assert rig.produce(topic_id, acks=-1).first.error_code == errors.NotEnoughReplicasError.code


def test_response_has_the_log_append_time(rig: CoreRig) -> None:
    topic_id = rig.topic(message_timestamp_type="LogAppendTime")
    assert rig.produce(topic_id, batch(b"a", timestamp_ms=5)).first.log_append_time_ms == WALL_MS


# --- durability=fsync ---------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [1, -1])
def test_fsync_acknowledges_after_the_flush(rig: CoreRig, acks: int) -> None:
    """Consumers see the records after it, too."""
    topic_id = rig.topic(durability="fsync")
    request = rig.produce(topic_id, acks=acks)
    assert not request.is_answered
    assert rig.values(topic_id) == []
    assert rig.flush() == 1
    assert request.first.error_code == 0
    assert rig.values(topic_id) == [b"v"]


def test_appends_share_a_flush(rig: CoreRig) -> None:
    """Group commit: appends during a flush share the next one."""
    topic_id = rig.topic(durability="fsync")
    requests = [rig.produce(topic_id) for _ in range(5)]
    assert len(rig.pop(FlushLog)) == 1, "one flush, requested by the first append"
    partition = rig.core.table.partitions[topic_id, 0]
    assert partition.log is not None
    running = partition.log.start_flush()
    assert running is not None
    late = rig.produce(topic_id)
    running.sync()
    partition.log.finish_flush(running)
    rig.core.flushed(partition, partition.log.recovery_point, rig.now_ms)
    rig.check()
    assert all(request.is_answered for request in requests)
    assert not late.is_answered, "the record was appended after that flush began"
    assert rig.flush() == 1
    assert late.first.error_code == 0


def test_acks_0_with_fsync_is_flushed(rig: CoreRig) -> None:
    """Consumers see it only after the flush."""
    topic_id = rig.topic(durability="fsync")
    rig.produce(topic_id, acks=0)
    assert rig.values(topic_id) == []
    rig.flush()
    assert rig.values(topic_id) == [b"v"]


def test_acknowledged_records_survive_power_loss(rig: CoreRig) -> None:
    """Only flushed bytes are kept."""
    topic_id = rig.topic(durability="fsync")
    rig.produce(topic_id, batch(b"safe"))
    rig.flush()
    assert not rig.produce(topic_id, batch(b"unsafe")).is_answered
    after = rig.restarted(power="none")
    after.flush()
    assert after.values(topic_id) == [b"safe"]


def test_produce_times_out_on_a_slow_disk(rig: CoreRig) -> None:
    """One error after timeout_ms; the late flush is harmless."""
    topic_id = rig.topic(durability="fsync")
    request = rig.produce(topic_id, timeout_ms=500)
    rig.pass_time(499)
    assert not request.is_answered
    rig.pass_time(2)
    assert request.first.error_code == errors.RequestTimedOutError.code
    rig.flush()
    assert rig.core.parked == 0


def test_lost_leadership_completes_waiting_requests(rig: CoreRig) -> None:
    """With the new leader, before their timeouts."""
    topic_id = rig.topic(durability="fsync")
    request = rig.produce(topic_id)
    rig.set_leader(topic_id, -1)
    answer = request.first
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (
        errors.NotLeaderOrFollowerError.code,
        -1,
        1,
    )


def test_new_epoch_of_the_same_leader_fails_waiting_requests(rig: CoreRig) -> None:
    """Leadership was lost and regained in one metadata step."""
    topic_id = rig.topic(durability="fsync")
    request = rig.produce(topic_id)
    rig.metadata(PartitionChangeRecord(topic_id, 0, leader=-1), PartitionChangeRecord(topic_id, 0, leader=1))
    assert request.first.error_code == errors.NotLeaderOrFollowerError.code


def test_deleted_topic_completes_waiting_requests(rig: CoreRig) -> None:
    topic_id = rig.topic(durability="fsync")
    request = rig.produce(topic_id)
    rig.remove(topic_id)
    assert request.first.error_code == errors.UnknownTopicIdError.code


def test_disconnected_producer_leaves_purgatory(rig: CoreRig) -> None:
    topic_id = rig.topic(durability="fsync")
    peer = FakePeer(session=5)
    request = rig.produce(topic_id, peer=peer)
    peer.is_connected = False
    rig.core.connection_gone(5, rig.now_ms)
    assert request.is_dropped
    assert rig.core.parked == 0


def test_waiting_requests_are_bounded() -> None:
    """Bound: purgatory.max.requests; beyond it nothing is appended, and the producer may retry."""
    rig = CoreRig(purgatory_max_requests=3)
    topic_id = rig.topic(durability="fsync")
    waiting = [rig.produce(topic_id) for _ in range(3)]
    assert isinstance(rig.produce(topic_id).error, errors.ThrottlingQuotaExceededError)
    rig.flush()
    rig.flush()
    assert all(request.first.error_code == 0 for request in waiting)
    assert rig.values(topic_id) == [b"v"] * 3


# --- bad disks ----------------------------------------------------------------------------------------


def test_nothing_is_acknowledged_after_a_write_error(rig: CoreRig) -> None:
    """KAFKA-10778: later entries, other partitions of the log dir, later requests."""
    topic_id, other = rig.topic("t"), rig.topic("u")
    rig.produce(topic_id)
    rig.files.fail("pwrite", ".log")
    request = rig.produce(topic_id, batch(b"a"), batch(b"b"))
    codes = [answer.error_code for answer in request.answer.partitions]
    assert codes == [errors.KafkaStorageError.code] * 2
    assert rig.produce(other).first.error_code == errors.KafkaStorageError.code
    assert rig.ended(), "it was the only log dir"


def test_failed_flush_fails_all_requests_of_the_log_dir(rig: CoreRig) -> None:
    """The flush is not repeated."""
    topic_id, other = rig.topic("t", durability="fsync"), rig.topic("u", durability="fsync")
    rig.flush()
    requests = [rig.produce(topic_id), rig.produce(other)]
    rig.files.fail("fdatasync", "t-0")
    rig.flush()
    assert [request.first.error_code for request in requests] == [errors.KafkaStorageError.code] * 2
    assert rig.flush() == 0


def test_failed_log_dir_leaves_the_others_working() -> None:
    """Partitions of the other log dir continue."""
    rig = CoreRig(dirs="/a,/b")
    first, second = rig.topic("t"), rig.topic("u")
    rig.files.fail("pwrite", "/a/")
    codes = sorted(rig.produce(topic_id).first.error_code for topic_id in (first, second))
    assert codes == [0, errors.KafkaStorageError.code]
    assert not rig.ended()
    new = rig.topic("new")
    assert rig.produce(new).first.error_code == 0
