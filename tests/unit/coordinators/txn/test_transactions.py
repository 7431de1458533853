"""One shard: producers, partitions and ends, with every fault at its place."""

import pytest
from headrace.coordinators.txn.states import TRANSITIONS, TxnState, state_of
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import TopicNamePartitions
from headrace.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    TransactionPartitions,
)
from headrace.protocol.model import CONSUMER_OFFSETS
from headrace.protocol.records.transaction_records import TransactionTopic
from txn_rig import TxnRig

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)
FENCED, CONCURRENT = errors.ProducerFencedError.code, errors.ConcurrentTransactionsError.code
WRONG_STATE, WRONG_ID = errors.InvalidTxnStateError.code, errors.InvalidProducerIdMappingError.code


# --- the whole path -----------------------------------------------------------------------------------------


def test_transaction_is_committed(rig: TxnRig, producer: tuple[int, int]) -> None:
    """The decision is answered, the markers follow, and the id is ready for the next transaction."""
    assert producer == (1000, 0)
    assert rig.write(producer, T0, "x")
    assert rig.write(producer, U0, "y")
    assert rig.state() == "Ongoing"
    assert rig.end(producer).answer == EndTxnResponse(0, 1000, 1)
    assert rig.state() == "PrepareCommit"
    (ask,) = rig.asks
    (marker,) = ask.body.markers
    assert (marker.producer_id, marker.producer_epoch, marker.committed) == (1000, 1, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (rig.epoch, 2)
    rig.deliver()
    assert rig.state() == "CompleteCommit"
    assert rig.leaders[T0].committed == ["x"]
    assert rig.leaders[U0].committed == ["y"]
    assert rig.write((1000, 1), T1, "z")


def test_aborted_transaction_leaves_no_partitions(rig: TxnRig) -> None:
    """Each node gets markers for the partitions that it leads."""
    rig.move(U0, 2)
    producer = rig.begun()
    rig.write(producer, T0, "x")
    rig.write(producer, U0, "y")
    rig.end(producer, commit=False)
    assert sorted(ask.node_id for ask in rig.asks) == [1, 2]
    rig.deliver(1)
    assert rig.state() == "PrepareAbort"
    rig.deliver()
    assert rig.state() == "CompleteAbort"
    assert (rig.leaders[T0].aborted, rig.leaders[U0].aborted) == (["x"], ["y"])


def test_offsets_partition_gets_a_marker(rig: TxnRig, producer: tuple[int, int]) -> None:
    """As other partitions do."""
    assert rig.add_offsets(producer, "g").code == 0
    ((topic, number),) = rig.known().partitions()
    assert topic == CONSUMER_OFFSETS
    rig.end(producer)
    ((marked,),) = [each.topics for each in rig.asks[0].body.markers]
    assert (marked.topic, marked.partitions) == (topic, (number,))
    rig.deliver()
    assert rig.state() == "CompleteCommit"


def test_markers_wait_until_the_decision_is_committed(rig: TxnRig, producer: tuple[int, int]) -> None:
    """A coordinator that takes over without the decision would decide again."""
    rig.write(producer, T0, "x")
    rig.commits_at_once = False
    call = rig.end(producer)
    assert not call.answers
    assert not rig.asks
    rig.commit()
    assert call.code == 0
    assert len(rig.asks) == 1


def test_lost_decision_has_no_markers(rig: TxnRig, producer: tuple[int, int]) -> None:
    """The next coordinator does not have it."""
    rig.write(producer, T0, "x")
    rig.commits_at_once = False
    rig.end(producer)
    rig.restart(keeps=0)
    assert rig.state() == "Ongoing"
    assert not rig.asks
    rig.commits_at_once = True
    assert rig.end(producer, commit=False).code == 0
    rig.settle()
    assert rig.leaders[T0].aborted == ["x"]


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("written", [0, 1, 2])
def test_new_coordinator_continues_sending_markers(rig: TxnRig, is_commit: bool, written: int) -> None:
    """However many partitions have theirs; a request to the old coordinator is refused."""
    rig.move(U0, 2)
    producer = rig.begun()
    rig.write(producer, T0, "x")
    rig.write(producer, U0, "y")
    rig.end(producer, commit=is_commit)
    old = [rig.asks[0], rig.asks[1]]
    for _ in range(min(written, 1)):
        rig.deliver()
    rig.restart()
    rig.asks = [ask for ask in rig.asks if ask not in old]
    rig.settle()
    assert rig.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
    for key, value in ((T0, "x"), (U0, "y")):
        assert (rig.leaders[key].committed, rig.leaders[key].aborted) == (
            ([value], []) if is_commit else ([], [value])
        )


def test_markers_after_a_reload_wait_for_the_commit(rig: TxnRig, producer: tuple[int, int]) -> None:
    """Records that only the new leader has are not decided yet."""
    rig.write(producer, T0, "x")
    rig.commits_at_once = False
    rig.end(producer)
    rig.restart()
    assert rig.state() == "PrepareCommit"
    assert not rig.asks
    rig.commit()
    assert len(rig.asks) == 1


# --- producers ----------------------------------------------------------------------------------------------


def test_new_producer_fences_the_previous_one(rig: TxnRig) -> None:
    """By the epoch; scenario 42."""
    old = rig.begun()
    assert rig.begun() == (old[0], 1)
    assert rig.add(old, T0).error_code == FENCED
    assert rig.end(old).code == FENCED
    assert rig.add_offsets(old).code == FENCED


def test_open_transaction_of_the_previous_producer_is_aborted_first(rig: TxnRig) -> None:
    """Meanwhile InitProducerId gets a retriable error, and its retries do not raise the epoch again."""
    zombie = rig.begun()
    rig.write(zombie, T0, "x")
    assert rig.init().code == CONCURRENT
    waiting = rig.init()
    assert not waiting.answers
    assert rig.known().value.producer_epoch == 2
    assert rig.end(zombie).code == FENCED
    assert rig.end(zombie, commit=False).code == FENCED
    rig.settle()
    assert rig.leaders[T0].aborted == ["x"]
    assert waiting.answer.producer_epoch == 3
    assert rig.begun() == (zombie[0], 4)
    assert rig.end(zombie, commit=False).code == FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeout_above_the_maximum_is_refused(timeout_ms: int) -> None:
    """transaction.max.timeout.ms."""
    assert TxnRig().init(timeout_ms=timeout_ms).code == errors.InvalidTransactionTimeoutError.code


def test_init_producer_id_after_an_error(rig: TxnRig) -> None:
    """KIP-360: with the present id and epoch it gets the next epoch, and a retry the same one."""
    first = rig.begun()
    second = rig.begun(producer=first)
    assert second == (first[0], 1)
    assert rig.begun(producer=first) == second
    assert rig.begun() == (first[0], 2)
    assert rig.init(producer=second).code == FENCED
    assert rig.init(producer=(77, 2)).code == FENCED
    assert rig.init(producer=(first[0], -1)).code == errors.InvalidRequestError.code


def test_init_producer_id_of_a_zombie_aborts_nothing(rig: TxnRig) -> None:
    """Its epoch is over."""
    zombie = rig.begun()
    producer = rig.begun()
    rig.write(producer, T0, "x")
    assert rig.init(producer=zombie).code == FENCED
    assert rig.state() == "Ongoing"


def test_last_epoch_is_followed_by_a_new_producer_id(rig: TxnRig) -> None:
    """A retry gets the same one; the last epoch is never assigned."""
    rig.put(4, 32_765)
    assert rig.begun() == (500, 32_766)
    assert rig.begun(producer=(500, 32_766)) == (1000, 0)
    assert rig.begun(producer=(500, 32_766)) == (1000, 0)
    assert rig.begun() == (1000, 1)


def test_without_producer_ids_the_error_is_retriable(rig: TxnRig) -> None:
    """No state changes."""
    rig.has_ids = False
    assert rig.init().code == errors.CoordinatorLoadInProgressError.code
    rig.put(1, 32_766)
    assert rig.end((500, 32_766)).code == errors.CoordinatorLoadInProgressError.code
    assert rig.state() == "Ongoing"


def test_retries_take_no_epochs_while_appends_fail(rig: TxnRig, producer: tuple[int, int]) -> None:
    """KAFKA-9666: below min ISR the log refuses, or accepts records that are not committed."""
    rig.refuses = errors.NotEnoughReplicasError("one replica")
    for _ in range(5):
        assert rig.init().code == errors.NotEnoughReplicasError.code
    rig.refuses, rig.commits_at_once = None, False
    first = rig.init()
    for _ in range(5):
        assert rig.init().code == CONCURRENT
    rig.commit()
    assert first.answer.producer_epoch == producer[1] + 1
    rig.commits_at_once = True
    assert rig.begun() == (producer[0], 2)


def test_failed_append_of_a_fencing_takes_no_epoch(rig: TxnRig, producer: tuple[int, int]) -> None:
    """The transaction continues until it can be fenced."""
    rig.write(producer, T0, "x")
    rig.refuses = errors.NotEnoughReplicasError("one replica")
    for _ in range(3):
        assert rig.init().code == errors.NotEnoughReplicasError.code
    assert rig.end(producer).code == errors.NotEnoughReplicasError.code
    rig.refuses = None
    assert rig.known().value.producer_epoch == 0
    assert rig.end(producer).code == 0


# --- partitions ---------------------------------------------------------------------------------------------


def test_partitions_are_added_once(rig: TxnRig, producer: tuple[int, int]) -> None:
    """A known partition is not written again."""
    rig.add(producer, T1, T0, T1)
    size = len(rig.log)
    assert rig.add(producer, T0).error_code == 0
    assert len(rig.log) == size
    assert rig.known().partitions() == [T0, T1]


def test_missing_partition_refuses_all_of_the_request(rig: TxnRig, producer: tuple[int, int]) -> None:
    added = rig.add(producer, T0, ("t", 9), ("w", 0))
    codes = [each.error_code for each in added.results]
    unknown = errors.UnknownTopicOrPartitionError.code
    assert codes == [errors.OperationNotAttemptedError.code, unknown, unknown]
    assert rig.state() == "Empty"


def test_verification_adds_no_partition(rig: TxnRig, producer: tuple[int, int]) -> None:
    """KIP-890: a leader asks whether the partition is in the transaction."""
    rig.add(producer, T0)
    size = len(rig.log)
    asked = rig.add(producer, T0, T1, verify_only=True)
    assert [each.error_code for each in asked.results] == [0, errors.TransactionAbortableError.code]
    assert rig.add((producer[0], 7), T0, verify_only=True).error_code == FENCED
    assert rig.add((1, 0), T0, verify_only=True).error_code == WRONG_ID
    assert rig.add((1, 0), T0, name="other", verify_only=True).error_code == WRONG_ID
    rig.end(producer)
    assert rig.add((producer[0], 1), T0, verify_only=True).error_code == CONCURRENT
    assert len(rig.log) == size + 1


def test_late_record_after_an_abort_is_refused(rig: TxnRig, producer: tuple[int, int]) -> None:
    """Scenario 46: the verification fails, since the transaction does not have the partition."""
    rig.add(producer, T0)
    rig.end(producer, commit=False)
    rig.settle()
    assert rig.add(producer, T0, verify_only=True).error_code == FENCED
    assert not rig.write(producer, T0, "late")


def test_several_transactions_in_one_request(rig: TxnRig) -> None:
    """Each has its own result; two with the same id are decided in order."""
    a, b = rig.begun("a"), rig.begun("b")
    asked = tuple(
        TransactionPartitions(name, *producer, (TopicNamePartitions("t", numbers),))
        for name, producer, numbers in (("a", a, (0,)), ("b", (b[0], 5), (0,)), ("a", a, (1,)))
    )
    answer = rig.call(registry.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(asked)).answer
    assert [each.error_code for each in answer.transactions] == [0, FENCED, 0]
    assert rig.known("a").partitions() == [T0, T1]
    assert rig.state("b") == "Empty"


def test_partitions_are_bounded(rig: TxnRig, producer: tuple[int, int]) -> None:
    """Per request, and per transaction."""
    assert rig.add(producer, *[T0] * 10_001).error_code == errors.InvalidRequestError.code
    numbers = tuple(range(1, 10_001))
    rig.put(1, 0, "b", partitions=(TransactionTopic("t", numbers),))
    assert rig.add((500, 0), T0, name="b").error_code == errors.InvalidRequestError.code


# --- ends ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 4, 5])
@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("is_retry", [True, False])
def test_end_without_an_open_transaction(rig: TxnRig, status: int, is_commit: bool, is_retry: bool) -> None:
    """With transaction version 2, as in Kafka's table."""
    rig.put(status, 7)
    call = rig.end((500, 6 if is_retry else 7), commit=is_commit)
    if status == 0 and is_retry:
        expected = FENCED
    elif is_retry:
        expected = 0 if is_commit == (status == 4) else WRONG_STATE
    else:
        expected = WRONG_STATE if is_commit else 0
    assert call.code == expected
    if expected == 0:
        assert call.answer == EndTxnResponse(0, 500, 7 if is_retry else 8)
        assert rig.state() == ("CompleteCommit" if is_retry and is_commit else "CompleteAbort")


@pytest.mark.parametrize("status", [0, 4, 5])
@pytest.mark.parametrize("is_commit", [True, False])
def test_end_of_an_older_client_without_an_open_transaction(
    rig: TxnRig, status: int, is_commit: bool
) -> None:
    """Without epoch bumps an equal decision counts as a retry."""
    rig.put(status, 7)
    assert rig.end((500, 6), commit=is_commit, v2=False).code == FENCED
    call = rig.end((500, 7), commit=is_commit, v2=False)
    assert call.code == (0 if status == (4 if is_commit else 5) else WRONG_STATE)
    assert rig.known().value.producer_epoch == 7


def test_older_clients_keep_their_epoch(rig: TxnRig, producer: tuple[int, int]) -> None:
    """Transaction version 1; the response has no epoch."""
    rig.write(producer, T0, "x")
    assert rig.end(producer, v2=False).answer == EndTxnResponse(0)
    assert rig.end(producer, v2=False).code == CONCURRENT
    assert rig.end(producer, commit=False, v2=False).code == WRONG_STATE
    rig.settle()
    assert rig.end(producer, v2=False).code == 0
    assert rig.write(producer, T0, "y")


def test_retried_end_gets_the_same_answer(rig: TxnRig, producer: tuple[int, int]) -> None:
    """While the markers are pending, and afterwards; the opposite decision is refused."""
    rig.write(producer, T0, "x")
    rig.end(producer)
    assert rig.end(producer).code == CONCURRENT
    assert rig.end(producer, commit=False).code == WRONG_STATE
    rig.settle()
    assert rig.end(producer).answer == EndTxnResponse(0, producer[0], 1)
    assert rig.end(producer, commit=False).code == WRONG_STATE


@pytest.mark.parametrize("is_commit", [True, False])
def test_delayed_end_does_not_end_the_next_transaction(rig: TxnRig, is_commit: bool) -> None:
    """KAFKA-17754, scenario 45."""
    first = rig.begun()
    rig.write(first, T0, "x")
    answer = rig.end(first, commit=is_commit).answer
    rig.settle()
    second = (answer.producer_id, answer.producer_epoch)
    rig.write(second, T0, "y")
    assert rig.end(first, commit=is_commit).code == FENCED
    assert rig.end(first, commit=not is_commit).code == FENCED
    assert rig.state() == "Ongoing"


def test_end_with_the_last_epoch(rig: TxnRig) -> None:
    """The next transaction has a new producer id; retries get the same response."""
    rig.put(1, 32_766, partitions=(TransactionTopic("t", (0,)),))
    rig.leaders[T0].append(500, 32_766, "x")
    call = rig.end((500, 32_766))
    assert call.answer == EndTxnResponse(0, 1000, 0)
    assert rig.asks[0].body.markers[0].producer_epoch == 32_767
    assert rig.end((500, 32_766)).code == CONCURRENT
    rig.restart()
    rig.settle()
    assert rig.end((500, 32_766)).answer == EndTxnResponse(0, 1000, 0)
    assert rig.leaders[T0].committed == ["x"]
    assert rig.write((1000, 0), T0, "y")
    assert rig.end((500, 32_766)).code == WRONG_ID


@pytest.mark.parametrize("epoch", [32_764, 32_765, 32_766])
def test_fencing_near_the_last_epoch(rig: TxnRig, epoch: int) -> None:
    """The fenced producer stays fenced, and the next one has a new id once no epoch is left."""
    rig.put(1, epoch, partitions=(TransactionTopic("t", (0,)),))
    assert rig.init().code == CONCURRENT
    rig.settle()
    assert rig.end((500, epoch), commit=False).code == FENCED
    assert rig.begun() == (1000, 0)


# --- bad input ----------------------------------------------------------------------------------------------


def test_request_without_a_transactional_id_is_refused(rig: TxnRig) -> None:
    assert rig.init("").code == errors.InvalidRequestError.code
    assert rig.add((1, 0), T0, name="").error_code == errors.InvalidRequestError.code
    assert rig.add_offsets((1, 0), name="").code == errors.InvalidRequestError.code
    assert rig.end((1, 0), name="").code == errors.InvalidRequestError.code
    assert rig.call(registry.PRODUCE, InitProducerIdRequest("a")).code == errors.UnsupportedVersionError.code


@pytest.mark.parametrize("status", [-1, 6, 7, 8])
def test_invalid_state_in_a_record_fails_the_load(rig: TxnRig, status: int) -> None:
    with pytest.raises(errors.InvalidRecordError):
        rig.put(status, 0)


def test_transition_table_equals_kafkas() -> None:
    """Kafka lists the valid previous states of each state."""
    before = {state: {each for each in TxnState if state in TRANSITIONS[each]} for state in TxnState}
    resting = {TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT}
    assert before[TxnState.EMPTY] == before[TxnState.DEAD] == resting
    assert before[TxnState.ONGOING] == resting | {TxnState.ONGOING}
    assert before[TxnState.PREPARED] == {TxnState.ONGOING}
    assert before[TxnState.PREPARE_COMMIT] == {TxnState.ONGOING, TxnState.PREPARED}
    is_open = {TxnState.ONGOING, TxnState.PREPARED}
    assert before[TxnState.PREPARE_ABORT] == resting | is_open | {TxnState.PREPARE_EPOCH_FENCE}
    assert before[TxnState.COMPLETE_COMMIT] == {TxnState.PREPARE_COMMIT}
    assert before[TxnState.COMPLETE_ABORT] == {TxnState.PREPARE_ABORT}
    assert before[TxnState.PREPARE_EPOCH_FENCE] == {TxnState.ONGOING}
    assert [state_of(status).value for status in range(6)] == [each.value for each in list(TxnState)[:6]]
