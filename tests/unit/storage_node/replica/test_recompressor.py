"""`compression.type`: batches are recompressed off the loop and appended in the order of their arrival."""

import pytest
import zstandard
from core_rig import CoreRig, FakePeer
from headrace.protocol import errors
from headrace.protocol.metadata.records import PartitionChangeRecord
from headrace.protocol.records.header import Compression, read_batch_header
from headrace.storage_node.effects import FlushLog, Recompress
from headrace.storage_node.replica.recompressor import MAX_UNAPPENDED
from log_rig import batch
from node_rig import WALL_MS, values_of
from node_rig import batch as keyless
from producer_oracle import idempotent
from replica_rig import TOPIC, Replicas
from transaction_rig import TransactionRig, transactional

ZSTD = {"compression_type": "zstd"}


def codecs(rig: CoreRig, topic_id: bytes) -> list[int]:
    """Of the batches in the log, in their order."""
    log = rig.core.table.partitions[topic_id, 0].log
    assert log is not None
    data = b"".join(map(bytes, log.reader.read(0, 1 << 30, upto_offset=log.log_end_offset).data))
    found = []
    while data:
        header = read_batch_header(data)
        found.append(header.compression_id)
        data = data[header.size_bytes :]
    return found


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("uncompressed", Compression.NONE),
        ("zstd", Compression.ZSTD),
        ("lz4", Compression.LZ4),
        ("snappy", Compression.SNAPPY),
        ("gzip", Compression.GZIP),
    ],
)
def test_leader_stores_the_codec_of_the_topic(rig: CoreRig, name: str, codec: Compression) -> None:
    """Every codec that a producer may send; a batch in the topic's codec is appended at once, as it came."""
    topic_id = rig.topic(compression_type=name)
    for source in Compression:
        data = batch(3, compression=source)
        request = rig.produce(topic_id, data)
        assert request.is_answered == (source == codec)
        assert rig.recompress() == (source != codec)
        assert request.first.error_code == 0
    assert codecs(rig, topic_id) == [codec] * 5
    assert len(rig.values(topic_id)) == 15


def test_producer_keeps_the_codec_of_the_batch(rig: CoreRig) -> None:
    """The default: nothing is recompressed, and nothing waits."""
    topic_id = rig.topic()
    for source in Compression:
        assert rig.produce(topic_id, batch(3, compression=source)).is_answered
    assert codecs(rig, topic_id) == list(Compression)


def test_broker_default_holds_for_topics_without_their_own() -> None:
    rig = CoreRig(compression_type="gzip")
    topic_id, own = rig.topic(), rig.topic("own", compression_type="producer")
    rig.produce(topic_id, batch())
    assert rig.recompress() == 1
    assert rig.produce(own, batch()).is_answered
    assert codecs(rig, topic_id) == [Compression.GZIP]
    assert codecs(rig, own) == [Compression.NONE]


def test_batches_are_appended_in_the_order_they_came(rig: CoreRig) -> None:
    """The first recompression ends last; a batch in the topic's codec waits behind it, one of another
    partition does not."""
    topic_id = rig.topic(partitions=2, **ZSTD)
    first = rig.produce(topic_id, batch(tag="a"))
    second = rig.produce(topic_id, batch(tag="b", compression=Compression.ZSTD))
    third = rig.produce(topic_id, batch(tag="c"))
    other = rig.produce(topic_id, batch(compression=Compression.ZSTD), partition=1)
    assert other.is_answered
    slow, quick = rig.pop(Recompress)
    quick.item.run()
    rig.core.recompressed(quick.item, rig.now_ms, WALL_MS)
    rig.check()
    assert not any(request.is_answered for request in (first, second, third))
    slow.item.run()
    rig.core.recompressed(slow.item, rig.now_ms, WALL_MS)
    rig.check()
    assert [request.first.base_offset for request in (first, second, third)] == [0, 1, 2]


def test_sequences_of_an_idempotent_producer_hold(rig: CoreRig) -> None:
    """Five batches in flight; a repeat of one of them gets its offset; a gap is refused."""
    topic_id = rig.topic(**ZSTD)
    requests = [rig.produce(topic_id, idempotent(9, number)) for number in range(5)]
    again, gap = rig.produce(topic_id, idempotent(9, 2)), rig.produce(topic_id, idempotent(9, 6))
    rig.recompress()
    assert [request.first.base_offset for request in requests] == [0, 1, 2, 3, 4]
    assert (again.first.error_code, again.first.base_offset) == (0, 2)
    assert gap.first.error_code == errors.OutOfOrderSequenceNumberError.code
    assert len(rig.values(topic_id)) == 5


def test_number_of_started_recompressions_is_bounded(rig: CoreRig) -> None:
    """The others start when those before them are appended."""
    topic_id = rig.topic(**ZSTD)
    requests = [rig.produce(topic_id, batch(tag=str(number))) for number in range(3 * MAX_UNAPPENDED)]
    started = rig.pop(Recompress)
    assert len(started) == MAX_UNAPPENDED
    for effect in reversed(started):
        assert rig.pop(Recompress) == []
        effect.item.run()
        rig.core.recompressed(effect.item, rig.now_ms, WALL_MS)
        rig.check()
    assert rig.recompress() == 2 * MAX_UNAPPENDED
    assert [request.first.base_offset for request in requests] == list(range(3 * MAX_UNAPPENDED))
    assert len(rig.core.recompressor) == 0


def test_queued_batches_count_as_waiting_requests() -> None:
    """Bound: purgatory.max.requests."""
    rig = CoreRig(purgatory_max_requests=2)
    topic_id = rig.topic(**ZSTD)
    rig.produce(topic_id, batch(), batch())
    assert isinstance(rig.produce(topic_id, batch()).error, errors.ThrottlingQuotaExceededError)
    rig.recompress()
    assert rig.core.counters.produced_batches == 2


def test_memory_of_the_request_may_be_used_again(rig: CoreRig) -> None:
    """Listeners of Kafka's clients read the next request into the same memory."""
    topic_id = rig.topic(**ZSTD)
    came = bytearray(batch(2))
    rig.produce(topic_id, memoryview(came))
    came[:] = bytes(len(came))
    rig.recompress()
    assert len(rig.values(topic_id)) == 2


def test_entries_of_one_request_wait_for_each_other(rig: CoreRig) -> None:
    """One answer, in the order of the entries: recompressed, refused, appended behind the queue."""
    topic_id = rig.topic(max_message_bytes="1000", **ZSTD)
    request = rig.produce(
        topic_id, batch(tag="a"), batch(size=2000), b"short", batch(tag="b", compression=Compression.ZSTD)
    )
    assert not request.is_answered
    rig.recompress()
    answers = request.answer.partitions
    assert [each.error_code for each in answers] == [
        0,
        errors.MessageTooLargeError.code,
        errors.CorruptMessageError.code,
        0,
    ]
    assert [answers[0].base_offset, answers[3].base_offset] == [0, 1]


def test_acks_0_is_appended_and_not_answered(rig: CoreRig) -> None:
    """The request is done when the batch is appended."""
    topic_id = rig.topic(**ZSTD)
    request = rig.produce(topic_id, batch(), acks=0)
    assert not request.is_dropped
    rig.recompress()
    assert request.is_dropped
    assert len(rig.values(topic_id)) == 1


def test_acks_all_waits_for_the_disk_after_the_append(rig: CoreRig) -> None:
    """durability=fsync: the recompressed batch is acknowledged when it is flushed."""
    topic_id = rig.topic(durability="fsync", **ZSTD)
    request = rig.produce(topic_id, batch())
    assert rig.pop(FlushLog) == []
    rig.recompress()
    assert not request.is_answered
    rig.flush()
    assert request.first.base_offset == 0


def test_size_is_checked_before_and_after(rig: CoreRig) -> None:
    """max.message.bytes holds for the batch as it came and for the batch as it is stored."""
    topic_id = rig.topic(max_message_bytes="1000", compression_type="uncompressed")
    small = batch(40, size=100, compression=Compression.ZSTD)
    assert len(small) < 1000
    request = rig.produce(topic_id, small)
    rig.recompress()
    assert request.first.error_code == errors.MessageTooLargeError.code
    large = rig.topic("large", max_message_bytes="1000", **ZSTD)
    request = rig.produce(large, batch(40, size=100))
    assert request.first.error_code == errors.MessageTooLargeError.code, "at once: it is not decompressed"
    assert rig.pop(Recompress) == []


def test_batch_that_compresses_below_segment_bytes_is_taken(rig: CoreRig) -> None:
    """As Kafka, which compares only what is stored with segment.bytes."""
    topic_id = rig.topic(segment_bytes=str(1 << 20), max_message_bytes=str(4 << 20), **ZSTD)
    request = rig.produce(topic_id, batch(20, size=100_000))
    rig.recompress()
    assert request.first.error_code == 0


def test_damaged_batch_is_refused_and_those_behind_it_are_not(rig: CoreRig) -> None:
    """Its CRC is looked at by the thread."""
    topic_id = rig.topic(**ZSTD)
    damaged = bytearray(batch(3, compression=Compression.GZIP))
    damaged[-1] ^= 1
    first, second = rig.produce(topic_id, bytes(damaged)), rig.produce(topic_id, batch())
    rig.recompress()
    assert first.first.error_code == errors.CorruptMessageError.code
    assert second.first.base_offset == 0


def test_batch_for_which_the_codec_has_no_memory_is_refused_and_the_next_is_not(
    rig: CoreRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """zstd reports a failed allocation as an error of its own: the client gets a retriable error, and the
    node keeps serving."""
    topic_id = rig.topic(**ZSTD)
    request = rig.produce(topic_id, batch())

    class Starved:
        def __init__(self, _level: int) -> None: ...

        def compress(self, _data: object) -> bytes:
            raise zstandard.ZstdError("cannot compress: Allocation error : not enough memory")

    with monkeypatch.context() as patched:
        patched.setattr(zstandard, "ZstdCompressor", Starved)
        assert rig.recompress() == 1
    assert request.first.error_code == errors.ThrottlingQuotaExceededError.code
    after = rig.produce(topic_id, batch())
    assert rig.recompress() == 1
    assert after.first.error_code == 0
    assert codecs(rig, topic_id) == [Compression.ZSTD]


def test_rules_of_the_topic_hold_for_recompressed_batches(rig: CoreRig) -> None:
    """A compacted topic refuses records without keys, whatever the codec."""
    topic_id = rig.topic(cleanup_policy="compact", **ZSTD)
    request = rig.produce(topic_id, keyless(b"v"))
    rig.recompress()
    assert request.first.error_code == errors.InvalidRecordError.code
    assert rig.values(topic_id) == []


def test_leader_that_changes_meanwhile_appends_nothing(rig: CoreRig) -> None:
    """Leadership is looked at again when the batch is to be appended."""
    topic_id = rig.topic(**ZSTD)
    request = rig.produce(topic_id, batch())
    rig.set_leader(topic_id, 2)
    rig.recompress()
    assert request.first.error_code == errors.NotLeaderOrFollowerError.code
    assert rig.core.table.partitions[topic_id, 0].log.log_end_offset == 0


def test_topic_that_is_deleted_meanwhile(rig: CoreRig) -> None:
    """The request is answered; the next topic of that name is not touched."""
    topic_id = rig.topic(**ZSTD)
    request = rig.produce(topic_id, batch())
    rig.remove(topic_id)
    new_id = rig.topic(**ZSTD)
    rig.recompress()
    assert request.first.error_code == errors.UnknownTopicIdError.code
    assert rig.values(new_id) == []


def test_too_few_replicas_refuse_before_and_after(rig: CoreRig) -> None:
    """min.insync.replicas with acks=all: at once, and if the ISR shrinks during recompression."""
    topic_id = rig.topic(replicas=(1, 2), min_insync_replicas="2", **ZSTD)
    before = rig.produce(topic_id, batch())
    rig.metadata(PartitionChangeRecord(topic_id, 0, isr=(1,)))
    after = rig.produce(topic_id, batch())
    assert after.first.error_code == errors.NotEnoughReplicasError.code
    rig.recompress()
    assert before.first.error_code == errors.NotEnoughReplicasError.code


def test_change_of_the_config_keeps_the_order(rig: CoreRig) -> None:
    """From zstd to producer while a batch is being recompressed: the next one waits behind it."""
    topic_id = rig.topic(**ZSTD)
    first = rig.produce(topic_id, idempotent(9, 0))
    rig.configure("t", "compression.type", "producer")
    second = rig.produce(topic_id, idempotent(9, 1))
    assert not second.is_answered
    rig.recompress()
    assert (first.first.base_offset, second.first.base_offset) == (0, 1)
    assert codecs(rig, topic_id) == [Compression.ZSTD, Compression.NONE]
    assert rig.produce(topic_id, idempotent(9, 2)).is_answered


def test_batch_of_a_disconnected_client_is_appended(rig: CoreRig) -> None:
    """As if the append had been at once."""
    topic_id = rig.topic(**ZSTD)
    peer = FakePeer()
    rig.produce(topic_id, batch(), peer=peer)
    peer.is_connected = False
    rig.core.connection_gone(peer.session, rig.now_ms)
    rig.check()
    rig.recompress()
    assert len(rig.values(topic_id)) == 1


def test_followers_have_the_stored_bytes_of_the_leader() -> None:
    """The bytes of all replicas are equal."""
    cluster = Replicas.settled(min_isr=2, compression_type="gzip")
    request = cluster.leader.produce(TOPIC, batch(5))
    cluster.leader.recompress()
    cluster.settle()
    assert request.first.base_offset == 0
    logs = [cluster.partition(node).log for node in (1, 2, 3)]
    data = {b"".join(map(bytes, log.reader.read(0, 1 << 20, upto_offset=5).data)) for log in logs}
    assert len(data) == 1
    assert read_batch_header(data.pop()).compression_id == Compression.GZIP


def test_batches_of_a_transaction_are_verified_first() -> None:
    """The coordinator is asked, then the batch is recompressed; the next batch keeps its place."""
    rig = TransactionRig(compression_type="lz4")
    first = rig.send(transactional(7, 0))
    (question,) = rig.asked()
    rig.answer(question)
    assert not first.is_answered
    second = rig.send(transactional(7, 1))
    rig.recompress()
    for question in rig.asked():
        rig.answer(question)
    rig.recompress()
    assert (first.first.base_offset, second.first.base_offset) == (0, 1)
    assert codecs(rig, rig.topic_id) == [Compression.LZ4] * 2


def test_marker_that_overtakes_a_batch_ends_its_transaction() -> None:
    """The batch does not open a transaction that never ends: its guard is void once the marker is written."""
    rig = TransactionRig(compression_type="lz4")
    late = rig.send(transactional(7, 0), adds_partitions=False)
    (question,) = rig.asked()
    rig.answer(question)
    rig.mark(7, 0, committed=False, version=1)
    rig.recompress()
    assert late.first.error_code == errors.InvalidTxnStateError.code
    assert len(values_of(rig.fetch(rig.topic_id).answer_frames)) == 1, "the marker alone"
