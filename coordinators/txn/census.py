"""How many transactional ids a shard has in each state, and how many transactions it has ended. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..runtime.ports import ShardMetrics
from .states import TxnState

if TYPE_CHECKING:
    from .transaction import Transaction


class Census:
    """Hears of every record that is applied. What the log tells at the load is counted in states alone."""

    def __init__(self) -> None:
        self.is_loaded = False
        self._states: Counter[TxnState] = Counter()
        self._ends: Counter[TxnState] = Counter()

    def changed(self, before: Transaction | None, after: Transaction | None) -> None:
        """One transactional id: what was known of it, and is."""
        if before is not None:
            self._states[before.state] -= 1
        if after is not None:
            self._states[after.state] += 1
            if self.is_loaded and (before is None or before.state is not after.state):
                self._ends[after.state] += 1

    def metrics(self) -> ShardMetrics:
        """Kafka has no names for these."""
        return ShardMetrics(
            {f"NumTransactions{state.value}": self._states[state] for state in TxnState},
            {
                "transaction-commit-count": self._ends[TxnState.PREPARE_COMMIT],
                "transaction-abort-count": self._ends[TxnState.PREPARE_ABORT],
            },
        )
