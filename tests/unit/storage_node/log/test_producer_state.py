"""Which batch of a producer is appended, which is a duplicate, and which is refused: Kafka's rules."""

import pytest
from fake_files import FakeFiles
from headrace.protocol import errors
from headrace.protocol.records.header import HEADER_BYTES, read_batch_header, sealed_batch
from headrace.storage_node.log import producer_states
from headrace.storage_node.log.log import Log
from headrace.storage_node.log.producer_state import MAX_SEQUENCE
from headrace.storage_node.log.producer_states import MAX_UNCOMMITTED_MARKERS, OpenTransaction
from headrace.storage_node.log.verification import MAX_VERIFICATIONS, UNCHECKED
from log_rig import NOW, append, batch, open_log
from producer_oracle import check_producers, end, follow, idempotent, marker_batch, transactional, verified


@pytest.fixture
def log() -> Log:
    log = open_log(FakeFiles())
    append(log, batch(3))
    return log


def refused(log: Log, data: bytes) -> type[errors.KafkaError]:
    """The error; the state must not have changed."""
    before = (log.log_end_offset, log.producers.states.to_snapshot())
    with pytest.raises(errors.KafkaError) as caught:
        append(log, data)
    assert (log.log_end_offset, log.producers.states.to_snapshot()) == before
    return caught.type


# --- repeats ------------------------------------------------------------------------------------------------


def test_last_five_batches_are_duplicates(log: Log) -> None:
    """Their first offsets are returned, nothing is appended; the sixth is out of order."""
    for number in range(7):
        append(log, idempotent(9, 2 * number, 2))
    end_offset = log.log_end_offset
    for number in range(2, 7):
        info = log.append_as_leader(idempotent(9, 2 * number, 2), leader_epoch=3, wall_ms=NOW)
        assert info == (3 + 2 * number, 4 + 2 * number, -1, True)
    assert log.log_end_offset == end_offset
    for number in range(2):
        assert refused(log, idempotent(9, 2 * number, 2)) is errors.OutOfOrderSequenceNumberError
    check_producers(log)


def test_part_of_a_batch_is_no_duplicate(log: Log) -> None:
    """First and last sequence must be equal."""
    append(log, idempotent(9, 0, 4))
    for first, count in ((0, 3), (1, 3), (0, 5), (1, 2)):
        assert refused(log, idempotent(9, first, count)) is errors.OutOfOrderSequenceNumberError


def test_duplicate_has_the_time_of_the_first_append() -> None:
    """In a topic with LogAppendTime."""
    log = open_log(FakeFiles(), message_timestamp_type="LogAppendTime")
    log.append_as_leader(idempotent(9, 0), leader_epoch=0, wall_ms=NOW + 5)
    info = log.append_as_leader(idempotent(9, 0), leader_epoch=0, wall_ms=NOW + 50)
    assert (info.log_append_time_ms, info.is_repeated) == (NOW + 5, True)


def test_duplicate_of_deleted_batch_is_known(log: Log) -> None:
    """Also below the log start offset: producer state outlives the records (Redpanda 5355: equal on every
    replica)."""
    other = open_log(FakeFiles(), "/d/u-0")
    follow(other, batch(3))
    for number in range(3):
        append(log, idempotent(9, number))
        follow(other, idempotent(9, number))
    log.roll()
    log.advance_log_start_offset(log.log_end_offset)
    log.delete_segments_below(log.log_end_offset)
    assert append(log, idempotent(9, 1)) == append(other, idempotent(9, 1)) == 4


# --- sequences ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequence", [0, 7, MAX_SEQUENCE])
def test_unknown_producer_may_start_with_any_sequence(log: Log, sequence: int) -> None:
    """Its state may have expired."""
    append(log, idempotent(9, sequence))
    follows = (sequence + 1) % 2**31
    append(log, idempotent(9, follows))
    assert refused(log, idempotent(9, follows + 2)) is errors.OutOfOrderSequenceNumberError


def test_sequences_wrap_around(log: Log) -> None:
    """After 2^31-1 comes 0, inside and between batches; duplicates are recognised."""
    append(log, idempotent(9, MAX_SEQUENCE - 2, 2))
    across = idempotent(9, MAX_SEQUENCE, 3)
    offset = append(log, across)
    assert append(log, across) == offset
    assert refused(log, idempotent(9, 1)) is errors.OutOfOrderSequenceNumberError
    append(log, idempotent(9, 2))
    check_producers(log)
    append(log, idempotent(8, MAX_SEQUENCE))
    append(log, idempotent(8, 0))


def test_new_epoch_starts_with_sequence_0(log: Log) -> None:
    """The older epoch is fenced."""
    append(log, idempotent(9, 0, 3, epoch=2))
    assert refused(log, idempotent(9, 3, epoch=3)) is errors.OutOfOrderSequenceNumberError
    append(log, idempotent(9, 0, epoch=3))
    assert refused(log, idempotent(9, 3, epoch=2)) is errors.InvalidProducerEpochError
    assert refused(log, idempotent(9, 0, 3, epoch=2)) is errors.InvalidProducerEpochError, (
        "no repeat any more"
    )
    append(log, idempotent(9, 1, epoch=3))
    check_producers(log)


def test_producers_are_independent(log: Log) -> None:
    """Batches without a producer id change nothing."""
    for number in range(3):
        append(log, idempotent(8, number))
        append(log, batch(2))
        append(log, idempotent(9, number, epoch=5))
    check_producers(log)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_sequence": -1, "producer_epoch": 0},
        {"base_sequence": 0, "producer_epoch": -1},
        {"base_sequence": 0, "producer_epoch": 0, "producer_id": -1, "attributes": 0x10},
    ],
    ids=["no sequence", "no epoch", "a transaction without a producer"],
)
def test_batch_with_producer_id_needs_a_sequence(log: Log, wrong: dict[str, int]) -> None:
    """Only servers write without sequences."""
    data = idempotent(9, 0)
    made = sealed_batch(read_batch_header(data)._replace(**wrong), data[HEADER_BYTES:])
    assert refused(log, made) is errors.InvalidRecordError


# --- how much is kept ---------------------------------------------------------------------------------------


def test_producers_expire_by_last_timestamp(log: Log) -> None:
    """Not with an open transaction."""
    append(log, idempotent(7, 0, timestamp=NOW - 10))
    append(log, idempotent(8, 0, timestamp=NOW))
    verified(log, transactional(9, 0, timestamp=NOW - 10))
    log.producers.states.expire(NOW - 1)
    assert sorted(each.producer_id for each in log.producers.states.all()) == [8, 9]
    append(log, idempotent(7, 55))
    end(log, 9, epoch=1)
    log.producers.states.expire(NOW)
    assert len(log.producers.states) == 0


def test_number_of_producers_is_bounded(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently active one is forgotten, never one with a transaction."""
    monkeypatch.setattr(producer_states, "MAX_PRODUCERS", 3)
    verified(log, transactional(1, 0))
    for producer_id in (2, 3):
        append(log, idempotent(producer_id, 0))
    append(log, idempotent(2, 1))
    append(log, idempotent(4, 0))
    assert [each.producer_id for each in log.producers.states.all()] == [1, 2, 4]


def test_verifications_are_bounded_and_expire(log: Log) -> None:
    """The oldest is forgotten: its batch is then refused."""
    producers = log.producers.states
    guards = [
        producers.begin_verification(producer_id, 0, 0, NOW, bumps_epoch=True)
        for producer_id in range(MAX_VERIFICATIONS + 1)
    ]
    for producer_id, is_forgotten in ((0, True), (1, False)):
        data = transactional(producer_id, 0)
        if is_forgotten:
            with pytest.raises(errors.InvalidTxnStateError):
                log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, guard=guards[producer_id])
        else:
            log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, guard=guards[producer_id])
    log.producers.states.expire(NOW)
    with pytest.raises(errors.InvalidTxnStateError):
        log.append_as_leader(transactional(2, 0), leader_epoch=0, wall_ms=NOW, guard=guards[2])


# --- transactions -------------------------------------------------------------------------------------------


def test_transaction_is_open_until_its_marker(log: Log) -> None:
    """The last stable offset is before it until the marker is committed."""
    log.high_watermark = 3
    verified(log, transactional(9, 0))
    append(log, idempotent(8, 0))
    verified(log, transactional(9, 1))
    log.high_watermark = 6
    assert log.last_stable_offset == 3
    assert log.producers.states.oldest_transaction == OpenTransaction(9, 3, NOW)
    end(log, 9, epoch=1)
    assert log.producers.states.oldest_transaction is None
    assert log.last_stable_offset == 3, "the marker is not committed"
    log.high_watermark = 7
    assert log.last_stable_offset == 7
    check_producers(log)


def test_uncommitted_markers_are_bounded(log: Log) -> None:
    """If nothing is committed, the oldest markers count as committed, which shows nothing undecided."""
    states = log.producers.states
    verified(log, transactional(9, 0))
    end(log, 9, epoch=1)
    for number in range(1, MAX_UNCOMMITTED_MARKERS):
        verified(log, transactional(9, 0, epoch=number))
        end(log, 9, epoch=number + 1)
    first = states.first_unstable_offset(0)
    verified(log, transactional(9, 0, epoch=number + 1))
    end(log, 9, epoch=number + 2)
    assert states.first_unstable_offset(0) > first
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == log.high_watermark
    assert not states.has_transactions


def test_completed_transactions_are_forgotten_without_reads(log: Log) -> None:
    """The last stable offset is never read: each append drops the committed markers."""
    for number in range(MAX_UNCOMMITTED_MARKERS + 1):
        log.high_watermark = log.log_end_offset
        verified(log, transactional(9, 0, epoch=number))
        end(log, 9, epoch=number + 1)
    first = log.log_end_offset - 4
    assert log.producers.states.first_unstable_offset(0) >= first


def test_last_stable_offset_is_not_below_log_start(log: Log) -> None:
    """Records of an open transaction may be deleted."""
    verified(log, transactional(9, 0))
    append(log, batch(4))
    log.high_watermark = log.log_end_offset
    log.advance_log_start_offset(5)
    assert log.last_stable_offset == 5


def test_overlapping_transactions(log: Log) -> None:
    """Aborted ones are found from every offset at which one of their records may be read."""
    log.high_watermark = 99
    verified(log, transactional(8, 0))
    verified(log, transactional(9, 0))
    end(log, 8, epoch=1, is_commit=False)
    append(log, batch(2))
    end(log, 9, epoch=1)
    verified(log, transactional(8, 0, epoch=1))
    end(log, 8, epoch=2, is_commit=False)
    log.high_watermark = log.log_end_offset
    assert log.reader.aborted_between(0, 3) == ()
    assert log.reader.aborted_between(3, 4) == ((8, 3),)
    assert log.reader.aborted_between(5, 6) == ((8, 3),)
    assert log.reader.aborted_between(6, 99) == ((8, 9),)
    check_producers(log)


def test_read_gets_all_aborted_transactions_in_its_range(log: Log) -> None:
    """Also those that end after the first one."""
    verified(log, transactional(8, 0))
    verified(log, transactional(9, 0))
    end(log, 8, epoch=1, is_commit=False)
    append(log, batch(2))
    end(log, 9, epoch=1, is_commit=False)
    log.high_watermark = log.log_end_offset
    assert log.reader.aborted_between(3, 4) == ((8, 3),)
    assert log.reader.aborted_between(3, 5) == ((8, 3), (9, 4))
    assert log.reader.aborted_between(4, 5) == ((8, 3), (9, 4))
    check_producers(log)


def test_plain_batch_during_open_transaction_is_refused(log: Log) -> None:
    """It would be lost or shown with the transaction."""
    verified(log, transactional(9, 0))
    assert refused(log, idempotent(9, 1)) is errors.InvalidTxnStateError


def test_marker_without_data_is_remembered(log: Log) -> None:
    """KAFKA-9144: neither producer epoch nor coordinator epoch goes back, although the log has no data of
    it."""
    end(log, 9, epoch=4, coordinator_epoch=7)
    assert log.last_stable_offset == log.high_watermark
    log.close()
    again = open_log(log.folder.files, was_clean=True, recovery_point=log.log_end_offset)
    for each in (log, again):
        assert each.producers.states.get(9).epoch == 4  # type: ignore[union-attr]
    with pytest.raises(errors.TransactionCoordinatorFencedError):
        end(again, 9, epoch=5, coordinator_epoch=6)
    with pytest.raises(errors.InvalidProducerEpochError):
        verified(again, transactional(9, 0, epoch=3))


@pytest.mark.parametrize(
    ("version", "epoch", "is_fine"),
    [(0, 1, False), (0, 2, True), (0, 3, True), (1, 2, True), (2, 1, False), (2, 2, False), (2, 3, True)],
)
def test_epoch_of_a_marker(log: Log, version: int, epoch: int, is_fine: bool) -> None:
    """Up to version 1 at least that of the data; from 2 on higher: a late marker would end the next
    transaction (KAFKA-17754)."""
    verified(log, transactional(9, 0, epoch=2))
    if is_fine:
        end(log, 9, epoch=epoch, version=version)
    else:
        with pytest.raises(errors.InvalidProducerEpochError):
            end(log, 9, epoch=epoch, version=version)
    assert log.producers.states.get(9).has_open_transaction is not is_fine  # type: ignore[union-attr]


def test_repeated_marker_is_accepted(log: Log) -> None:
    """KAFKA-19999: its response was lost; refused once the next transaction has started."""
    verified(log, transactional(9, 0))
    end(log, 9, epoch=1, is_commit=False)
    end(log, 9, epoch=1, is_commit=False)
    verified(log, transactional(9, 0, epoch=1))
    with pytest.raises(errors.InvalidProducerEpochError):
        end(log, 9, epoch=1, is_commit=False)
    log.high_watermark = log.log_end_offset
    check_producers(log)


def test_sequence_reused_after_abort_is_no_duplicate(log: Log) -> None:
    """Scenario 40, Redpanda 5026: the epoch is higher, so the new batch is not taken for the old one."""
    verified(log, transactional(9, 0))
    end(log, 9, epoch=1, is_commit=False)
    assert verified(log, transactional(9, 0, epoch=1)) == 5
    with pytest.raises(errors.InvalidProducerEpochError):
        append(log, transactional(9, 0))


def test_follower_accepts_the_leaders_batches(log: Log) -> None:
    """With any sequences: the leader may have had less producer state."""
    follow(log, idempotent(9, 0, epoch=3))
    follow(log, idempotent(9, 5, epoch=3))
    follow(log, idempotent(9, 0, epoch=2))
    follow(log, transactional(9, 9, epoch=4))
    follow(log, marker_batch(9, 4, is_commit=False))
    log.high_watermark = log.log_end_offset
    check_producers(log)
    assert log.reader.aborted_between(0, 99) == ((9, 6),)


# --- verification -------------------------------------------------------------------------------------------


def test_first_batch_of_transaction_needs_verification(log: Log) -> None:
    """KIP-890; later batches do not."""
    assert refused(log, transactional(9, 0)) is errors.InvalidTxnStateError
    guard = log.producers.states.begin_verification(9, 0, 0, NOW, bumps_epoch=True)
    assert refused(log, transactional(9, 0)) is errors.InvalidTxnStateError
    log.append_as_leader(transactional(9, 0), leader_epoch=0, wall_ms=NOW, guard=guard)
    assert log.producers.states.begin_verification(9, 0, 1, NOW, bumps_epoch=True) == 0
    append(log, transactional(9, 1))


def test_late_batch_opens_no_transaction(log: Log) -> None:
    """KAFKA-14402: the transaction was aborted while its batch was in flight; another one would never end."""
    guard = log.producers.states.begin_verification(9, 0, 0, NOW, bumps_epoch=False)
    end(log, 9, epoch=0, is_commit=False, version=1)
    with pytest.raises(errors.InvalidTxnStateError):
        log.append_as_leader(transactional(9, 0), leader_epoch=0, wall_ms=NOW, guard=guard)
    assert log.producers.states.oldest_transaction is None
    assert log.producers.states.begin_verification(9, 0, 0, NOW, bumps_epoch=False) != guard


def test_marker_of_previous_transaction_keeps_verification(log: Log) -> None:
    """With version 2 the producer gets its next epoch before all markers are written."""
    verified(log, transactional(9, 0))
    guard = log.producers.states.begin_verification(9, 1, 0, NOW, bumps_epoch=True)
    end(log, 9, epoch=1)
    log.append_as_leader(transactional(9, 0, epoch=1), leader_epoch=0, wall_ms=NOW, guard=guard)


def test_old_epoch_is_not_verified(log: Log) -> None:
    append(log, idempotent(9, 0, epoch=3))
    with pytest.raises(errors.InvalidProducerEpochError):
        log.producers.states.begin_verification(9, 2, 0, NOW, bumps_epoch=True)


def test_batch_does_not_overtake_an_unverified_one(log: Log) -> None:
    """Otherwise the earlier batch would be out of order for ever."""
    producers = log.producers.states
    for sequence in (3, 0, 7):
        guard = producers.begin_verification(9, 0, sequence, NOW, bumps_epoch=False)
    for sequence, is_fine in ((3, False), (7, False), (0, True)):
        if is_fine:
            log.append_as_leader(transactional(9, sequence), leader_epoch=0, wall_ms=NOW, guard=guard)
        else:
            with pytest.raises(errors.OutOfOrderSequenceNumberError):
                log.append_as_leader(transactional(9, sequence), leader_epoch=0, wall_ms=NOW, guard=guard)


def test_version_2_transaction_starts_with_sequence_0(log: Log) -> None:
    """For a producer without batches in its epoch; with version 1 it may have written elsewhere before."""
    for producer_id, bumps_epoch in ((8, False), (9, True)):
        guard = log.producers.states.begin_verification(producer_id, 0, 5, NOW, bumps_epoch=bumps_epoch)
        data = transactional(producer_id, 5)
        if bumps_epoch:
            with pytest.raises(errors.OutOfOrderSequenceNumberError):
                log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, guard=guard)
        else:
            log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, guard=guard)


def test_newer_epoch_starts_a_new_verification(log: Log) -> None:
    """Its lowest sequence starts again; an open transaction of the old epoch does not count."""
    verified(log, transactional(9, 0))
    assert log.producers.states.begin_verification(9, 1, 0, NOW, bumps_epoch=True) > 0
    assert refused(log, transactional(9, 0, epoch=1)) is errors.InvalidTxnStateError
    guard = log.producers.states.begin_verification(9, 2, 0, NOW, bumps_epoch=True)
    log.append_as_leader(transactional(9, 0, epoch=2), leader_epoch=0, wall_ms=NOW, guard=guard)


def test_verification_can_be_disabled(log: Log) -> None:
    log.append_as_leader(transactional(9, 0), leader_epoch=0, wall_ms=NOW, guard=UNCHECKED)
    check_producers(log)
