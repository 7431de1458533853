"""One shard: its markers, and what time does; with every fault at its place."""

from __future__ import annotations

import pytest
from headrace.protocol.errors import (
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    NotEnoughReplicasError,
    ProducerFencedError,
    TransactionCoordinatorFencedError,
    UnsupportedVersionError,
)
from headrace.protocol.records.transaction_records import TransactionTopic
from txn_rig import TxnRig

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
FENCED, CONCURRENT = ProducerFencedError.code, ConcurrentTransactionsError.code
WRONG_STATE, WRONG_ID = InvalidTxnStateError.code, InvalidProducerIdMappingError.code


# --- markers ------------------------------------------------------------------------------------------------


def test_a_partition_without_leader_gets_its_marker_later() -> None:
    """Scenario 44: when there is one; the others have theirs, and other transactions go on."""
    rig = TxnRig()
    producer, other = rig.begun(), rig.begun("b")
    rig.write(producer, T0, "x")
    rig.write(producer, U0, "y")
    rig.move(U0)
    rig.end(producer)
    rig.deliver()
    rig.pass_time(1_000)
    assert not rig.asks
    assert rig.state() == "PrepareCommit"
    rig.write(other, T1, "z", name="b")
    rig.end(other, name="b")
    rig.deliver()
    assert rig.state("b") == "CompleteCommit"
    rig.move(U0, 3)
    rig.deliver()
    assert rig.state() == "CompleteCommit"
    assert rig.leaders[U0].committed == ["y"]


def test_a_topic_that_was_deleted_is_not_waited_for() -> None:
    """Before the markers are sent, or while they are tried again."""
    rig = TxnRig()
    producer = rig.begun()
    rig.write(producer, T0, "x")
    rig.write(producer, U0, "y")
    rig.move(U0)
    rig.end(producer)
    rig.deliver()
    rig.delete("u")
    assert rig.state() == "CompleteCommit"
    producer = (producer[0], 1)
    rig.write(producer, T0, "x")
    rig.end(producer)
    rig.delete("t")
    rig.settle()
    assert rig.state() == "CompleteCommit"


@pytest.mark.parametrize("is_written", [True, False])
def test_a_request_or_its_answer_is_lost(is_written: bool) -> None:
    """The marker is written again, which changes nothing."""
    rig = TxnRig()
    producer = rig.begun()
    rig.write(producer, T0, "x")
    rig.end(producer)
    rig.deliver(is_lost=True) if is_written else rig.lose()
    assert rig.state() == "PrepareCommit"
    rig.settle()
    assert rig.state() == "CompleteCommit"
    assert rig.leaders[T0].committed == ["x"]


@pytest.mark.parametrize("code", [3, 6, 7, 19, 20, 56, 14, 5, 2, 87, TransactionCoordinatorFencedError.code])
def test_a_refusal_is_tried_again(code: int) -> None:
    """Whatever it is: no transaction is stuck when it passes."""
    rig = TxnRig()
    producer = rig.begun()
    rig.write(producer, T0, "x")
    rig.leaders[T0].refuses = code
    rig.end(producer)
    for _ in range(3):
        rig.deliver()
        assert rig.state() == "PrepareCommit"
        rig.pass_time(100)
    rig.leaders[T0].refuses = 0
    rig.settle()
    assert rig.leaders[T0].committed == ["x"]


@pytest.mark.parametrize("code", [InvalidProducerEpochError.code, UnsupportedVersionError.code, 43])
def test_a_partition_where_nothing_is_open_is_not_waited_for(code: int) -> None:
    """A later epoch has been there, or it takes no transactions."""
    rig = TxnRig()
    producer = rig.begun()
    rig.add(producer, T0)
    rig.leaders[T0].refuses = code
    rig.end(producer)
    rig.deliver()
    assert rig.state() == "CompleteCommit"


def test_a_completion_that_cannot_be_written_is_tried_again() -> None:
    """KAFKA-9777, KAFKA-10080: and is written once."""
    rig = TxnRig()
    producer = rig.begun()
    rig.write(producer, T0, "x")
    rig.end(producer)
    rig.refuses = NotEnoughReplicasError("one replica")
    rig.deliver()
    rig.pass_time(250)
    assert rig.state() == "PrepareCommit"
    rig.refuses = None
    size = len(rig.log)
    rig.pass_time(100)
    assert rig.state() == "CompleteCommit"
    rig.pass_time(10_000)
    assert len(rig.log) == size + 1


def test_an_answer_to_markers_of_an_earlier_end_changes_nothing() -> None:
    """KAFKA-16352: what is under way for this transaction stays so."""
    rig = TxnRig()
    producer = rig.begun()
    rig.write(producer, T0, "x")
    rig.end(producer)
    late = rig.asks[0]
    rig.deliver(again=True)
    rig.restart()
    rig.asks = [ask for ask in rig.asks if ask is not late]
    rig.settle()
    second = (producer[0], 1)
    rig.write(second, U0, "y")
    rig.end(second)
    rig.asks.append(late)
    rig.deliver(1)
    assert rig.state() == "PrepareCommit"
    rig.settle()
    assert rig.leaders[U0].committed == ["y"]


def test_many_transactions_share_requests() -> None:
    """A node has few of them under way; what comes meanwhile goes together in the next."""
    rig = TxnRig()
    producers = {f"id-{i}": rig.begun(f"id-{i}") for i in range(40)}
    for name, producer in producers.items():
        rig.write(producer, T0, name, name=name)
        rig.end(producer, name=name)
    assert len(rig.asks) == 5
    rig.deliver()
    assert len(rig.asks[-1].body.markers) == 35
    rig.settle()
    assert sorted(rig.leaders[T0].committed) == sorted(producers)


def test_a_node_takes_fewer_markers_at_once() -> None:
    """As its configuration says; they get through in smaller requests."""
    rig = TxnRig()
    producer = rig.begun()
    for key in (*[("t", number) for number in range(3)], ("u", 0), ("u", 1)):
        rig.write(producer, key, key)
    rig.max_markers = 2
    rig.end(producer)
    rig.settle()
    assert rig.state() == "CompleteCommit"
    assert all(leader.committed == [key] for key, leader in rig.leaders.items() if key[0] in "tu")


def test_what_waits_for_a_request_follows_the_leader() -> None:
    """A node that does not answer holds up its own requests alone."""
    rig = TxnRig()
    producers = {f"id-{i}": rig.begun(f"id-{i}") for i in range(7)}
    for name, producer in producers.items():
        rig.write(producer, T0, name, name=name)
        rig.end(producer, name=name)
    stuck = list(rig.asks)
    rig.move(T0, 2)
    (ask,) = [ask for ask in rig.asks if ask not in stuck]
    assert ask.node_id == 2
    rig.deliver(rig.asks.index(ask))
    assert [rig.state(name) for name in producers] == ["PrepareCommit"] * 5 + ["CompleteCommit"] * 2
    rig.settle()
    assert sorted(rig.leaders[T0].committed) == sorted(producers)


# --- time ---------------------------------------------------------------------------------------------------


def test_a_transaction_that_takes_too_long_is_aborted() -> None:
    """Its producer is fenced; scenario 47: what it still writes is refused."""
    rig = TxnRig()
    producer = rig.begun(timeout_ms=15_000)
    rig.write(producer, T0, "x")
    rig.pass_time(10_000)
    assert rig.state() == "Ongoing"
    rig.pass_time(20_000)
    assert rig.state() == "PrepareAbort"
    rig.settle()
    assert rig.leaders[T0].aborted == ["x"]
    assert not rig.write(producer, T0, "late")
    assert rig.end(producer).code == FENCED


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_jump_of_the_wall_clock_ends_no_transaction_early_nor_keeps_it(jump_ms: int) -> None:
    """Scenario 58."""
    rig = TxnRig()
    producer = rig.begun(timeout_ms=60_000)
    rig.write(producer, T0, "x")
    rig.pass_time(10_000)
    rig.wall_shift_ms += jump_ms
    rig.pass_time(40_000)
    assert rig.state() == "Ongoing"
    rig.pass_time(20_000)
    assert rig.state() == "PrepareAbort"


def test_the_time_goes_on_over_a_reload() -> None:
    """By the wall clock."""
    rig = TxnRig()
    producer = rig.begun(timeout_ms=60_000)
    rig.write(producer, T0, "x")
    rig.pass_time(45_000)
    rig.restart()
    rig.pass_time(30_000)
    assert rig.state() == "PrepareAbort"


def test_a_coordinator_whose_clock_is_behind_waits_no_longer_than_the_timeout() -> None:
    """To it the transaction begins in the future."""
    rig = TxnRig()
    rig.write(rig.begun(timeout_ms=30_000), T0, "x")
    rig.wall_shift_ms -= 3_600_000
    rig.restart()
    rig.pass_time(60_000)
    rig.settle()
    assert rig.leaders[T0].aborted == ["x"]


def test_what_is_overdue_is_tried_once_in_a_while_where_nothing_can_be_written() -> None:
    """And not over and over."""
    rig = TxnRig()
    for i in range(250):
        rig.write(rig.begun(f"id-{i}", timeout_ms=1_000), T0, i, name=f"id-{i}")
    rig.refuses = NotEnoughReplicasError("one replica")
    rig.pass_time(60_000)
    rig.refuses = None
    rig.pass_time(10_000)
    rig.settle()
    assert len(rig.leaders[T0].aborted) == 250
    assert rig.known("id-0").value.producer_epoch == 2


def test_many_are_overdue_at_once() -> None:
    """All are aborted, in several batches."""
    rig = TxnRig()
    for i in range(250):
        rig.write(rig.begun(f"id-{i}", timeout_ms=1_000), T0, i, name=f"id-{i}")
    rig.pass_time(20_000)
    rig.settle()
    assert sorted(rig.leaders[T0].aborted) == list(range(250))


def test_what_does_not_fit_one_batch_goes_in_several() -> None:
    """Together they are too large: to abort, to complete and to forget; none of it may wait for ever."""
    rig = TxnRig()
    names = ["x" * 500 + str(i) for i in range(50)]
    for name in names:
        rig.write(rig.begun(name, timeout_ms=1_000), T0, name, name=name)
    rig.max_batch_bytes = 2_000
    rig.pass_time(120_000)
    while rig.asks:
        rig.deliver()
    assert sorted(rig.leaders[T0].aborted) == sorted(names)
    rig.pass_time(10_000)
    assert {rig.state(name) for name in names} == {"CompleteAbort"}
    rig.pass_time(9 * 24 * 3_600_000)
    assert not rig.shard.transactions


def test_ids_that_nobody_used_for_long_are_forgotten() -> None:
    """Those in a transaction are not."""
    config = {"transactional.id.expiration.ms": "100000000"}
    rig = TxnRig(**config)
    for i in range(250):
        rig.begun(f"id-{i}")
    rig.begun("busy")
    rig.put(2, 3, "stuck", partitions=(TransactionTopic("t", (0,)),))
    rig.pass_time(90_000_000)
    rig.begun("busy")
    rig.pass_time(20_000_000)
    assert sorted(rig.shard.transactions) == ["busy", "stuck"]
    rig.restart()
    assert sorted(rig.shard.transactions) == ["busy", "stuck"]
    assert rig.init("id-1").answer.producer_epoch == 0
