"""Requests of the next transaction that wait for the end of the previous one."""

import pytest
from headrace.coordinators.txn.parked_requests import MAX_PARKED, PARK_MS
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import TopicNamePartitions
from headrace.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    InitProducerIdRequest,
    TransactionPartitions,
)
from headrace.protocol.records.transaction_records import TransactionTopic
from txn_rig import Call, TxnRig

T0, T1 = ("t", 0), ("t", 1)
CONCURRENT = errors.ConcurrentTransactionsError.code


@pytest.fixture
def rig() -> TxnRig:
    """The client of id "a" has the response to its commit; the markers are being written."""
    rig = TxnRig()
    producer = rig.begun()
    rig.write(producer, T0, "x")
    rig.end(producer)
    assert rig.state() == "PrepareCommit"
    return rig


NEXT = (1000, 1)


def add(rig: TxnRig, session: int = 1, *, verify_only: bool = False) -> Call:
    topics = (TopicNamePartitions("t", (1,)),)
    body = AddPartitionsToTxnRequest((TransactionPartitions("a", *NEXT, topics, verify_only),))
    call = Call(session)
    rig.run(lambda now: rig.shard.handle(registry.ADD_PARTITIONS_TO_TXN, body, call, now), call)
    return call


def test_parked_request_begins_the_next_transaction(rig: TxnRig) -> None:
    """Once the previous transaction is complete, without another request."""
    added, offsets = add(rig), rig.add_offsets(NEXT)
    assert not added.answers
    assert not offsets.answers
    rig.deliver()
    rig.pass_time(0)
    assert added.answer.transactions[0].error_code == 0
    assert offsets.code == 0
    assert len(rig.known().partitions()) == 2
    assert rig.state() == "Ongoing"


def test_parked_request_waits_for_the_committed_end(rig: TxnRig) -> None:
    """Else a record of the next transaction could precede the decided end."""
    added = add(rig)
    rig.commits_at_once = False
    rig.deliver()
    rig.pass_time(0)
    assert not added.answers
    rig.commit()
    assert added.answer.transactions[0].error_code == 0


def test_parked_init_producer_id_fences_in_order(rig: TxnRig) -> None:
    began, added = rig.init(), add(rig)
    rig.deliver()
    rig.pass_time(0)
    assert began.answer.producer_epoch == 2
    assert added.answer.transactions[0].error_code == errors.ProducerFencedError.code


def test_parked_requests_time_out(rig: TxnRig) -> None:
    """A partition may be without a leader for hours; each API has its own response."""
    calls = [add(rig), rig.init(), rig.add_offsets(NEXT)]
    rig.pass_time(PARK_MS)
    assert calls[0].answer.transactions[0].error_code == CONCURRENT
    assert [call.code for call in calls[1:]] == [CONCURRENT] * 2
    rig.settle()
    assert rig.state() == "CompleteCommit"
    assert all(len(call.answers) == 1 for call in calls)


def test_parked_requests_are_bounded(rig: TxnRig) -> None:
    """Requests above the limit get a retriable error."""
    calls = [rig.init() for _ in range(MAX_PARKED + 2)]
    assert [len(call.answers) for call in calls] == [0] * MAX_PARKED + [1, 1]
    rig.settle()
    assert len({call.answer.producer_epoch for call in calls[:MAX_PARKED] if call.code == 0}) >= 1
    assert all(call.code in (0, CONCURRENT) for call in calls)


def test_parked_requests_stay_parked_for_the_next_end(rig: TxnRig) -> None:
    """They are not retried in between."""
    added = add(rig)
    calls = [rig.init() for _ in range(MAX_PARKED - 1)]
    rig.deliver()
    rig.pass_time(10)
    assert added.answer.transactions[0].error_code == 0
    assert rig.state() == "PrepareAbort"
    assert [len(call.answers) for call in calls] == [1, 0, 0]
    rig.settle()
    assert [call.answer.producer_epoch for call in calls[1:]] == [4, 5]


def test_verification_of_a_late_record_is_not_parked(rig: TxnRig) -> None:
    """The leader refuses the record."""
    assert add(rig, verify_only=True).answer.transactions[0].error_code == CONCURRENT


def test_early_end_of_the_next_transaction_is_retriable(rig: TxnRig) -> None:
    """A fast producer is not fenced, also with its new producer id."""
    assert rig.end(NEXT, commit=False).code == CONCURRENT
    rig.settle()
    assert rig.end(NEXT).code == errors.InvalidTxnStateError.code
    rig.put(2, 32_767, "b", partitions=(TransactionTopic("t", (0,)),), next_producer_id=2_000,
            client_transaction_version=2)  # fmt: skip
    assert rig.end((2_000, 0), name="b", commit=False).code == CONCURRENT
    began = rig.init("b", (2_000, 0))
    assert not began.answers
    assert rig.add((500, 32_767), T1, name="b") is not None
    rig.settle()
    assert began.answer.producer_id == 2_000


def test_request_of_a_closed_connection_is_dropped(rig: TxnRig) -> None:
    gone, here = add(rig, session=7), rig.init()
    rig.run(lambda now: rig.shard.on_peer_gone(7, now))
    rig.settle()
    assert not gone.answers
    assert here.code == 0
    assert rig.state() == "Empty"


def test_dropped_shard_returns_parked_requests(rig: TxnRig) -> None:
    calls = [add(rig), rig.init()]
    assert rig.shard.close() == calls


def test_failed_append_of_a_parked_request_is_returned(rig: TxnRig) -> None:
    began = rig.init()
    rig.deliver()
    rig.refuses = errors.NotEnoughReplicasError("one replica")
    rig.pass_time(0)
    assert began.code == errors.NotEnoughReplicasError.code
    body = InitProducerIdRequest("a")
    rig.refuses = None
    assert rig.call(registry.INIT_PRODUCER_ID, body).code == 0
