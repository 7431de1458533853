"""One shard: its markers, and what time does; with every fault at its place."""

import pytest
from headrace.protocol import errors
from headrace.protocol.records.transaction_records import TransactionTopic
from txn_rig import TxnRig

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
FENCED, CONCURRENT = errors.ProducerFencedError.code, errors.ConcurrentTransactionsError.code
WRONG_STATE, WRONG_ID = errors.InvalidTxnStateError.code, errors.InvalidProducerIdMappingError.code


# --- markers ------------------------------------------------------------------------------------------------


def test_partition_without_a_leader_gets_its_marker_later(rig: TxnRig) -> None:
    """Scenario 44: with its next leader; other partitions and transactions continue."""
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


def test_deleted_topic_needs_no_marker(rig: TxnRig) -> None:
    """Deleted before the markers are sent, or during their retries."""
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
def test_lost_marker_request_or_response_is_retried(
    rig: TxnRig, producer: tuple[int, int], is_written: bool
) -> None:
    """A repeated marker changes nothing."""
    rig.write(producer, T0, "x")
    rig.end(producer)
    rig.deliver(is_lost=True) if is_written else rig.lose()
    assert rig.state() == "PrepareCommit"
    rig.settle()
    assert rig.state() == "CompleteCommit"
    assert rig.leaders[T0].committed == ["x"]


@pytest.mark.parametrize(
    "code", [3, 6, 7, 19, 20, 56, 14, 5, 2, 87, errors.TransactionCoordinatorFencedError.code]
)
def test_refused_marker_is_retried(rig: TxnRig, producer: tuple[int, int], code: int) -> None:
    """Whatever the error: the transaction completes once it passes."""
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


@pytest.mark.parametrize(
    "code", [errors.InvalidProducerEpochError.code, errors.UnsupportedVersionError.code, 43]
)
def test_partition_with_a_newer_epoch_needs_no_marker(
    rig: TxnRig, producer: tuple[int, int], code: int
) -> None:
    """Nor one that accepts no transactions."""
    rig.add(producer, T0)
    rig.leaders[T0].refuses = code
    rig.end(producer)
    rig.deliver()
    assert rig.state() == "CompleteCommit"


def test_failed_append_of_the_completion_is_retried(rig: TxnRig, producer: tuple[int, int]) -> None:
    """KAFKA-9777, KAFKA-10080: it is written once."""
    rig.write(producer, T0, "x")
    rig.end(producer)
    rig.refuses = errors.NotEnoughReplicasError("one replica")
    rig.deliver()
    rig.pass_time(250)
    assert rig.state() == "PrepareCommit"
    rig.refuses = None
    size = len(rig.log)
    rig.pass_time(100)
    assert rig.state() == "CompleteCommit"
    rig.pass_time(10_000)
    assert len(rig.log) == size + 1


def test_response_to_earlier_markers_changes_nothing(rig: TxnRig, producer: tuple[int, int]) -> None:
    """KAFKA-16352: the present markers stay pending."""
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


def test_markers_of_several_transactions_share_requests(rig: TxnRig) -> None:
    """The requests in flight to a node are bounded; later markers are joined in the next one."""
    producers = {f"id-{i}": rig.begun(f"id-{i}") for i in range(40)}
    for name, producer in producers.items():
        rig.write(producer, T0, name, name=name)
        rig.end(producer, name=name)
    assert len(rig.asks) == 5
    rig.deliver()
    assert len(rig.asks[-1].body.markers) == 35
    rig.settle()
    assert sorted(rig.leaders[T0].committed) == sorted(producers)


def test_marker_request_respects_the_nodes_limit(rig: TxnRig, producer: tuple[int, int]) -> None:
    """Smaller requests succeed."""
    for key in (*[("t", number) for number in range(3)], ("u", 0), ("u", 1)):
        rig.write(producer, key, key)
    rig.max_markers = 2
    rig.end(producer)
    rig.settle()
    assert rig.state() == "CompleteCommit"
    assert all(leader.committed == [key] for key, leader in rig.leaders.items() if key[0] in "tu")


def test_waiting_markers_follow_the_leader(rig: TxnRig) -> None:
    """A node that does not respond delays only its own requests."""
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


def test_expired_transaction_is_aborted(rig: TxnRig) -> None:
    """Its producer is fenced; scenario 47: later records of it are refused."""
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
def test_wall_clock_jump_does_not_change_the_timeout(rig: TxnRig, jump_ms: int) -> None:
    """Scenario 58."""
    producer = rig.begun(timeout_ms=60_000)
    rig.write(producer, T0, "x")
    rig.pass_time(10_000)
    rig.wall_shift_ms += jump_ms
    rig.pass_time(40_000)
    assert rig.state() == "Ongoing"
    rig.pass_time(20_000)
    assert rig.state() == "PrepareAbort"


def test_timeout_continues_over_a_reload(rig: TxnRig) -> None:
    producer = rig.begun(timeout_ms=60_000)
    rig.write(producer, T0, "x")
    rig.pass_time(45_000)
    rig.restart()
    rig.pass_time(30_000)
    assert rig.state() == "PrepareAbort"


def test_slow_clock_does_not_extend_the_timeout(rig: TxnRig) -> None:
    """The start of the transaction is in this coordinator's future."""
    rig.write(rig.begun(timeout_ms=30_000), T0, "x")
    rig.wall_shift_ms -= 3_600_000
    rig.restart()
    rig.pass_time(60_000)
    rig.settle()
    assert rig.leaders[T0].aborted == ["x"]


def test_overdue_abort_is_retried_with_a_backoff(rig: TxnRig) -> None:
    """While appends are refused."""
    for i in range(250):
        rig.write(rig.begun(f"id-{i}", timeout_ms=1_000), T0, i, name=f"id-{i}")
    rig.refuses = errors.NotEnoughReplicasError("one replica")
    rig.pass_time(60_000)
    rig.refuses = None
    rig.pass_time(10_000)
    rig.settle()
    assert len(rig.leaders[T0].aborted) == 250
    assert rig.known("id-0").value.producer_epoch == 2


def test_many_overdue_transactions_are_aborted_in_several_batches(rig: TxnRig) -> None:
    for i in range(250):
        rig.write(rig.begun(f"id-{i}", timeout_ms=1_000), T0, i, name=f"id-{i}")
    rig.pass_time(20_000)
    rig.settle()
    assert sorted(rig.leaders[T0].aborted) == list(range(250))


def test_large_transactions_take_several_batches(rig: TxnRig) -> None:
    """Their aborts, completions and tombstones are too large together; none waits for ever."""
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


def test_unused_transactional_ids_expire() -> None:
    """Those with an open transaction do not."""
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
