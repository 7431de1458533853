"""Which batch of a producer may follow, which repeats one, and which is refused: Kafka's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_files import FakeFiles
from headrace.protocol.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    KafkaError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from headrace.protocol.records.header import HEADER_BYTES, read_batch_header, sealed_batch
from headrace.storage_node.log import producer_states
from headrace.storage_node.log.producer_state import MAX_SEQUENCE
from headrace.storage_node.log.producer_states import OpenTransaction
from headrace.storage_node.log.verification import MAX_VERIFICATIONS, UNCHECKED
from log_rig import NOW, append, batch, open_log
from producer_oracle import check_producers, end, follow, idempotent, marker_batch, transactional, verified

if TYPE_CHECKING:
    from headrace.storage_node.log.log import Log


@pytest.fixture
def log() -> Log:
    log = open_log(FakeFiles())
    append(log, batch(3))
    return log


def refused(log: Log, data: bytes) -> type[KafkaError]:
    """The error; nothing may have changed."""
    before = (log.log_end_offset, log.producers.states.to_snapshot())
    with pytest.raises(KafkaError) as caught:
        append(log, data)
    assert (log.log_end_offset, log.producers.states.to_snapshot()) == before
    return caught.type


# --- repeats ------------------------------------------------------------------------------------------------


def test_each_of_the_last_five_batches_is_known_again(log: Log) -> None:
    """The old offsets are answered, nothing is appended; the sixth is out of order."""
    for number in range(7):
        append(log, idempotent(9, 2 * number, 2))
    end_offset = log.log_end_offset
    for number in range(2, 7):
        info = log.append_as_leader(idempotent(9, 2 * number, 2), leader_epoch=3, wall_ms=NOW)
        assert info == (3 + 2 * number, 4 + 2 * number, -1, True)
    assert log.log_end_offset == end_offset
    for number in range(2):
        assert refused(log, idempotent(9, 2 * number, 2)) is OutOfOrderSequenceNumberError
    check_producers(log)


def test_a_part_of_a_known_batch_is_no_repeat(log: Log) -> None:
    """Only the same sequences, first and last."""
    append(log, idempotent(9, 0, 4))
    for first, count in ((0, 3), (1, 3), (0, 5), (1, 2)):
        assert refused(log, idempotent(9, first, count)) is OutOfOrderSequenceNumberError


def test_the_time_of_a_repeat_is_that_of_the_first_append() -> None:
    """Of a topic that stamps records itself."""
    log = open_log(FakeFiles(), message_timestamp_type="LogAppendTime")
    log.append_as_leader(idempotent(9, 0), leader_epoch=0, wall_ms=NOW + 5)
    info = log.append_as_leader(idempotent(9, 0), leader_epoch=0, wall_ms=NOW + 50)
    assert (info.log_append_time_ms, info.is_repeated) == (NOW + 5, True)


def test_a_repeat_is_known_wherever_it_was_written_or_deleted(log: Log) -> None:
    """Also below the log's start: what is known of producers outlives the records (Redpanda 5355: not more on
    one replica than on another)."""
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
def test_an_unknown_producer_begins_anywhere(log: Log, sequence: int) -> None:
    """What was known of it may have expired."""
    append(log, idempotent(9, sequence))
    follows = (sequence + 1) % 2**31
    append(log, idempotent(9, follows))
    assert refused(log, idempotent(9, follows + 2)) is OutOfOrderSequenceNumberError


def test_sequences_wrap_inside_and_between_batches(log: Log) -> None:
    """After 2^31-1 comes 0; such a batch is known again, too."""
    append(log, idempotent(9, MAX_SEQUENCE - 2, 2))
    across = idempotent(9, MAX_SEQUENCE, 3)
    offset = append(log, across)
    assert append(log, across) == offset
    assert refused(log, idempotent(9, 1)) is OutOfOrderSequenceNumberError
    append(log, idempotent(9, 2))
    check_producers(log)
    append(log, idempotent(8, MAX_SEQUENCE))
    append(log, idempotent(8, 0))


def test_a_new_epoch_begins_at_0(log: Log) -> None:
    """And an older one is over."""
    append(log, idempotent(9, 0, 3, epoch=2))
    assert refused(log, idempotent(9, 3, epoch=3)) is OutOfOrderSequenceNumberError
    append(log, idempotent(9, 0, epoch=3))
    assert refused(log, idempotent(9, 3, epoch=2)) is InvalidProducerEpochError
    assert refused(log, idempotent(9, 0, 3, epoch=2)) is InvalidProducerEpochError, "no repeat any more"
    append(log, idempotent(9, 1, epoch=3))
    check_producers(log)


def test_producers_do_not_see_each_other(log: Log) -> None:
    """Nor do batches without an id change anything."""
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
    ids=["no sequence", "no epoch", "a transaction of nobody"],
)
def test_half_an_idempotent_batch_is_refused(log: Log, wrong: dict[str, int]) -> None:
    """Servers write without sequences, clients do not."""
    data = idempotent(9, 0)
    made = sealed_batch(read_batch_header(data)._replace(**wrong), data[HEADER_BYTES:])
    assert refused(log, made) is InvalidRecordError


# --- how much is kept ---------------------------------------------------------------------------------------


def test_producers_expire_by_the_time_of_their_last_record(log: Log) -> None:
    """Not while they have a transaction open."""
    append(log, idempotent(7, 0, timestamp=NOW - 10))
    append(log, idempotent(8, 0, timestamp=NOW))
    verified(log, transactional(9, 0, timestamp=NOW - 10))
    log.producers.states.expire(NOW - 1)
    assert sorted(each.producer_id for each in log.producers.states.all()) == [8, 9]
    append(log, idempotent(7, 55))
    end(log, 9, epoch=1)
    log.producers.states.expire(NOW)
    assert len(log.producers.states) == 0


def test_the_number_of_producers_is_bounded(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was silent longest goes; never one with a transaction."""
    monkeypatch.setattr(producer_states, "MAX_PRODUCERS", 3)
    verified(log, transactional(1, 0))
    for producer_id in (2, 3):
        append(log, idempotent(producer_id, 0))
    append(log, idempotent(2, 1))
    append(log, idempotent(4, 0))
    assert [each.producer_id for each in log.producers.states.all()] == [1, 2, 4]


def test_questions_to_coordinators_are_bounded_and_expire(log: Log) -> None:
    """The oldest is forgotten: its batch is of no transaction then."""
    producers = log.producers.states
    guards = [
        producers.begin_verification(producer_id, 0, 0, NOW, bumps_epoch=True)
        for producer_id in range(MAX_VERIFICATIONS + 1)
    ]
    for producer_id, is_forgotten in ((0, True), (1, False)):
        data = transactional(producer_id, 0)
        if is_forgotten:
            with pytest.raises(InvalidTxnStateError):
                log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, guard=guards[producer_id])
        else:
            log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, guard=guards[producer_id])
    log.producers.states.expire(NOW)
    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(transactional(2, 0), leader_epoch=0, wall_ms=NOW, guard=guards[2])


# --- transactions -------------------------------------------------------------------------------------------


def test_a_transaction_is_open_until_its_marker(log: Log) -> None:
    """Readers of committed ones are shown what lies before it; the marker must be committed too."""
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


def test_markers_do_not_gather(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where nobody asks for the last stable offset, nor where nothing is committed: then the oldest
    are taken to be, which shows nothing that is not decided."""
    monkeypatch.setattr(producer_states, "MAX_UNCOMMITTED_MARKERS", 5)
    for number in range(20):
        log.high_watermark = log.log_end_offset
        verified(log, transactional(9, 0, epoch=number))
        end(log, 9, epoch=number + 1)
        assert len(log.producers.states._ended) <= 2
    first = log.log_end_offset
    log.high_watermark = first
    for number in range(20, 30):
        verified(log, transactional(9, 0, epoch=number))
        end(log, 9, epoch=number + 1)
        assert len(log.producers.states._ended) <= 5
    assert log.last_stable_offset == first
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == log.high_watermark
    assert not log.producers.states._ended


def test_the_last_stable_offset_is_never_below_the_start(log: Log) -> None:
    """Records of an open transaction may be deleted."""
    verified(log, transactional(9, 0))
    append(log, batch(4))
    log.high_watermark = log.log_end_offset
    log.advance_log_start_offset(5)
    assert log.last_stable_offset == 5


def test_transactions_that_overlap_are_told_apart(log: Log) -> None:
    """Aborted ones are found wherever one of their records may be read."""
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


def test_an_abort_does_not_hide_one_that_comes_later(log: Log) -> None:
    """Who reads a part hears of all that were open there, also of those that ended behind the first end."""
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


def test_what_is_of_no_transaction_is_refused_while_one_is_open(log: Log) -> None:
    """It would be lost or shown with the transaction."""
    verified(log, transactional(9, 0))
    assert refused(log, idempotent(9, 1)) is InvalidTxnStateError


def test_a_marker_of_nothing_is_kept_in_mind(log: Log) -> None:
    """KAFKA-9144: neither the epoch nor that of the coordinator goes back, though no data was ever here."""
    end(log, 9, epoch=4, coordinator_epoch=7)
    assert log.last_stable_offset == log.high_watermark
    log.close()
    again = open_log(log.folder.files, was_clean=True, recovery_point=log.log_end_offset)
    for each in (log, again):
        assert each.producers.states.get(9).epoch == 4  # type: ignore[union-attr]
    with pytest.raises(TransactionCoordinatorFencedError):
        end(again, 9, epoch=5, coordinator_epoch=6)
    with pytest.raises(InvalidProducerEpochError):
        verified(again, transactional(9, 0, epoch=3))


@pytest.mark.parametrize(
    ("version", "epoch", "is_fine"),
    [(0, 1, False), (0, 2, True), (0, 3, True), (1, 2, True), (2, 1, False), (2, 2, False), (2, 3, True)],
)
def test_the_epoch_of_a_marker(log: Log, version: int, epoch: int, is_fine: bool) -> None:
    """Up to version 1 that of the data or later; from 2 on later: a late marker would end the next
    transaction (KAFKA-17754)."""
    verified(log, transactional(9, 0, epoch=2))
    if is_fine:
        end(log, 9, epoch=epoch, version=version)
    else:
        with pytest.raises(InvalidProducerEpochError):
            end(log, 9, epoch=epoch, version=version)
    assert log.producers.states.get(9).has_open_transaction is not is_fine  # type: ignore[union-attr]


def test_a_marker_may_come_twice(log: Log) -> None:
    """KAFKA-19999: its answer was lost; but not any more once the next transaction has begun."""
    verified(log, transactional(9, 0))
    end(log, 9, epoch=1, is_commit=False)
    end(log, 9, epoch=1, is_commit=False)
    verified(log, transactional(9, 0, epoch=1))
    with pytest.raises(InvalidProducerEpochError):
        end(log, 9, epoch=1, is_commit=False)
    log.high_watermark = log.log_end_offset
    check_producers(log)


def test_a_sequence_used_again_after_an_abort_is_no_repeat(log: Log) -> None:
    """Scenario 40, Redpanda 5026: the epoch has moved, so the new record is not taken for the old one."""
    verified(log, transactional(9, 0))
    end(log, 9, epoch=1, is_commit=False)
    assert verified(log, transactional(9, 0, epoch=1)) == 5
    with pytest.raises(InvalidProducerEpochError):
        append(log, transactional(9, 0))


def test_a_follower_takes_what_the_leader_took(log: Log) -> None:
    """Whatever it thinks of the sequences: the leader may know less, or have been another one."""
    follow(log, idempotent(9, 0, epoch=3))
    follow(log, idempotent(9, 5, epoch=3))
    follow(log, idempotent(9, 0, epoch=2))
    follow(log, transactional(9, 9, epoch=4))
    follow(log, marker_batch(9, 4, is_commit=False))
    log.high_watermark = log.log_end_offset
    check_producers(log)
    assert log.reader.aborted_between(0, 99) == ((9, 6),)


# --- verification -------------------------------------------------------------------------------------------


def test_a_transaction_begins_only_after_its_coordinator_was_asked(log: Log) -> None:
    """KIP-890; then it goes on without."""
    assert refused(log, transactional(9, 0)) is InvalidTxnStateError
    guard = log.producers.states.begin_verification(9, 0, 0, NOW, bumps_epoch=True)
    assert refused(log, transactional(9, 0)) is InvalidTxnStateError
    log.append_as_leader(transactional(9, 0), leader_epoch=0, wall_ms=NOW, guard=guard)
    assert log.producers.states.begin_verification(9, 0, 1, NOW, bumps_epoch=True) == 0
    append(log, transactional(9, 1))


def test_a_batch_that_comes_late_opens_nothing(log: Log) -> None:
    """KAFKA-14402: the transaction was aborted while its batch was under way; nobody would end another."""
    guard = log.producers.states.begin_verification(9, 0, 0, NOW, bumps_epoch=False)
    end(log, 9, epoch=0, is_commit=False, version=1)
    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(transactional(9, 0), leader_epoch=0, wall_ms=NOW, guard=guard)
    assert log.producers.states.oldest_transaction is None
    assert log.producers.states.begin_verification(9, 0, 0, NOW, bumps_epoch=False) != guard


def test_the_marker_before_the_asked_transaction_leaves_the_question(log: Log) -> None:
    """With version 2 the producer is told its next epoch before all markers are written."""
    verified(log, transactional(9, 0))
    guard = log.producers.states.begin_verification(9, 1, 0, NOW, bumps_epoch=True)
    end(log, 9, epoch=1)
    log.append_as_leader(transactional(9, 0, epoch=1), leader_epoch=0, wall_ms=NOW, guard=guard)


def test_an_old_epoch_is_not_even_asked_about(log: Log) -> None:
    """A zombie."""
    append(log, idempotent(9, 0, epoch=3))
    with pytest.raises(InvalidProducerEpochError):
        log.producers.states.begin_verification(9, 2, 0, NOW, bumps_epoch=True)


def test_a_batch_does_not_overtake_one_that_could_not_be_verified(log: Log) -> None:
    """Else that one would be out of order for ever."""
    producers = log.producers.states
    for sequence in (3, 0, 7):
        guard = producers.begin_verification(9, 0, sequence, NOW, bumps_epoch=False)
    for sequence, is_fine in ((3, False), (7, False), (0, True)):
        if is_fine:
            log.append_as_leader(transactional(9, sequence), leader_epoch=0, wall_ms=NOW, guard=guard)
        else:
            with pytest.raises(OutOfOrderSequenceNumberError):
                log.append_as_leader(transactional(9, sequence), leader_epoch=0, wall_ms=NOW, guard=guard)


def test_with_version_2_a_transaction_begins_with_sequence_0(log: Log) -> None:
    """Of a producer without batches in its epoch; with version 1 it may have written elsewhere before."""
    for producer_id, bumps_epoch in ((8, False), (9, True)):
        guard = log.producers.states.begin_verification(producer_id, 0, 5, NOW, bumps_epoch=bumps_epoch)
        data = transactional(producer_id, 5)
        if bumps_epoch:
            with pytest.raises(OutOfOrderSequenceNumberError):
                log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, guard=guard)
        else:
            log.append_as_leader(data, leader_epoch=0, wall_ms=NOW, guard=guard)


def test_a_newer_epoch_is_a_new_question(log: Log) -> None:
    """Its lowest sequence begins anew; an open transaction of the old epoch does not count for it."""
    verified(log, transactional(9, 0))
    assert log.producers.states.begin_verification(9, 1, 0, NOW, bumps_epoch=True) > 0
    assert refused(log, transactional(9, 0, epoch=1)) is InvalidTxnStateError
    guard = log.producers.states.begin_verification(9, 2, 0, NOW, bumps_epoch=True)
    log.append_as_leader(transactional(9, 0, epoch=2), leader_epoch=0, wall_ms=NOW, guard=guard)


def test_without_verification_nobody_is_asked(log: Log) -> None:
    """transaction.partition.verification.enable=false."""
    log.append_as_leader(transactional(9, 0), leader_epoch=0, wall_ms=NOW, guard=UNCHECKED)
    check_producers(log)
