"""Records of `__transaction_state`, the state of transaction coordinators.

Source: Kafka TransactionLogKey.json, TransactionLogValue.json, TransactionState.java.
"""

from __future__ import annotations

from typing import NamedTuple


class TransactionKey(NamedTuple):
    """A transactional id; key version 0."""

    transactional_id: str


class TransactionTopic(NamedTuple):
    """Partitions of one topic in the transaction, sorted."""

    topic: str
    partitions: tuple[int, ...]


class TransactionValue(NamedTuple):
    """`status`: 0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort, 6
    Dead, 7 PrepareEpochFence. `client_transaction_version` 2: each end increments the producer epoch.

    `prepared_ms` is headrace's own: when an Ongoing transaction was prepared, -1 if it is not.
    """

    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: tuple[TransactionTopic, ...] | None
    last_update_ms: int
    start_ms: int
    client_transaction_version: int = 2
    next_producer_epoch: int = -1
    prepared_ms: int = -1
