"""The states of a producer's transactions, and the effect of errors on them. Step shape, pure.

After an *abortable* error the transaction can only be aborted: the user gets a TransactionAbortableError with
the cause. After a *fatal* error the producer can only be closed.
Source: Kafka TransactionManager.java; KIP-98, KIP-588, KIP-890, KIP-1050.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    ConcurrentTransactionsError,
    HeadraceError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
    UnsupportedVersionError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cluster.backoff import Backoff


class PreparedTransaction(NamedTuple):
    """A prepared transaction, with all that is needed to end it. Without records or offsets it `is_empty`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_empty: bool


class TxnState(Enum):
    """The state of the transactions of a producer."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in_transaction"
    COMMITTING = "committing"
    PREPARED = "prepared"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "abortable_error"
    FATAL_ERROR = "fatal_error"


_S = TxnState
TRANSITIONS: Mapping[TxnState, Mapping[TxnState, str]] = {
    _S.UNINITIALIZED: {_S.INITIALIZING: "init_transactions", _S.FATAL_ERROR: "the producer is closed"},
    _S.INITIALIZING: {
        _S.READY: "producer id and epoch received",
        _S.UNINITIALIZED: "no response in time",
        _S.FATAL_ERROR: "rejected with a fatal error",
    },
    _S.READY: {_S.IN_TRANSACTION: "begin_transaction", _S.FATAL_ERROR: "the producer is closed"},
    _S.IN_TRANSACTION: {
        _S.COMMITTING: "commit_transaction",
        _S.ABORTING: "abort_transaction",
        _S.ABORTABLE_ERROR: "a record or offset was not stored",
        _S.FATAL_ERROR: "fenced",
    },
    _S.COMMITTING: {
        _S.READY: "committed",
        _S.PREPARED: "prepare_transaction: every record is stored",
        _S.ABORTABLE_ERROR: "a record or offset was not stored",
        _S.FATAL_ERROR: "fenced",
    },
    _S.PREPARED: {
        _S.COMMITTING: "commit_transaction",
        _S.ABORTING: "abort_transaction",
        _S.FATAL_ERROR: "the producer is closed, the transaction stays open",
    },
    _S.ABORTING: {_S.READY: "aborted", _S.FATAL_ERROR: "fenced"},
    _S.ABORTABLE_ERROR: {_S.ABORTING: "abort_transaction", _S.FATAL_ERROR: "fenced"},
    _S.FATAL_ERROR: {},
}

# Fatal errors: the producer can begin no further transaction.
_FATAL = (ProducerFencedError, InvalidProducerIdMappingError, UnsupportedVersionError)
# While the markers of the previous transaction are written, which takes milliseconds.
CONCURRENT_WAIT_MS = 5
_OPEN = (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR)


def wait_after(error: HeadraceError, failures: int, backoff: Backoff) -> int:
    """The backoff in ms after so many failures in a row."""
    wait_ms = backoff.wait_ms(failures)
    if isinstance(error, ConcurrentTransactionsError):
        return min(CONCURRENT_WAIT_MS << min(failures - 1, 10), wait_ms)
    return wait_ms


class Transactions:
    """The transactions of one producer, one after the other. Called with the producer's lock."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TxnState.UNINITIALIZED
        self.error: HeadraceError | None = None  # raised in the error states
        self.has_begun = False  # the coordinator or a partition may have a part of it

    # --- calls of the user ------------------------------------------------------------------------------

    def init(self) -> None:
        """Begin InitProducerId. Errors: InvalidTxnStateError if it was done before."""
        self.check_usable()
        if self.state is not TxnState.UNINITIALIZED:
            raise InvalidTxnStateError(f"init_transactions is called once, and first: {self._text}")
        self._go(TxnState.INITIALIZING)

    def begin(self) -> None:
        """Begin a transaction. Errors: InvalidTxnStateError if one is open, or without a producer id."""
        self.check_usable()
        if self.state is not TxnState.READY:
            raise InvalidTxnStateError(f"a transaction cannot begin: {self._text}")
        self.has_begun = False
        self._go(TxnState.IN_TRANSACTION)

    def check_open(self, what: str = "records are sent in transactions") -> None:
        """Errors: InvalidTxnStateError without an open transaction; the error that ended it."""
        refusal = self.refusal(what)
        if refusal is not None:
            raise refusal

    def commit(self) -> None:
        """Begin the commit, or repeat it. Errors: as `check_open`."""
        if self.state is TxnState.COMMITTING:
            return
        if self.state is not TxnState.PREPARED:
            self.check_open("there is nothing to commit")
        self._go(TxnState.COMMITTING)

    def abort(self) -> None:
        """Begin the abort, or repeat it. Errors: InvalidTxnStateError, or the fatal error of the producer."""
        self.check_usable()
        if self.state is TxnState.ABORTING:
            return
        if self.state not in (*_OPEN, TxnState.PREPARED):
            raise InvalidTxnStateError(f"there is nothing to abort: {self._text}")
        self._go(TxnState.ABORTING)

    def refusal(self, what: str = "records are sent in transactions") -> HeadraceError | None:
        """The error of `send` in this state; None if records can be sent."""
        if self.state is TxnState.IN_TRANSACTION:
            return None
        return self.error or InvalidTxnStateError(f"{what}: {self._text}")

    def check_usable(self) -> None:
        """Errors: the fatal error of the producer."""
        if self.state is TxnState.FATAL_ERROR:
            assert self.error is not None
            raise self.error

    @property
    def is_open(self) -> bool:
        """Whether `close` has to abort the transaction; a prepared one stays open."""
        return self.state in _OPEN or self.state is TxnState.ABORTING

    # --- events -----------------------------------------------------------------------------------------

    def initialized(self) -> None:
        """InitProducerId has succeeded; a transaction of an older producer is aborted."""
        self._go(TxnState.READY)

    def not_initialized(self) -> None:
        """InitProducerId has timed out; it may be called again."""
        self._go(TxnState.UNINITIALIZED)

    def prepared(self) -> None:
        """All records are acknowledged, and the transaction stays open."""
        self._go(TxnState.PREPARED)

    def ended(self) -> None:
        """The coordinator has committed or aborted the transaction."""
        self.error = None
        self._go(TxnState.READY)

    def failed(self, error: BaseException, *, of_batch: bool = False) -> None:
        """A record of the transaction was not stored.

        `of_batch`: its batch failed. INVALID_PRODUCER_EPOCH of a leader may mean that the transaction timed
        out; the coordinator knows whether the producer is fenced (KIP-588). Otherwise the record was never
        buffered: during a commit it was too late to be part of the transaction.
        """
        is_fenced = isinstance(error, InvalidProducerEpochError) and not of_batch
        if is_fenced or isinstance(error, _FATAL):
            self.fail(error)
        elif self.state is TxnState.IN_TRANSACTION or (of_batch and self.state is TxnState.COMMITTING):
            self._must_abort(error)

    def refused(self, error: BaseException) -> None:
        """The coordinator has rejected a request. After TRANSACTION_ABORTABLE a commit can be aborted."""
        may_abort = self.state is TxnState.COMMITTING and isinstance(error, TransactionAbortableError)
        if may_abort:
            self._must_abort(error)
        elif self.state in _OPEN:
            self.failed(error)
        else:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """A fatal error: the producer can begin no further transaction."""
        if self.state is TxnState.FATAL_ERROR:
            return
        if isinstance(error, ProducerFencedError | InvalidProducerEpochError):
            fenced = ProducerFencedError(
                f"another producer with transactional.id {self.transactional_id!r} has taken over, or a"
                f" transaction was open for longer than transaction.timeout.ms: close this one ({error})"
            )
            fenced.__cause__ = error
            error = fenced
        if not isinstance(error, HeadraceError):
            error = HeadraceError(repr(error))
        self.error = error
        self._go(TxnState.FATAL_ERROR)

    def _must_abort(self, error: BaseException) -> None:
        cause = str(error) or type(error).__name__
        self.error = TransactionAbortableError(f"the transaction cannot be committed, abort it: {cause}")
        self.error.__cause__ = error
        self._go(TxnState.ABORTABLE_ERROR)

    def _go(self, state: TxnState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        self.state = state

    @property
    def _text(self) -> str:
        return _TEXTS[self.state]


_TEXTS = {
    _S.UNINITIALIZED: "this producer is not initialized: call begin_transaction first",
    _S.INITIALIZING: "this producer is being initialized",
    _S.READY: "no transaction is open: call begin_transaction first",
    _S.IN_TRANSACTION: "a transaction is open: commit or abort it first",
    _S.COMMITTING: "a transaction is being committed: if that timed out, call commit_transaction again",
    _S.PREPARED: "the open transaction is prepared: commit or abort it, here or elsewhere",
    _S.ABORTING: "a transaction is being aborted: if that timed out, call abort_transaction again",
    _S.ABORTABLE_ERROR: "the open transaction has failed and must be aborted",
    _S.FATAL_ERROR: "the producer has failed",
}
