"""The states of a transactional producer, and the effect of errors on them."""

from typing import Any

import pytest
from headrace.clients.producer.transactions import TRANSITIONS, Transactions, TxnState
from headrace.protocol import errors

ABORTABLE = [
    errors.OutOfOrderSequenceNumberError("gap"),
    errors.DeliveryTimeoutError("late"),
    errors.MessageTooLargeError("large"),
    errors.InvalidTxnStateError("not in it"),
    errors.TransactionAbortableError("odd"),
]
FATAL = [errors.ProducerFencedError("fenced"), errors.InvalidProducerIdMappingError("not yours")]


def opened() -> Transactions:
    """With a transaction open."""
    transactions = Transactions("t")
    transactions.init()
    transactions.initialized()
    transactions.begin()
    return transactions


def test_the_table_names_every_state() -> None:
    """It leads to known states only."""
    assert set(TRANSITIONS) == set(TxnState)
    assert all(target in TRANSITIONS for targets in TRANSITIONS.values() for target in targets)


def test_transactions_in_a_row() -> None:
    """Commit, abort, commit."""
    transactions = opened()
    for end in (transactions.commit, transactions.abort, transactions.commit):
        assert transactions.refusal() is None
        end()
        assert isinstance(transactions.refusal(), errors.InvalidTxnStateError)
        transactions.ended()
        assert isinstance(transactions.refusal(), errors.InvalidTxnStateError)
        transactions.begin()


@pytest.mark.parametrize("call", ["init", "begin"])
def test_calls_that_an_open_transaction_forbids(call: str) -> None:
    """Nested transactions above all."""
    with pytest.raises(errors.InvalidTxnStateError, match="a transaction is open"):
        getattr(opened(), call)()


@pytest.mark.parametrize("call", ["begin", "commit", "abort", "check_open"])
def test_calls_that_need_initialization(call: str) -> None:
    """No call succeeds before `init`."""
    with pytest.raises(errors.InvalidTxnStateError, match="not initialized"):
        getattr(Transactions("t"), call)()


@pytest.mark.parametrize("error", ABORTABLE, ids=repr)
def test_abortable_error_allows_only_abort(error: Any) -> None:
    """Other calls raise it, with its cause; after the abort all calls succeed."""
    transactions = opened()
    transactions.failed(error, of_batch=True)
    for call in (transactions.commit, transactions.check_open):
        with pytest.raises(errors.TransactionAbortableError) as caught:
            call()
        assert caught.value.__cause__ is error
    with pytest.raises(errors.InvalidTxnStateError, match="must be aborted"):
        transactions.begin()
    transactions.abort()
    transactions.ended()
    transactions.begin()
    assert transactions.refusal() is None


@pytest.mark.parametrize("error", FATAL, ids=repr)
@pytest.mark.parametrize("how", ["failed", "refused"])
def test_fatal_errors_end_the_producer(error: Any, how: str) -> None:
    """It can begin no transaction."""
    transactions = opened()
    getattr(transactions, how)(error)
    for call in (transactions.commit, transactions.abort, transactions.begin, transactions.init):
        with pytest.raises(type(error)):
            call()


def test_fenced_error_names_the_other_producer() -> None:
    """And what to do."""
    transactions = opened()
    transactions.refused(errors.InvalidProducerEpochError("epoch 3, now 4"))
    with pytest.raises(
        errors.ProducerFencedError, match=r"id 't' has taken over, .* close this one .epoch 3"
    ):
        transactions.check_open()


def test_invalid_epoch_at_a_leader_is_abortable() -> None:
    """The coordinator knows whether the transaction timed out or the producer was fenced (KIP-588)."""
    transactions = opened()
    transactions.failed(errors.InvalidProducerEpochError("old"), of_batch=True)
    transactions.abort()
    assert transactions.state is TxnState.ABORTING


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (errors.TransactionAbortableError(""), TxnState.ABORTABLE_ERROR),
        (errors.InvalidTxnStateError(""), TxnState.FATAL_ERROR),
        (errors.UnknownServerError(""), TxnState.FATAL_ERROR),
    ],
)
def test_state_after_a_rejected_commit(error: Any, state: TxnState) -> None:
    """Only one error leaves a transaction that can be aborted."""
    transactions = opened()
    transactions.commit()
    transactions.refused(error)
    assert transactions.state is state


def test_a_commit_and_an_abort_may_be_repeated_but_not_exchanged() -> None:
    """The outcome of a commit that timed out is not known: an abort might contradict it."""
    transactions = opened()
    transactions.commit()
    transactions.commit()
    with pytest.raises(errors.InvalidTxnStateError, match="being committed"):
        transactions.abort()
    transactions.ended()
    transactions.begin()
    transactions.abort()
    transactions.abort()
    with pytest.raises(errors.InvalidTxnStateError, match="being aborted"):
        transactions.commit()


def test_errors_outside_of_a_transaction_are_ignored() -> None:
    """A late response, after the abort or before the next one."""
    transactions = opened()
    transactions.abort()
    transactions.failed(errors.DeliveryTimeoutError("late"), of_batch=True)
    transactions.ended()
    transactions.failed(errors.DeliveryTimeoutError("late"), of_batch=True)
    assert transactions.state is TxnState.READY


def test_init_that_timed_out_can_be_repeated() -> None:
    """After ApiTimeoutError."""
    transactions = Transactions("t")
    transactions.init()
    transactions.not_initialized()
    transactions.init()
    transactions.initialized()
    transactions.begin()


def test_every_call_raises_after_the_end() -> None:
    """In every state."""
    transactions = opened()
    transactions.fail(errors.ClosedError("closed"))
    with pytest.raises(errors.ClosedError):
        transactions.commit()
    transactions.fail(errors.ProducerFencedError("later"))
    assert isinstance(transactions.refusal(), errors.ClosedError)
