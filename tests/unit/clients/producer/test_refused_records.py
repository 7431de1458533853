"""A batch rejected because of some of its records (KIP-467): these fail, the rest is retried."""

from typing import Any

import pytest
from headrace.clients.producer.delivery_io import Delivery, RecordFuture
from headrace.protocol import errors
from producer_rig import ProducerRig, stamps_of, values_of

INVALID = errors.InvalidRecordError.code


def put_all(rig: ProducerRig, *values: bytes) -> None:
    for value in values:
        rig.put(value)


def refuse_records(rig: ProducerRig, send: Any, *indexes: int, code: int = INVALID) -> None:
    named = tuple((index, f"record {index} is bad") for index in indexes)
    rig.refuse(send, code, error_detail="some are bad", record_errors=named)


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_good_records_are_sent_again_without_the_bad_ones(is_idempotent: bool) -> None:
    """At once, in their order, as one batch; each rejected record has its own error."""
    rig = ProducerRig(is_idempotent=is_idempotent)
    put_all(rig, b"0", b"1", b"2", b"3", b"4")
    (send,) = rig.step()
    refuse_records(rig, send, 3, 1)
    assert rig.resolved == []
    (bad,) = rig.record_errors
    assert list(bad) == [1, 3]
    assert all(isinstance(each, errors.InvalidRecordError) for each in bad.values())
    assert str(bad[3]) == "record 3 is bad"
    (again,) = rig.step()
    assert values_of(again) == [[b"0", b"2", b"4"]]
    rig.ok(again, 7)
    assert [(each.base_offset, each.error) for each in rig.resolved] == [(7, None)]
    assert rig.sender.counters.records_failed == 2
    assert rig.sender.counters.records_sent == 3
    assert rig.accumulator.used_bytes == 0


def test_single_rejected_record_has_the_type_of_the_error() -> None:
    """Of several only the messages are known, as in Kafka's client."""
    rig = ProducerRig()
    put_all(rig, b"0", b"1")
    (send,) = rig.step()
    refuse_records(rig, send, 0, code=errors.InvalidTimestampError.code)
    assert isinstance(rig.record_errors[0][0], errors.InvalidTimestampError)


def test_next_batch_follows_without_a_gap() -> None:
    """The sequences of the rejected records are used by later records: the batch was not stored."""
    rig = ProducerRig(is_idempotent=True)
    put_all(rig, b"0", b"1", b"2")
    (send,) = rig.step()
    refuse_records(rig, send, 0)
    (again,) = rig.step()
    assert stamps_of(again) == [(7, 0, 0)]
    rig.ok(again)
    rig.put(b"3")
    (following,) = rig.step()
    assert stamps_of(following) == [(7, 0, 2)]
    assert rig.sender.sequences is not None
    assert rig.sender.sequences.bumps == 0


def test_gap_before_a_batch_in_flight_is_found_by_the_leader() -> None:
    """The later batch has its numbers: the leader rejects it, and it is sent again under the next epoch."""
    rig = ProducerRig(is_idempotent=True)
    rig.put(b"first")
    (first,) = rig.step()
    rig.ok(first)
    put_all(rig, b"0", b"1")
    (send,) = rig.step()
    rig.put(b"2")
    (later,) = rig.step()
    refuse_records(rig, send, 1)
    rig.refuse(later, errors.OutOfOrderSequenceNumberError.code)
    (again,) = rig.step()
    assert values_of(again) == [[b"0"]]
    assert stamps_of(again) == [(7, 0, 1)]
    rig.ok(again, 1)
    (later,) = rig.step()
    assert values_of(later) == [[b"2"]]
    assert stamps_of(later) == [(7, 0, 3)], "unchanged: its outcome is unknown"
    rig.refuse(later, errors.OutOfOrderSequenceNumberError.code)
    sends = rig.step(1000)
    assert values_of(sends[0]) == [[b"2"]]
    assert stamps_of(*sends) == [(7, 1, 0)]
    rig.ok(sends[0], 2)
    assert [each.error for each in rig.resolved] == [None, None, None]


def test_batch_that_may_be_stored_is_not_renumbered() -> None:
    """An earlier attempt had no response: under other numbers the records could be stored twice."""
    rig = ProducerRig(is_idempotent=True)
    put_all(rig, b"0", b"1")
    (send,) = rig.step()
    rig.lose(send, errors.NetworkError("lost"))
    (again,) = rig.step(1000)
    refuse_records(rig, again, 1)
    (resolved,) = rig.resolved
    assert isinstance(resolved.error, errors.BatchRefusedError)
    assert "some are bad" in str(resolved.error)
    assert resolved.record_errors is not None
    assert str(resolved.record_errors[1]) == "record 1 is bad"
    assert rig.sender.counters.records_failed == 2


def test_transaction_retries_no_record() -> None:
    """It must be aborted, because a record is not stored."""
    rig = ProducerRig(is_transactional=True)
    put_all(rig, b"0", b"1")
    (send,) = rig.step()
    refuse_records(rig, send, 0)
    (resolved,) = rig.resolved
    assert isinstance(resolved.error, errors.BatchRefusedError)
    assert list(resolved.record_errors or ()) == [0]
    assert rig.step(1000) == []


@pytest.mark.parametrize("named", [(0, 1), (-1, 2, 2**31 - 1)])
def test_batch_without_a_good_record_or_a_known_bad_one_fails(named: tuple[int, ...]) -> None:
    """All records are rejected, or the indexes belong to no record."""
    rig = ProducerRig()
    put_all(rig, b"0", b"1")
    (send,) = rig.step()
    refuse_records(rig, send, *named)
    (resolved,) = rig.resolved
    assert resolved.error is not None
    assert rig.step(1000) == []
    assert rig.accumulator.used_bytes == 0


def test_batch_of_bad_records_alone_fails_with_the_error_of_the_first() -> None:
    """`close` raises the error of the batch when no future was read: it names no other records."""
    rig = ProducerRig()
    put_all(rig, b"0", b"1")
    (send,) = rig.step()
    refuse_records(rig, send, 1, 0)
    (resolved,) = rig.resolved
    assert isinstance(resolved.error, errors.InvalidRecordError)
    assert str(resolved.error) == "record 0 is bad"


def test_expired_batch_is_not_sent_again() -> None:
    """Its outcome was set before the response."""
    rig = ProducerRig(delivery_timeout_ms=1000)
    put_all(rig, b"0", b"1")
    (send,) = rig.step()
    assert rig.step(1000) == []
    assert isinstance(rig.resolved[0].error, errors.DeliveryTimeoutError)
    refuse_records(rig, send, 0)
    assert len(rig.resolved) == 1
    assert rig.step(1000) == []


def futures(delivery: Delivery, count: int) -> list[RecordFuture]:
    return [RecordFuture(delivery, index, 0, -1, 1) for index in range(count)]


def test_futures_of_a_batch_that_was_sent_again() -> None:
    """Offsets are counted without the rejected records, also after a split of the rest."""
    whole, rest, first, second = (Delivery("t", 0, None) for _ in range(4))
    found = futures(whole, 6)
    whole.refuse_records({1: errors.InvalidRecordError("one"), 4: errors.InvalidTimestampError("four")}, rest)
    assert not found[1].done()
    rest.split([(0, first), (3, second)])
    first.resolve(10, -1, None)
    second.resolve(20, -1, None)
    assert [future.result(0).offset for future in (found[0], found[2], found[3], found[5])] == [
        10,
        11,
        12,
        20,
    ]
    assert str(found[1].exception(0)) == "one"
    assert str(found[4].exception(0)) == "four"
    assert not whole.has_succeeded()


def test_futures_of_a_batch_that_failed() -> None:
    """Each named record has its own error, the rest that of the batch."""
    whole = Delivery("t", 0, None)
    found = futures(whole, 3)
    whole.resolve(-1, -1, errors.BatchRefusedError("others"), {1: errors.InvalidRecordError("one")})
    assert [str(future.exception(0)) for future in found] == ["others", "one", "others"]
