"""The number of transactional ids of a shard by state, and the number of transactions that it has ended.
Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..runtime.ports import ShardMetrics
from .states import TxnState

if TYPE_CHECKING:
    from .transaction import Transaction


class TransactionStateCounts:
    """Counts from every applied record. Loaded records (before `is_loaded`) count by state, but not as
    transactions ended by this coordinator."""

    def __init__(self) -> None:
        self.is_loaded = False
        self._states: Counter[TxnState] = Counter()
        self._ends: Counter[TxnState] = Counter()

    def changed(self, before: Transaction | None, after: Transaction | None) -> None:
        """The value of one transactional id before and after a record; None where it does not exist."""
        if before is not None:
            self._states[before.state] -= 1
        if after is not None:
            self._states[after.state] += 1
            if self.is_loaded and (before is None or before.state is not after.state):
                self._ends[after.state] += 1

    def metrics(self) -> ShardMetrics:
        """Kafka has no such metrics, so the names are headrace's."""
        return ShardMetrics(
            {f"transactional-ids/{state.value}": self._states[state] for state in TxnState},
            {
                "transaction-commit-count": self._ends[TxnState.PREPARE_COMMIT],
                "transaction-abort-count": self._ends[TxnState.PREPARE_ABORT],
            },
        )
