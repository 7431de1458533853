"""Transactions in partitions: coordinators are asked, markers end them, readers see what is committed."""

import pytest
from fake_files import FakeFiles
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.data import ProducePartition, ProduceRequest
from headrace.protocol.messages.groups import TopicNamePartitions
from headrace.protocol.messages.transactions import ActiveProducer, TransactionMarker, WriteTxnMarkersRequest
from headrace.protocol.metadata.records import FenceBrokerRecord, PartitionChangeRecord
from headrace.protocol.model import LATEST_TIMESTAMP
from headrace.protocol.records.header import read_batch_header
from headrace.storage_node.replica import produce
from log_rig import NOW, batch, split
from transaction_rig import ID, TransactionRig, codes_of, transactional

READ_COMMITTED = 1


@pytest.fixture
def rig() -> TransactionRig:
    return TransactionRig()


# --- the coordinator is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize("adds", [True, False])
def test_first_batch_of_a_transaction_waits_for_the_coordinator(rig: TransactionRig, adds: bool) -> None:
    """It adds the partition, or confirms that the producer did."""
    request = rig.send(transactional(7, 0), adds_partitions=adds)
    (question,) = rig.asked()
    assert question.node_id == 2
    (asked,) = question.body.transactions
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == (ID, 7, 0)
    assert (asked.topics, asked.verify_only) == ((TopicNamePartitions("t", (0,)),), not adds)
    assert not request.is_answered
    assert rig.values(rig.topic_id) == []
    rig.answer(question)
    assert (request.first.error_code, request.first.base_offset) == (0, 0)
    assert rig.send(transactional(7, 1)).first.base_offset == 1
    assert not rig.asked(), "the transaction is open"


@pytest.mark.parametrize(
    ("error", "adds", "response"),
    [
        (errors.NotCoordinatorError, True, errors.NotEnoughReplicasError),
        (errors.CoordinatorLoadInProgressError, True, errors.NotEnoughReplicasError),
        (errors.CoordinatorNotAvailableError, False, errors.NotEnoughReplicasError),
        (errors.ProducerFencedError, True, errors.InvalidProducerEpochError),
        (errors.InvalidProducerEpochError, True, errors.InvalidProducerEpochError),
        (errors.InvalidTxnStateError, False, errors.InvalidTxnStateError),
        (errors.InvalidProducerIdMappingError, True, errors.InvalidProducerIdMappingError),
        (errors.TransactionAbortableError, True, errors.TransactionAbortableError),
        (errors.TransactionAbortableError, False, errors.InvalidTxnStateError),
        (errors.ConcurrentTransactionsError, False, errors.NotEnoughReplicasError),
    ],
)
def test_coordinator_errors_are_translated_for_producers(
    rig: TransactionRig, error: type, adds: bool, response: type
) -> None:
    """Of the transaction or of a partition; nothing is appended."""
    for facts in ({"codes": {0: error.code}}, {"of_all": error.code}):
        request = rig.send(transactional(7, 0), adds_partitions=adds)
        (question,) = rig.asked()
        rig.answer(question, **facts)
        assert request.first.error_code == response.code
    assert rig.values(rig.topic_id) == []
    assert rig.core.counters.failed_verifications == 2


@pytest.mark.parametrize("error", [errors.NetworkError("gone"), errors.RequestTimedOutError("late")])
def test_missing_response_is_retriable(rig: TransactionRig, error: errors.NetworkError) -> None:
    request = rig.send(transactional(7, 0))
    (question,) = rig.asked()
    rig.no_answer(question, error)
    assert request.first.error_code == errors.NotEnoughReplicasError.code
    assert rig.write(7, 0).first.base_offset == 0


def test_without_a_coordinator_the_batch_is_refused() -> None:
    """No topic, no leader, or a fenced one: retriable."""
    rig = TransactionRig(has_coordinator=False)
    assert rig.send(transactional(7, 0)).first.error_code == errors.NotEnoughReplicasError.code
    rig = TransactionRig()
    rig.metadata(FenceBrokerRecord(2, 2))
    assert rig.send(transactional(7, 0)).first.error_code == errors.NotEnoughReplicasError.code
    for index in (0, 1):
        rig.metadata(PartitionChangeRecord(rig.state_id, index, leader=-1))
    assert rig.send(transactional(7, 0)).first.error_code == errors.NotEnoughReplicasError.code
    assert not rig.asked()


def test_verification_is_repeated_while_the_previous_transaction_ends(rig: TransactionRig) -> None:
    """Transaction version 2: a short wait saves a retry of the producer."""
    request = rig.send(transactional(7, 0))
    busy = errors.ConcurrentTransactionsError.code
    for _ in range(3):
        (question,) = rig.asked()
        rig.answer(question, codes={0: busy})
        assert not request.is_answered
        rig.pass_time(19)
        assert not rig.asked()
        rig.pass_time(1)
    (question,) = rig.asked()
    rig.answer(question)
    assert request.first.error_code == 0


def test_repeated_verification_is_bounded(rig: TransactionRig) -> None:
    """add.partitions.to.txn.retry.backoff.max.ms."""
    request = rig.send(transactional(7, 0))
    while not request.is_answered:
        (question,) = rig.asked()
        rig.answer(question, codes={0: errors.ConcurrentTransactionsError.code})
        rig.pass_time(20)
    assert request.first.error_code == errors.ConcurrentTransactionsError.code
    assert rig.now_ms < 1_200


def test_later_batches_wait_for_the_same_verification(rig: TransactionRig) -> None:
    """One request, in order; other partitions continue."""
    requests = [rig.send(transactional(7, sequence)) for sequence in range(3)]
    other = rig.send(transactional(7, 0), partition=1)
    plain = rig.produce(rig.topic_id, batch(1))
    assert plain.first.base_offset == 0
    first, second = rig.asked()
    rig.answer(second)
    assert other.first.base_offset == 0
    assert not any(request.is_answered for request in requests)
    rig.answer(first)
    assert [request.first.base_offset for request in requests] == [1, 2, 3]


def test_partitions_of_one_request_share_a_verification(rig: TransactionRig) -> None:
    """One response, each entry with its own result."""
    body = ProduceRequest(-1, 1_000, tuple(ProducePartition(rig.topic_id, i) for i in (0, 1, 0)), ID)
    frames = (transactional(7, 0), transactional(7, 0), batch(1))
    request = rig.ask(registry.PRODUCE, body, frames)
    (question,) = rig.asked()
    assert question.body.transactions[0].topics == (TopicNamePartitions("t", (0, 1)),)
    rig.answer(question, codes={1: errors.InvalidTxnStateError.code})
    assert [each.error_code for each in request.answer.partitions] == [0, errors.InvalidTxnStateError.code, 0]
    assert [each.base_offset for each in request.answer.partitions] == [1, -1, 0]


def test_batch_of_an_ended_transaction_is_refused(rig: TransactionRig) -> None:
    """Scenario 46: the transaction was ended during the verification; the last stable offset advances."""
    late = rig.send(transactional(7, 0))
    (question,) = rig.asked()
    rig.mark(7, 1, committed=False)
    rig.answer(question)
    assert late.first.error_code == errors.InvalidProducerEpochError.code
    late = rig.send(transactional(8, 0), adds_partitions=False)
    (question,) = rig.asked()
    rig.mark(8, 0, committed=False, version=1)
    rig.answer(question)
    assert late.first.error_code == errors.InvalidTxnStateError.code
    assert rig.list_offsets(rig.topic_id, LATEST_TIMESTAMP, isolation=READ_COMMITTED).first.offset == 2


def test_lost_leadership_during_verification_appends_nothing(rig: TransactionRig) -> None:
    """The response comes too late."""
    request = rig.send(transactional(7, 0))
    (question,) = rig.asked()
    rig.set_leader(rig.topic_id, 2)
    rig.answer(question)
    assert request.first.error_code == errors.NotLeaderOrFollowerError.code


def test_fenced_producer_is_refused_without_verification(rig: TransactionRig) -> None:
    """Scenario 42: its epoch is over in this partition."""
    rig.write(7, 0, epoch=1)
    assert rig.send(transactional(7, 1)).first.error_code == errors.InvalidProducerEpochError.code
    assert not rig.asked()


def test_transactions_need_an_id_and_one_producer(rig: TransactionRig) -> None:
    """Otherwise there is no coordinator."""
    assert rig.send(transactional(7, 0), id=None).first.error_code == errors.InvalidTxnStateError.code
    mixed = rig.send(transactional(7, 0), transactional(8, 0))
    assert isinstance(mixed.error, errors.InvalidProducerIdMappingError)
    assert rig.values(rig.topic_id) == []


def test_disabled_verification_still_adds_partitions() -> None:
    """transaction.partition.verification.enable=false; transaction version 2 adds partitions."""
    rig = TransactionRig(transaction_partition_verification_enable=False)
    assert rig.send(transactional(7, 0), adds_partitions=False).first.base_offset == 0
    assert not rig.asked()
    rig.send(transactional(8, 0))
    assert len(rig.asked()) == 1


def test_requests_waiting_for_coordinators_are_bounded() -> None:
    rig = TransactionRig(purgatory_max_requests=3)
    held = [rig.send(transactional(7, number)) for number in range(3)]
    assert isinstance(rig.send(transactional(7, 3)).error, errors.ThrottlingQuotaExceededError)
    rig.answer(rig.asked()[0])
    assert [request.first.error_code for request in held] == [0, 0, 0]
    assert rig.write(7, 3).first.base_offset == 3


def test_bytes_waiting_for_coordinators_are_bounded(
    rig: TransactionRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few requests they are."""
    monkeypatch.setattr(produce, "_MAX_HELD_BYTES", 50)
    held = rig.send(transactional(7, 0))
    assert isinstance(rig.send(transactional(7, 1)).error, errors.ThrottlingQuotaExceededError)
    assert rig.produce(rig.topic_id, batch(1)).first.error_code == 0
    rig.answer(rig.asked()[0])
    assert held.first.error_code == 0
    assert rig.send(transactional(7, 1)).first.error_code == 0


def test_acks_0_in_a_transaction(rig: TransactionRig) -> None:
    """No response, but the batch is appended."""
    request = rig.send(transactional(7, 0), acks=0)
    assert not request.is_answered
    rig.answer(rig.asked()[0])
    assert request.is_dropped
    assert len(rig.values(rig.topic_id)) == 1


def test_clients_cannot_write_to_internal_topics(rig: TransactionRig) -> None:
    topic_id = rig.topic("__consumer_offsets")
    for data in (batch(1), transactional(7, 0)):
        request = rig.produce(topic_id, data, transactional_id=ID)
        assert request.first.error_code == errors.InvalidTopicError.code
    assert not rig.asked()


# --- markers ----------------------------------------------------------------------------------------------


def test_markers_end_transactions_in_their_partitions(rig: TransactionRig) -> None:
    """Several markers in a request; consumers skip control batches."""
    rig.write(7, 0)
    rig.write(7, 0, partition=1)
    rig.write(8, 0)
    t0, t01 = (TopicNamePartitions("t", (0,)),), (TopicNamePartitions("t", (0, 1)),)
    markers = (TransactionMarker(7, 1, True, t01, 3), TransactionMarker(8, 1, False, t0, 4))
    request = rig.ask(registry.WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers))
    assert [marker.producer_id for marker in request.answer.markers] == [7, 8]
    assert codes_of(request) == [[0, 0], [0]]
    fetched = rig.fetch(rig.topic_id)
    headers = [read_batch_header(data) for frame in fetched.answer_frames for data in split(frame)]
    assert [header.is_control for header in headers] == [False, False, True, True]


def test_partitions_of_a_marker_are_independent(rig: TransactionRig) -> None:
    """Unknown topics and partitions, other leaders, old coordinator epochs."""
    rig.write(7, 0)
    elsewhere = rig.topic("u", leader=2, replicas=(1, 2))
    assert elsewhere
    request = rig.mark(7, 1, topics=(("nope", (0,)), ("t", (0, 9)), ("u", (0,))), coordinator_epoch=5)
    assert codes_of(request) == [
        [
            errors.UnknownTopicOrPartitionError.code,
            0,
            errors.UnknownTopicOrPartitionError.code,
            errors.NotLeaderOrFollowerError.code,
        ]
    ]
    rig.write(7, 0, epoch=1)
    assert codes_of(rig.mark(7, 2, coordinator_epoch=4)) == [[errors.TransactionCoordinatorFencedError.code]]
    assert codes_of(rig.mark(7, 1, coordinator_epoch=5)) == [[errors.InvalidProducerEpochError.code]]
    assert codes_of(rig.mark(7, 2, coordinator_epoch=5)) == [[0]]


@pytest.mark.parametrize(
    ("producer_id", "epoch", "coordinator_epoch"),
    [(-1, 0, 0), (-2, 0, 0), (2**63, 0, 0), (7, -1, 0), (7, 2**15, 0), (7, 1, 2**31), (7, 1, -(2**31) - 1)],
)
def test_invalid_markers_are_refused(
    rig: TransactionRig, producer_id: int, epoch: int, coordinator_epoch: int
) -> None:
    """The whole request, before anything is appended."""
    rig.write(7, 0)
    topics = (TopicNamePartitions("t", (0,)),)
    markers = (
        TransactionMarker(7, 1, True, topics, 3),
        TransactionMarker(producer_id, epoch, True, topics, coordinator_epoch),
    )
    request = rig.ask(registry.WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers))
    assert isinstance(request.error, errors.InvalidRequestError)
    assert len(rig.values(rig.topic_id)) == 1


def test_marker_waits_for_acks_all() -> None:
    """durability=fsync; the last stable offset advances with it, and wakes waiting fetches."""
    rig = TransactionRig()
    topic_id = rig.topic("d", durability="fsync")
    sent = rig.produce(topic_id, transactional(7, 0), transactional_id=ID)
    rig.answer(rig.asked()[0])
    rig.flush()
    assert sent.first.error_code == 0
    marked = rig.mark(7, 1, topics=(("d", (0,)),))
    waiting = rig.fetch(topic_id, isolation=READ_COMMITTED, max_wait_ms=500)
    assert not marked.is_answered
    assert not waiting.is_answered
    rig.flush()
    assert codes_of(marked) == [[0]]
    assert (waiting.first.last_stable_offset, waiting.first.frame_count) == (2, 1)


def test_uncommitted_marker_times_out() -> None:
    """It is appended; the coordinator sends it again."""
    rig = TransactionRig(fetch_max_wait_ms=500)
    topic_id = rig.topic("d", durability="fsync")
    rig.produce(topic_id, transactional(7, 0), transactional_id=ID)
    rig.answer(rig.asked()[0])
    marked = rig.mark(7, 1, topics=(("d", (0,)),))
    rig.pass_time(501)
    assert codes_of(marked) == [[errors.RequestTimedOutError.code]]
    again = rig.mark(7, 1, topics=(("d", (0,)),))
    rig.flush()
    assert codes_of(again) == [[0]]


def test_coordinator_learns_of_markers_in_internal_topics(rig: TransactionRig) -> None:
    topic_id = rig.topic("__consumer_offsets")
    received = []
    rig.core.transactions.on_marker = lambda *facts, **more: received.append((*facts, more))
    rig.write(7, 0)
    rig.mark(7, 3, committed=False, topics=(("t", (0,)), ("__consumer_offsets", (0,))))
    assert received == [((topic_id, 0), 7, 3, rig.now_ms, {"is_commit": False, "offset": 0})]


def test_partitions_per_request_are_bounded() -> None:
    """Bound: max.request.partitions."""
    rig = TransactionRig(max_request_partitions=2)
    assert isinstance(rig.mark(7, 1, topics=(("t", (0, 1, 0)),)).error, errors.InvalidRequestError)
    assert isinstance(rig.describe(("t", (0, 1, 0))).error, errors.InvalidRequestError)


# --- readers ----------------------------------------------------------------------------------------------


def test_read_committed_stops_at_the_last_stable_offset(rig: TransactionRig) -> None:
    """read_uncommitted does not. The response lists the aborted transactions of its records."""
    rig.produce(rig.topic_id, batch(1))
    rig.write(7, 0)
    rig.write(8, 0)
    rig.produce(rig.topic_id, batch(1))
    committed, all_of_it = rig.fetch(rig.topic_id, isolation=READ_COMMITTED), rig.fetch(rig.topic_id)
    assert (committed.first.last_stable_offset, committed.first.high_watermark) == (1, 4)
    assert (all_of_it.first.last_stable_offset, all_of_it.first.high_watermark) == (1, 4)
    assert end_of(committed) == 1
    assert end_of(all_of_it) == 4
    rig.mark(7, 1, committed=False)
    committed = rig.fetch(rig.topic_id, isolation=READ_COMMITTED)
    assert (end_of(committed), committed.first.aborted) == (2, ((7, 1),))
    rig.mark(8, 1)
    committed = rig.fetch(rig.topic_id, 1, isolation=READ_COMMITTED)
    assert (end_of(committed), committed.first.aborted) == (6, ((7, 1),))
    assert rig.fetch(rig.topic_id, 5, isolation=READ_COMMITTED).first.aborted == ()
    assert rig.fetch(rig.topic_id).first.aborted == ()


def end_of(request: object) -> int:
    frames = request.answer_frames  # type: ignore[attr-defined]
    return max(read_batch_header(data).next_offset for frame in frames for data in split(frame))


def test_response_lists_only_aborted_transactions_of_its_records() -> None:
    """Not all of a long backlog."""
    rig = TransactionRig()
    for number in range(20):
        rig.write(7, 0, epoch=number)
        rig.mark(7, number + 1, committed=False)
    found = rig.fetch(rig.topic_id, 4, isolation=READ_COMMITTED, max_bytes=400)
    assert end_of(found) < 12
    assert found.first.aborted == tuple((7, first) for first in range(4, end_of(found), 2))


def test_marker_completes_a_waiting_read_committed_fetch(rig: TransactionRig) -> None:
    """Records behind an open transaction do not."""
    rig.write(7, 0)
    waiting = rig.fetch(rig.topic_id, isolation=READ_COMMITTED, max_wait_ms=500)
    rig.produce(rig.topic_id, batch(1))
    assert not waiting.is_answered
    rig.mark(7, 1)
    assert end_of(waiting) == 3


def test_cold_read_of_another_isolation_level_is_not_returned() -> None:
    """A late read for read_uncommitted must not serve read_committed."""
    rig = TransactionRig(log_tail_cache_bytes=0)
    rig.produce(rig.topic_id, batch(1))
    rig.write(7, 0)
    rig.core.flush_all()
    rig.check()
    rig.flush()
    rig.files.evict("t-0/")
    late = rig.fetch(rig.topic_id)
    rig.pass_time(5_001)
    assert late.first.frame_count == 0
    rig.read_cold()
    committed = rig.fetch(rig.topic_id, isolation=READ_COMMITTED)
    rig.read_cold()
    assert end_of(committed) == 1


def test_log_start_may_pass_an_open_transaction(rig: TransactionRig) -> None:
    """Its records were deleted: read_committed waits at the log start."""
    rig.write(7, 0)
    rig.produce(rig.topic_id, batch(3))
    partition = rig.core.table.partitions[rig.topic_id, 0]
    assert partition.log is not None
    partition.log.advance_log_start_offset(2)
    found = rig.fetch(rig.topic_id, 2, isolation=READ_COMMITTED)
    assert (found.first.error_code, found.first.last_stable_offset, found.first.frame_count) == (0, 2, 0)


def test_list_offsets_with_read_committed(rig: TransactionRig) -> None:
    """The latest is the last stable offset; a search by timestamp finds nothing behind it."""
    rig.produce(rig.topic_id, batch(2, timestamp=NOW))
    rig.write(7, 0)
    for isolation, latest, found in ((0, 3, 1), (READ_COMMITTED, 2, 1)):
        facts = {"isolation": isolation}
        assert rig.list_offsets(rig.topic_id, LATEST_TIMESTAMP, **facts).first.offset == latest
        assert rig.list_offsets(rig.topic_id, NOW + 1, **facts).first.offset == found
    rig.write(7, 1)
    rig.produce(rig.topic_id, batch(1, timestamp=NOW + 60_000))
    assert rig.list_offsets(rig.topic_id, NOW + 60_000).first.offset == 4
    assert rig.list_offsets(rig.topic_id, NOW + 60_000, isolation=READ_COMMITTED).first.offset == -1


def test_restart_keeps_an_open_transaction() -> None:
    """Scenario 48: its marker ends it, and retries are detected."""
    rig = TransactionRig(FakeFiles())
    rig.write(7, 0)
    rig.write(8, 0)
    rig.mark(8, 1, committed=False)
    again = TransactionRig(rig.files.restart(), before=rig)
    assert again.send(transactional(7, 0)).first.base_offset == 0, "repeated"
    assert again.send(transactional(7, 1)).first.base_offset == 3
    assert again.fetch(rig.topic_id, isolation=READ_COMMITTED).first.last_stable_offset == 0
    again.mark(7, 1)
    found = again.fetch(rig.topic_id, isolation=READ_COMMITTED)
    assert (end_of(found), found.first.aborted) == (5, ((8, 1),))


# --- described producers ----------------------------------------------------------------------------------


def test_describe_producers(rig: TransactionRig) -> None:
    """DescribeProducers, by which operators find a hanging transaction (KIP-664)."""
    rig.write(7, 0)
    rig.mark(7, 1, coordinator_epoch=4)
    rig.write(8, 0, epoch=2)
    described = rig.describe(("t", (0, 1, 5)), ("nope", (0,)))
    first, second, third, fourth = described.answer.partitions
    assert first.producers == (
        ActiveProducer(7, 1, -1, first.producers[0].last_timestamp_ms, 4, -1),
        ActiveProducer(8, 2, 0, NOW, -1, 2),
    )
    assert (second.error_code, second.producers) == (0, ())
    assert {third.error_code, fourth.error_code} == {errors.UnknownTopicOrPartitionError.code}
    status = rig.core.status(rig.now_ms)
    assert status["oldest_transactions"] == {
        "t-0": {"producer_id": 8, "first_offset": 2, "timestamp_ms": NOW}
    }
    assert status["metrics"]["ProducerIdCount"] == 2
    assert status["logs"]["t-0"]["LastStableOffsetLag"] == 1


def test_inactive_producers_expire(rig: TransactionRig) -> None:
    """By producer.id.expiration.ms, at the checks; a later batch starts again (scenario 41)."""
    rig = TransactionRig(producer_id_expiration_ms=1_000, producer_id_expiration_check_interval_ms=5_000)
    idempotent = batch(1, producer_id=9, producer_epoch=0, base_sequence=0)
    rig.produce(rig.topic_id, idempotent)
    rig.tick(NOW)
    rig.pass_time(5_000)
    rig.tick(NOW + 999)
    assert rig.produce(rig.topic_id, idempotent).first.base_offset == 0
    rig.pass_time(5_000)
    rig.tick(NOW + 1_000)
    gap = batch(1, producer_id=9, producer_epoch=0, base_sequence=3)
    assert rig.produce(rig.topic_id, gap).first.base_offset == 1
    refused = batch(1, producer_id=9, producer_epoch=0, base_sequence=8)
    assert rig.produce(rig.topic_id, refused).first.error_code == errors.OutOfOrderSequenceNumberError.code
