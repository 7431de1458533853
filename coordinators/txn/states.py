"""The states of a transactional id and their transitions.

Dead and PrepareEpochFence are Kafka's states for operations in progress: no record has them, and requests
never observe them here. Prepared is headrace's own: its record is an Ongoing one with the time of the
preparation. Source: Kafka TransactionState.java.
"""

from __future__ import annotations

from enum import Enum

from ...protocol.errors import InvalidRecordError


class TxnState(Enum):
    """In the order of their numbers in records; the last one has the number of Ongoing."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    PREPARED = "Prepared"


_ADDED = "partitions are added"
_INITIALIZED = "InitProducerId"
_EMPTY_ABORT = "aborted without partitions"
_EXPIRED = "transactional.id.expiration.ms passed"
_COMMITTED, _ABORTED = "committed", "aborted"

TRANSITIONS: dict[TxnState, dict[TxnState, str]] = {
    TxnState.EMPTY: {
        TxnState.EMPTY: _INITIALIZED,
        TxnState.ONGOING: _ADDED,
        TxnState.PREPARE_ABORT: _EMPTY_ABORT,
        TxnState.DEAD: _EXPIRED,
    },
    TxnState.ONGOING: {
        TxnState.ONGOING: _ADDED,
        TxnState.PREPARED: "prepared",
        TxnState.PREPARE_COMMIT: _COMMITTED,
        TxnState.PREPARE_ABORT: _ABORTED,
        TxnState.PREPARE_EPOCH_FENCE: "transaction timeout, or InitProducerId of a new producer",
    },
    TxnState.PREPARED: {TxnState.PREPARE_COMMIT: _COMMITTED, TxnState.PREPARE_ABORT: _ABORTED},
    TxnState.PREPARE_EPOCH_FENCE: {TxnState.PREPARE_ABORT: "in the same record"},
    TxnState.PREPARE_COMMIT: {TxnState.COMPLETE_COMMIT: "all markers are written"},
    TxnState.PREPARE_ABORT: {TxnState.COMPLETE_ABORT: "all markers are written"},
    TxnState.COMPLETE_COMMIT: {
        TxnState.EMPTY: _INITIALIZED,
        TxnState.ONGOING: _ADDED,
        TxnState.PREPARE_ABORT: _EMPTY_ABORT,
        TxnState.DEAD: _EXPIRED,
    },
    TxnState.COMPLETE_ABORT: {
        TxnState.EMPTY: _INITIALIZED,
        TxnState.ONGOING: _ADDED,
        TxnState.PREPARE_ABORT: _EMPTY_ABORT,
        TxnState.DEAD: _EXPIRED,
    },
    TxnState.DEAD: {},
}
_BY_STATUS = tuple(state for state in TxnState if state is not TxnState.PREPARED)
_STATUS: dict[TxnState, int] = {state: status for status, state in enumerate(_BY_STATUS)}
_STATUS[TxnState.PREPARED] = _STATUS[TxnState.ONGOING]
_IN_RECORDS = frozenset(_BY_STATUS) - {TxnState.DEAD, TxnState.PREPARE_EPOCH_FENCE}

OPEN = frozenset((TxnState.ONGOING, TxnState.PREPARED))
ENDING = frozenset((TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT))
COMPLETE = frozenset((TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT))
EXPIRING = frozenset(state for state, targets in TRANSITIONS.items() if TxnState.DEAD in targets)
BY_NAME = {state.value: state for state in TxnState}


def state_of(status: int, *, is_prepared: bool = False) -> TxnState:
    """The state with this number. Errors: InvalidRecordError for a number that no record may have."""
    state = _BY_STATUS[status] if 0 <= status < len(_BY_STATUS) else None
    if is_prepared and state is TxnState.ONGOING:
        return TxnState.PREPARED
    if state not in _IN_RECORDS:
        raise InvalidRecordError(f"unknown transaction state {status}")
    return state


def status_after(before: TxnState, state: TxnState) -> int:
    """The number of the next state. Errors: AssertionError if the table does not allow the transition: a
    bug."""
    assert state in TRANSITIONS[before], f"{state.value} does not follow {before.value}"
    return _STATUS[state]
