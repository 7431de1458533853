"""Which transactional batches compaction may remove: data of aborted transactions, and markers without data.
Pure.

The cleaner passes the batches of a log in order. A marker may be removed only if no batch of its transaction
was passed, that is, an earlier compaction removed them all; the cleaner then waits for the delete horizon.
The aborted transactions whose markers stay are the transaction index of the compacted segment. Source: Kafka
CleanedTransactionMetadata.java.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from ....protocol.records.codec import active_codec
from ....protocol.records.control import ControlType, control_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ....protocol.records.header import BatchHeader, Buffer
    from ..transaction_index import AbortedTransaction


class CleanedTransactions:
    """The transactions that are open at the current batch."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: all that overlap the batches to come."""
        self._coming = [(each.first_offset, each) for each in aborted]
        heapq.heapify(self._coming)
        self._aborted: dict[int, AbortedTransaction] = {}  # open at the current batch, by producer
        self._with_data: set[int] = set()  # producers with data batches in the open transaction
        self.kept: list[AbortedTransaction] = []  # transactions whose markers stay; the cleaner takes them

    def can_drop_batch(self, header: BatchHeader) -> bool:
        """The next batch is a data batch: whether its transaction is aborted."""
        self._open(header.last_offset)
        if not header.is_transactional:
            return False
        self._with_data.add(header.producer_id)
        return header.producer_id in self._aborted

    def can_drop_marker(self, batch: Buffer, header: BatchHeader) -> bool:
        """The next batch is a control batch: whether its transaction has no data left. Errors: as
        `decode`."""
        self._open(header.last_offset)
        if not header.record_count:
            return True
        kind = control_type(active_codec().decode(batch)[0].key)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return False
        had_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        if kind is ControlType.ABORT:
            aborted = self._aborted.pop(header.producer_id, None)
            if aborted is not None and had_data:
                self.kept.append(aborted)
        return not had_data

    def _open(self, offset: int) -> None:
        """Open the aborted transactions that start at or below `offset`."""
        while self._coming and self._coming[0][0] <= offset:
            _, transaction = heapq.heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, transaction)
