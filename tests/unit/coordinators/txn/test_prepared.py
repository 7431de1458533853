"""Prepared transactions: what ends them, and what does not."""

import pytest
from headrace.coordinators.txn.states import TxnState, state_of
from headrace.protocol import errors
from headrace.protocol.records.coordinator_records import decode_record
from headrace.protocol.records.transaction_records import TransactionTopic
from recount import check_transaction_state_counts
from txn_rig import TxnRig

T0, T1 = ("t", 0), ("t", 1)
FENCED, CONCURRENT = errors.ProducerFencedError.code, errors.ConcurrentTransactionsError.code
WRONG_STATE, WRONG_ID = errors.InvalidTxnStateError.code, errors.InvalidProducerIdMappingError.code


def rig_with_one() -> tuple[TxnRig, tuple[int, int]]:
    """One record is written, its transaction is prepared."""
    rig = TxnRig()
    producer = rig.begun(timeout_ms=60_000)
    assert rig.write(producer, T0, "x")
    assert rig.prepare(producer).code == 0
    assert rig.state() == "Prepared"
    return rig, producer


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("v2", [True, False])
@pytest.mark.parametrize("moves", [True, False])
def test_prepared_transaction_never_times_out(is_commit: bool, v2: bool, moves: bool) -> None:
    """Not even after transactional.id.expiration.ms, also at a coordinator that loaded it; the driver ends it
    with the same producer id and epoch."""
    rig, producer = rig_with_one()
    for _ in range(3):
        rig.pass_time(60 * 3_600_000)
        if moves:
            rig.restart()
    assert rig.state() == "Prepared"
    assert rig.end((producer[0], 1), commit=is_commit, v2=v2).code == FENCED
    assert rig.end((7, 0), commit=is_commit, v2=v2).code == WRONG_ID
    assert rig.end(producer, commit=is_commit, v2=v2).code == 0
    rig.settle()
    leader = rig.leaders[T0]
    assert (leader.committed, leader.aborted) == ((["x"], []) if is_commit else ([], ["x"]))
    assert rig.end(producer, commit=is_commit, v2=v2).code == 0  # a retry
    check_transaction_state_counts(rig.shard)


def test_init_producer_id_is_refused_while_prepared() -> None:
    """It neither fences nor aborts, whatever epoch it names, and gets the reason."""
    rig, producer = rig_with_one()
    for call in (rig.init(), rig.init(producer=producer)):
        assert call.code == CONCURRENT
        assert "is prepared" in str(call.answer)
    assert rig.init(producer=(7, 0)).code == FENCED
    assert rig.end(producer).code == 0
    next_one = rig.init()
    rig.settle()
    assert rig.leaders[T0].committed == ["x"]
    assert (next_one.answer.producer_id, next_one.answer.producer_epoch) == (producer[0], 2)


def test_parked_init_producer_id_gets_the_state_prepared_meanwhile(rig: TxnRig) -> None:
    """The producer prepared the next transaction before the waiting InitProducerId was retried."""
    first = rig.begun()
    rig.write(first, T0, "x")
    rig.end(first)
    held = [rig.init() for _ in range(3)]
    rig.deliver()
    second = (first[0], 1)
    assert rig.write(second, T0, "y")
    assert rig.prepare(second).code == 0
    assert not any(call.answers for call in held)
    rig.pass_time(0)
    assert [call.code for call in held] == [CONCURRENT] * 3
    assert rig.state() == "Prepared"


def test_prepared_transaction_accepts_no_partitions() -> None:
    """Nor offsets of a group; the verification by a leader fails too. Preparing it again succeeds."""
    rig, producer = rig_with_one()
    size = len(rig.log)
    for added in (rig.add(producer, T0), rig.add(producer, T1), rig.add(producer, T0, verify_only=True)):
        assert added.error_code == WRONG_STATE
        assert "is prepared" in added.error_detail
    assert rig.add_offsets(producer).code == WRONG_STATE
    assert rig.add((producer[0], 1), T0).error_code == FENCED
    assert rig.prepare(producer).code == 0
    assert len(rig.log) == size


def test_prepare_is_refused(rig: TxnRig) -> None:
    """For unknown ids, other producers, and transactions that are not open, ending or ended."""
    assert rig.prepare((1, 0), "absent").code == WRONG_ID
    producer = rig.begun()
    assert rig.prepare(producer).code == WRONG_STATE
    rig.write(producer, T0, "x")
    assert rig.prepare((7, 0)).code == WRONG_ID
    assert rig.prepare((producer[0], 1)).code == FENCED
    rig.end(producer)
    assert rig.prepare(producer).code == FENCED
    assert rig.prepare((producer[0], 1)).code == WRONG_STATE
    rig.settle()
    assert rig.prepare(producer).code == FENCED
    assert rig.prepare((producer[0], 1)).code == WRONG_STATE


def test_prepare_of_an_aborted_or_fenced_transaction_is_refused(rig: TxnRig) -> None:
    """The driver is too late: nothing of the batch is decided yet."""
    slow = rig.begun(timeout_ms=60_000)
    rig.write(slow, T0, "x")
    rig.pass_time(80_000)
    assert rig.prepare(slow).code == FENCED
    rig.settle()
    fenced = rig.begun()
    rig.write(fenced, T0, "y")
    rig.init()
    assert rig.prepare(fenced).code == FENCED


def test_prepare_is_answered_once_committed(rig: TxnRig, producer: tuple[int, int]) -> None:
    """A new coordinator without the record may still abort the transaction."""
    rig.write(producer, T0, "x")
    rig.refuses = errors.NotEnoughReplicasError("one replica")
    assert rig.prepare(producer).code == errors.NotEnoughReplicasError.code
    assert rig.state() == "Ongoing"
    rig.refuses, rig.commits_at_once = None, False
    call = rig.prepare(producer)
    assert not call.answers
    rig.restart(keeps=0)
    assert rig.state() == "Ongoing"
    rig.commits_at_once = True
    assert rig.prepare(producer).code == 0


def test_next_transaction_of_the_id_times_out() -> None:
    """Only one transaction is prepared, not the id."""
    rig, producer = rig_with_one()
    rig.end(producer)
    rig.settle()
    rig.write((producer[0], 1), T0, "y")
    rig.pass_time(80_000)
    rig.settle()
    assert rig.leaders[T0].aborted == ["y"]


def test_prepared_transaction_with_the_last_epoch(rig: TxnRig) -> None:
    """Its end assigns the next producer id, as of any transaction."""
    rig.put(1, 32_766, partitions=(TransactionTopic("t", (0,)),))
    rig.leaders[T0].append(500, 32_766, "x")
    assert rig.prepare((500, 32_766)).code == 0
    call = rig.end((500, 32_766))
    assert (call.answer.producer_id, call.answer.producer_epoch) == (1000, 0)
    rig.settle()
    assert rig.leaders[T0].committed == ["x"]


def test_prepared_record_is_an_ongoing_record_with_a_tag() -> None:
    """Readers that do not know the tag see an open transaction. In other states it has no meaning."""
    rig, _ = rig_with_one()
    decoded = decode_record(*rig.log[-1])
    assert decoded is not None
    assert (decoded[1].status, decoded[1].prepared_ms) == (1, rig.moment.wall_ms)
    assert state_of(1, is_prepared=True) is TxnState.PREPARED
    assert state_of(4, is_prepared=True) is TxnState.COMPLETE_COMMIT


def test_id_with_a_prepared_transaction_does_not_expire() -> None:
    """Unused ids expire after a week."""
    rig, _ = rig_with_one()
    rig.begun("other")
    rig.pass_time(14 * 24 * 3_600_000)
    assert list(rig.shard.transactions) == ["a"]
    assert rig.shard.metrics().gauges["transactional-ids/Prepared"] == 1
