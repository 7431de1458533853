"""The sequences of an idempotent producer: retries, missing sequences, renumbering."""

from typing import Any

import pytest
from headrace.clients.producer.batches import Identity
from headrace.clients.producer.effects import RequestProducerId
from headrace.clients.producer.sequences import MAX_EPOCH, MAX_SEQUENCE
from headrace.protocol import errors
from producer_rig import ProducerRig, stamps_of, values_of, view_of

OUT_OF_ORDER = errors.OutOfOrderSequenceNumberError.code
BUSY = errors.NotEnoughReplicasError.code


def rig_with(*leaders: int, **facts: Any) -> ProducerRig:
    """Each record is a batch of its own, and partition 0 has acknowledged record 0."""
    rig = ProducerRig(*leaders, is_idempotent=True, batch_bytes=1, **facts)
    rig.put(b"0")
    (send,) = rig.step()
    rig.ok(send)
    rig.resolved.clear()
    return rig


def sent_now(rig: ProducerRig, *values: bytes) -> list[Any]:
    """A request for each value."""
    sends = []
    for value in values:
        rig.put(value)
        sends += rig.step()
    return sends


def outcomes(rig: ProducerRig) -> list[Any]:
    """Of each batch with an outcome: None, or the class of its error."""
    return [None if effect.error is None else type(effect.error) for effect in rig.resolved]


def test_no_batch_is_sent_without_a_producer_id() -> None:
    """It is requested once, when a batch waits for it."""
    rig = ProducerRig(is_idempotent=True)
    assert rig.sender.sequences is not None
    rig.sender.sequences.identity = None
    assert rig.step() == []
    assert RequestProducerId() not in rig.effects
    rig.put(b"x")
    assert rig.step() == rig.step() == []
    assert rig.effects.count(RequestProducerId()) == 1
    rig.sender.on_identity(Identity(5, 3), rig.now_ms)
    (send,) = rig.step()
    assert stamps_of(send) == [(5, 3, 0)]


def test_five_batches_of_a_partition_are_in_flight_in_order() -> None:
    """The sixth waits, however many requests the node would take."""
    rig = rig_with(max_in_flight=100)
    sends = sent_now(rig, b"1", b"2", b"3", b"4", b"5", b"6")
    assert [values_of(send) for send in sends] == [[[b"%d" % n]] for n in range(1, 6)]
    assert stamps_of(*sends) == [(7, 0, n) for n in range(1, 6)]
    rig.ok(sends[0])
    (last,) = rig.step()
    assert stamps_of(last) == [(7, 0, 6)]


def test_the_leader_must_remember_the_first_batch_under_way() -> None:
    """Its outcome is unknown, four later batches are stored: a sixth could make the leader forget it."""
    rig = rig_with(max_in_flight=100)
    sends = sent_now(rig, b"1", b"2", b"3", b"4", b"5")
    for send in sends[1:]:
        rig.ok(send)
    assert sent_now(rig, b"6") == []
    rig.ok(sends[0])
    assert len(rig.step()) == 1


def test_one_batch_is_in_flight_before_the_first_acknowledgement() -> None:
    """A leader without producer state accepts any sequence."""
    rig = ProducerRig(is_idempotent=True, batch_bytes=1)
    (first,) = sent_now(rig, b"1", b"2")
    rig.ok(first)
    assert len(rig.step()) == len(sent_now(rig, b"3")) == 1


def test_acknowledged_later_batch_resolves_a_failed_one() -> None:
    """An earlier one does not: new batches wait."""
    rig = rig_with()
    first, failed, later = sent_now(rig, b"1", b"2", b"3")
    rig.refuse(failed, errors.UnknownServerError.code)
    rig.ok(first)
    assert sent_now(rig, b"4") == []
    rig.ok(later)
    (send,) = rig.step()
    assert stamps_of(send) == [(7, 0, 4)]


def test_sequences_are_counted_by_records_and_partition() -> None:
    """Three records, then one; the other partition counts its own."""
    rig = ProducerRig(0, 0, is_idempotent=True)
    for value in (b"a", b"b", b"c"):
        rig.put(value)
    rig.put(b"x", partition=1)
    (both,) = rig.step()
    assert stamps_of(both) == [(7, 0, 0), (7, 0, 0)]
    rig.ok(both)
    rig.put(b"d")
    (next_one,) = rig.step()
    assert stamps_of(next_one) == [(7, 0, 3)]


def test_sequences_wrap_to_0() -> None:
    """As in the leader."""
    rig = rig_with()
    track = rig.sender.sequences._tracks[rig.topic.queues[0]]  # type: ignore[union-attr]
    track.next_number = track.acked_end = MAX_SEQUENCE - 1
    sends = sent_now(rig, b"a", b"b", b"c")
    assert stamps_of(*sends) == [(7, 0, MAX_SEQUENCE - 1), (7, 0, MAX_SEQUENCE), (7, 0, 0)]


@pytest.mark.parametrize("how", ["lost", "refused"])
def test_retry_keeps_the_sequence(how: str) -> None:
    """Its bytes do not change, and later batches wait for it."""
    rig = rig_with()
    first, second, third = sent_now(rig, b"1", b"2", b"3")
    before = first.batches[0].data
    if how == "lost":
        rig.lose(first, errors.NetworkError("cut"))
    else:
        rig.refuse(first, BUSY)
    rig.refuse(second, OUT_OF_ORDER)
    rig.refuse(third, OUT_OF_ORDER)
    (again,) = rig.step(200)
    assert again.batches[0].data is before
    assert rig.step() == []
    rig.ok(again)
    (next_one,) = rig.step()
    assert stamps_of(again, next_one) == [(7, 0, 1), (7, 0, 2)]
    rig.ok(next_one)
    (last,) = rig.step()
    assert stamps_of(last) == [(7, 0, 3)]
    rig.ok(last)
    assert outcomes(rig) == [None] * 3
    assert rig.sender.sequences.bumps == 0  # type: ignore[union-attr]


def test_out_of_order_later_batches_are_retried_without_backoff() -> None:
    """And without counting as a retry."""
    rig = rig_with(retries=1)
    first, second = sent_now(rig, b"1", b"2")
    rig.refuse(second, OUT_OF_ORDER)
    rig.ok(first)
    (again,) = rig.step()
    rig.refuse(again, BUSY)
    (once_more,) = rig.step(200)
    rig.ok(once_more)
    assert outcomes(rig) == [None] * 2


def test_retries_are_sent_in_order() -> None:
    """3 and 2 fail before 1."""
    rig = rig_with()
    sends = sent_now(rig, b"1", b"2", b"3")
    for send in reversed(sends):
        rig.refuse(send, BUSY)
    for expected in (b"1", b"2", b"3"):
        (send,) = rig.step(500)
        assert values_of(send) == [[expected]]
        rig.ok(send)
    assert outcomes(rig) == [None] * 3


def test_duplicate_sequence_is_a_success() -> None:
    """With or without the offset of the first attempt."""
    rig = rig_with()
    (send,) = sent_now(rig, b"1")
    rig.refuse(send, errors.DuplicateSequenceNumberError.code, base_offset=41)
    (resolved,) = rig.resolved
    assert (resolved.error, resolved.base_offset) == (None, 41)
    assert rig.sender.counters.batches_duplicate == 1


@pytest.mark.parametrize("code", [OUT_OF_ORDER, errors.UnknownProducerIdError.code])
def test_a_gap_before_the_first_batch_raises_the_epoch(code: int) -> None:
    """Batches in flight get sequences from 0 once every response has arrived, in new bytes."""
    rig = rig_with()
    first, second, third = sent_now(rig, b"1", b"2", b"3")
    before = bytes(second.batches[0].data)
    held = second.batches[0].data
    rig.refuse(first, code)
    assert rig.step(200) == [], "the outcome of 2 and 3 is unknown"
    rig.refuse(second, code)
    rig.refuse(third, code)
    seen = []
    for _ in range(3):
        (send,) = rig.step(500)
        seen += stamps_of(send)
        rig.ok(send)
    assert seen == [(7, 1, 0), (7, 1, 1), (7, 1, 2)]
    assert bytes(held) == before
    assert outcomes(rig) == [None] * 3


def test_acknowledged_batch_is_not_renumbered() -> None:
    """The leader stores 2, then 1 is out of order: 1 gets a new number, 2 none."""
    rig = rig_with()
    first, second = sent_now(rig, b"1", b"2")
    rig.refuse(first, OUT_OF_ORDER)
    rig.ok(second)
    (again,) = rig.step(500)
    assert stamps_of(again) == [(7, 1, 0)]
    assert values_of(again) == [[b"1"]]


@pytest.mark.parametrize("code", [errors.InvalidRecordError.code, errors.UnknownServerError.code])
def test_next_batch_resolves_a_failed_one(code: int) -> None:
    """Whether 1 was stored is unknown: batch 2 is sent alone. It is out of order: a sequence is missing."""
    rig = rig_with()
    first, second = sent_now(rig, b"1", b"2")
    rig.refuse(first, code)
    assert sent_now(rig, b"3") == []
    rig.refuse(second, OUT_OF_ORDER)
    sends = rig.step(200)
    assert stamps_of(*sends) == [(7, 1, 0)]
    rig.ok(sends[0])
    assert stamps_of(*rig.step()) == [(7, 1, 1)]


def test_failed_batch_that_was_stored_is_resolved() -> None:
    """UNKNOWN_SERVER_ERROR, but the leader stores the next one: no batch is sent twice (KAFKA-14034)."""
    rig = rig_with()
    first, second = sent_now(rig, b"1", b"2")
    rig.refuse(first, errors.UnknownServerError.code)
    rig.ok(second)
    (third,) = sent_now(rig, b"3")
    assert stamps_of(third) == [(7, 0, 3)]


def test_failure_without_later_batches_raises_the_epoch() -> None:
    """No later batch can resolve it."""
    rig = rig_with()
    (send,) = sent_now(rig, b"bad")
    rig.refuse(send, errors.InvalidRecordError.code)
    (after,) = sent_now(rig, b"good")
    assert stamps_of(after) == [(7, 1, 0)]


def test_renumbering_waits_for_earlier_batches() -> None:
    """1 has no response yet, 2 fails, 3 is out of order: 1 keeps its number, 3 gets a new one after that."""
    rig = rig_with()
    first, second, third = sent_now(rig, b"1", b"2", b"3")
    rig.refuse(second, errors.InvalidRecordError.code)
    rig.refuse(third, OUT_OF_ORDER)
    assert rig.step(200) == []
    rig.lose(first, errors.NetworkError("cut"))
    (again,) = rig.step(200)
    assert stamps_of(again) == [(7, 0, 1)]
    rig.ok(again)
    (old,) = rig.step()
    rig.refuse(old, OUT_OF_ORDER)
    (new,) = rig.step(200)
    assert stamps_of(old, new)[1:] == [(7, 1, 0)]
    assert values_of(new) == [[b"3"]]


def test_other_partitions_keep_their_epoch_while_batches_are_in_flight() -> None:
    """The epoch is that of the producer, the numbers that of the partition."""
    rig = ProducerRig(0, 1, is_idempotent=True, batch_bytes=1)
    for partition in (0, 1):
        rig.put(b"first", partition)
    for send in rig.step():
        rig.ok(send)
    rig.put(b"a", 1)
    (waiting,) = rig.step()
    (bad,) = sent_now(rig, b"bad")
    rig.refuse(bad, errors.InvalidRecordError.code)
    rig.put(b"b", 1)
    assert rig.step() == [], "no batch of the new epoch while one of the old epoch is in flight"
    rig.lose(waiting, errors.NetworkError("cut"))
    (again,) = rig.step(200)
    assert stamps_of(again) == [(7, 0, 1)]
    rig.ok(again)
    (next_one,) = rig.step()
    assert stamps_of(next_one) == [(7, 1, 0)]


def test_new_producer_id_after_the_last_epoch() -> None:
    """The batches in flight get the new id."""
    rig = ProducerRig(is_idempotent=True, batch_bytes=1)
    rig.sender.on_identity(Identity(7, MAX_EPOCH), 0)
    (send,) = sent_now(rig, b"1")
    rig.refuse(send, OUT_OF_ORDER)
    assert rig.step(500) == []
    assert RequestProducerId() in rig.effects
    rig.sender.on_identity(Identity(8, 0), rig.now_ms)
    (again,) = rig.step()
    assert stamps_of(again) == [(8, 0, 0)]


@pytest.mark.parametrize("is_stored", [False, True])
def test_batch_that_expires_in_flight_has_an_unsure_sequence_number(is_stored: bool) -> None:
    """The next batch waits for the outcome of its request, and follows without a gap or after one."""
    rig = rig_with(delivery_timeout_ms=1000)
    (old,) = sent_now(rig, b"old")
    rig.step(1000)
    assert outcomes(rig) == [errors.DeliveryTimeoutError]
    if is_stored:
        rig.ok(old)
    else:
        rig.lose(old, errors.NetworkError("late"))
    (after,) = sent_now(rig, b"new")
    assert stamps_of(after) == [(7, 0, 2) if is_stored else (7, 1, 0)]
    assert len(rig.resolved) == 1


def test_expired_batch_is_resolved_by_the_next_one() -> None:
    """Three were sent and lost; the first expires, the second is stored: so the first was stored."""
    rig = rig_with(delivery_timeout_ms=1000)
    (first,) = sent_now(rig, b"1")
    rig.now_ms = 500
    (second,) = sent_now(rig, b"2")
    for send in (first, second):
        rig.lose(send, errors.NetworkError("cut"))
    rig.view = view_of(-1, epoch=1)
    assert rig.step(500) == []
    assert outcomes(rig) == [errors.DeliveryTimeoutError]
    rig.view = view_of(1, epoch=2)
    (again,) = rig.step()
    assert stamps_of(again) == [(7, 0, 2)]
    rig.ok(again)
    assert stamps_of(*sent_now(rig, b"3")) == [(7, 0, 3)]


def test_parts_of_a_split_batch_share_its_numbers() -> None:
    """Four records from sequence 1, halved twice: each part has its own base sequence, sent in order."""
    rig = ProducerRig(is_idempotent=True, batch_bytes=5000)
    rig.put(b"0")
    (first,) = rig.step()
    for number in range(4):
        rig.put(b"%d" % number * 300)
    rig.ok(first)
    (whole,) = rig.step()
    rig.put(b"after")
    (behind,) = rig.step()
    rig.refuse(whole, errors.MessageTooLargeError.code)
    rig.refuse(behind, OUT_OF_ORDER)
    seen = []
    while sends := rig.step():
        assert len(sends) == 1
        seen.append((stamps_of(sends[0])[0][2], len(values_of(sends[0])[0])))
        rig.ok(sends[0])
    assert seen == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]
    assert rig.sender.sequences.bumps == 0  # type: ignore[union-attr]


def test_new_leader_gets_all_batches_in_flight_at_once() -> None:
    """Later batches do not wait for their backoff either."""
    rig = rig_with(delivery_timeout_ms=100_000)
    sends = sent_now(rig, b"1", b"2", b"3")
    for send in sends:
        send.batches[0].attempts = 6
        rig.lose(send, errors.NetworkError("gone"))
    assert rig.step() == []
    rig.view = view_of(1, epoch=1)
    for number in range(1, 4):
        (again,) = rig.step()
        assert (again.node_id, stamps_of(again)) == (1, [(7, 0, number)])
        rig.ok(again)


def test_transaction_renumbers_no_batch() -> None:
    """A missing sequence fails the batch, and with it the transaction; the next epoch begins at 0."""
    rig = ProducerRig(is_transactional=True, batch_bytes=1)
    (send,) = sent_now(rig, b"1")
    assert send.batches[0].stamp is not None
    assert send.batches[0].stamp.is_transactional
    rig.refuse(send, OUT_OF_ORDER)
    assert outcomes(rig) == [errors.OutOfOrderSequenceNumberError]
    rig.sender.on_identity(Identity(7, 1), rig.now_ms)
    assert stamps_of(*sent_now(rig, b"2")) == [(7, 1, 0)]


def test_fail_unsent_fails_queued_batches_and_retries_none() -> None:
    """1 is in flight and lost, 2 is queued: both fail, and 1 is not retried."""
    rig = ProducerRig(is_transactional=True, batch_bytes=1)
    (first,) = sent_now(rig, b"1", b"2")
    rig._sends(rig.sender.fail_unsent(errors.TransactionAbortableError("over"), rig.now_ms))
    assert outcomes(rig) == [errors.TransactionAbortableError]
    rig.lose(first, errors.NetworkError("cut"))
    assert outcomes(rig) == [errors.TransactionAbortableError] * 2
    assert rig.step(500) == []
    assert rig.accumulator.used_bytes == 0


def test_responses_after_the_end_change_nothing() -> None:
    """Aborted with three batches in flight."""
    rig = rig_with()
    sends = sent_now(rig, b"1", b"2", b"3")
    rig._sends(rig.sender.abort(errors.ClosedError("closed")))
    rig.ok(sends[0])
    rig.refuse(sends[1], OUT_OF_ORDER)
    rig.lose(sends[2], errors.NetworkError("late"))
    assert outcomes(rig) == [errors.ClosedError] * 3


def test_batches_that_may_be_stored_keep_their_sequence() -> None:
    """Responses were lost, and the restarted leader remembers the last batch only: the first two fail,
    since they may be in the log; the third, whose outcome is known, gets a new sequence."""
    rig = rig_with()
    first, second, third = sent_now(rig, b"1", b"2", b"3")
    rig.lose(first, errors.NetworkError("cut"))
    rig.lose(second, errors.NetworkError("cut"))
    rig.refuse(third, OUT_OF_ORDER)
    for _ in range(2):
        (again,) = rig.step(500)
        rig.refuse(again, OUT_OF_ORDER)
    assert outcomes(rig) == [errors.OutOfOrderSequenceNumberError] * 2
    assert "an earlier attempt may have been stored" in str(rig.resolved[0].error)
    (old,) = rig.step(500)
    assert stamps_of(old) == [(7, 0, 3)]
    rig.refuse(old, OUT_OF_ORDER)
    (new,) = rig.step(500)
    assert stamps_of(new) == [(7, 1, 0)]
    assert values_of(new) == [[b"3"]]


def test_rejection_before_the_append_allows_renumbering() -> None:
    """Not enough replicas, then out of order: the batch is renumbered."""
    rig = rig_with()
    (send,) = sent_now(rig, b"1")
    rig.refuse(send, BUSY)
    (again,) = rig.step(500)
    rig.refuse(again, OUT_OF_ORDER)
    assert stamps_of(*rig.step(500)) == [(7, 1, 0)]
