"""In which state the transactions of a producer are, and what its errors mean for them. Step shape, pure.

An error ends the transaction at hand, which can then only be aborted, or the producer: an *abortable* or a
*fatal* one. To the user every abortable one is a TransactionAbortableError with its cause.
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
    """All that is needed to end a transaction that was left open. An empty one has nothing to end."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_empty: bool


class TxnState(Enum):
    """What a transactional producer is doing."""

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
    _S.UNINITIALIZED: {_S.INITIALIZING: "init_transactions", _S.FATAL_ERROR: "the producer ends"},
    _S.INITIALIZING: {
        _S.READY: "the coordinator gave an epoch",
        _S.UNINITIALIZED: "no answer in time",
        _S.FATAL_ERROR: "refused for good",
    },
    _S.READY: {_S.IN_TRANSACTION: "begin_transaction", _S.FATAL_ERROR: "the producer ends"},
    _S.IN_TRANSACTION: {
        _S.COMMITTING: "commit_transaction",
        _S.ABORTING: "abort_transaction",
        _S.ABORTABLE_ERROR: "something was not stored",
        _S.FATAL_ERROR: "fenced off",
    },
    _S.COMMITTING: {
        _S.READY: "committed",
        _S.PREPARED: "prepare_transaction: all is stored",
        _S.ABORTABLE_ERROR: "something was not stored",
        _S.FATAL_ERROR: "fenced off",
    },
    _S.PREPARED: {
        _S.COMMITTING: "commit_transaction",
        _S.ABORTING: "abort_transaction",
        _S.FATAL_ERROR: "the producer ends, the transaction stays open",
    },
    _S.ABORTING: {_S.READY: "aborted", _S.FATAL_ERROR: "fenced off"},
    _S.ABORTABLE_ERROR: {_S.ABORTING: "abort_transaction", _S.FATAL_ERROR: "fenced off"},
    _S.FATAL_ERROR: {},
}

# Whoever gets one of these must not go on, in no transaction.
_FATAL = (ProducerFencedError, InvalidProducerIdMappingError, UnsupportedVersionError)
# The markers of the transaction before are still being written: that takes milliseconds.
CONCURRENT_WAIT_MS = 5
_OPEN = (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR)


def wait_after(error: HeadraceError, failures: int, backoff: Backoff) -> int:
    """How long to wait, in ms, before asking again after so many failures in a row."""
    wait_ms = backoff.wait_ms(failures)
    if isinstance(error, ConcurrentTransactionsError):
        return min(CONCURRENT_WAIT_MS << min(failures - 1, 10), wait_ms)
    return wait_ms


class Transactions:
    """The transactions of one producer, one after the other. Its owner's lock is held for every call."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TxnState.UNINITIALIZED
        self.error: HeadraceError | None = None  # in one of the error states: what to raise
        self.has_begun = False  # on the servers: something of it may be there

    # --- what the user does -----------------------------------------------------------------------------

    def init(self) -> None:
        """Become the producer of this id. Errors: InvalidTxnStateError if it is already."""
        self.check_usable()
        if self.state is not TxnState.UNINITIALIZED:
            raise InvalidTxnStateError(f"init_transactions is called once, and first: {self._text}")
        self._go(TxnState.INITIALIZING)

    def begin(self) -> None:
        """Open a transaction. Errors: InvalidTxnStateError if one is open, or no epoch was given yet."""
        self.check_usable()
        if self.state is not TxnState.READY:
            raise InvalidTxnStateError(f"a transaction cannot begin: {self._text}")
        self.has_begun = False
        self._go(TxnState.IN_TRANSACTION)

    def check_open(self, what: str = "records are sent in transactions") -> None:
        """Errors: InvalidTxnStateError if no transaction is open, what ended it if it cannot go on."""
        refusal = self.refusal(what)
        if refusal is not None:
            raise refusal

    def commit(self) -> None:
        """End the open transaction, or go on ending it. Errors: as `check_open`."""
        if self.state is TxnState.COMMITTING:
            return
        if self.state is not TxnState.PREPARED:
            self.check_open("there is nothing to commit")
        self._go(TxnState.COMMITTING)

    def abort(self) -> None:
        """Undo the open transaction, or go on undoing it. Errors: InvalidTxnStateError, or what ended the
        producer."""
        self.check_usable()
        if self.state is TxnState.ABORTING:
            return
        if self.state not in (*_OPEN, TxnState.PREPARED):
            raise InvalidTxnStateError(f"there is nothing to abort: {self._text}")
        self._go(TxnState.ABORTING)

    def refusal(self, what: str = "records are sent in transactions") -> HeadraceError | None:
        """Why no record can be sent now; None if one can."""
        if self.state is TxnState.IN_TRANSACTION:
            return None
        return self.error or InvalidTxnStateError(f"{what}: {self._text}")

    def check_usable(self) -> None:
        """Errors: what ended the producer."""
        if self.state is TxnState.FATAL_ERROR:
            assert self.error is not None
            raise self.error

    @property
    def is_open(self) -> bool:
        """Whether there is something to abort at the end; what is prepared is for others to end."""
        return self.state in _OPEN or self.state is TxnState.ABORTING

    # --- what comes of it -------------------------------------------------------------------------------

    def initialized(self) -> None:
        """The coordinator gave an epoch; what a former producer left open is aborted."""
        self._go(TxnState.READY)

    def not_initialized(self) -> None:
        """No answer came in time; `init` may be called again."""
        self._go(TxnState.UNINITIALIZED)

    def prepared(self) -> None:
        """All of it is stored, and it stays open."""
        self._go(TxnState.PREPARED)

    def ended(self) -> None:
        """The transaction is committed, or aborted, for good."""
        self.error = None
        self._go(TxnState.READY)

    def failed(self, error: BaseException, *, of_batch: bool = False) -> None:
        """Something of the transaction was not stored.

        `of_batch`: a leader or the network said so. INVALID_PRODUCER_EPOCH of a leader may come of a
        transaction that timed out; the coordinator knows better, and will say so (KIP-588). Otherwise the
        record was never buffered: while a commit is going on, it came too late to be part of it.
        """
        is_fenced = isinstance(error, InvalidProducerEpochError) and not of_batch
        if is_fenced or isinstance(error, _FATAL):
            self.fail(error)
        elif self.state is TxnState.IN_TRANSACTION or (of_batch and self.state is TxnState.COMMITTING):
            self._must_abort(error)

    def refused(self, error: BaseException) -> None:
        """A coordinator refused for good. After TRANSACTION_ABORTABLE a commit leaves something to abort."""
        may_abort = self.state is TxnState.COMMITTING and isinstance(error, TransactionAbortableError)
        if may_abort:
            self._must_abort(error)
        elif self.state in _OPEN:
            self.failed(error)
        else:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """The producer cannot go on."""
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
