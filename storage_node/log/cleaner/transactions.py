"""Which transactional batches compaction may drop: the data of aborted ones, and markers without data. Pure.

A cleaner shows it the batches of a log in their order. A marker goes only when no batch of its transaction
was met on the way, that is when all of them went in an earlier cleaning; the cleaner then waits for the
delete horizon. The aborted transactions whose markers stay make the transaction index of the cleaned segment.
Source: Kafka CleanedTransactionMetadata.java.
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
    """The transactions around the batch that was seen last."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: all that overlap the batches which will be seen."""
        self._coming = [(each.first_offset, each) for each in aborted]
        heapq.heapify(self._coming)
        self._aborted: dict[int, AbortedTransaction] = {}  # by producer, those that are open here
        self._with_data: set[int] = set()  # producers of open transactions, aborted or not, with batches left
        self.kept: list[AbortedTransaction] = []  # whose markers stay, to be taken by the cleaner

    def can_drop_batch(self, header: BatchHeader) -> bool:
        """A data batch is next: whether it is of an aborted transaction."""
        self._open(header.last_offset)
        if not header.is_transactional:
            return False
        self._with_data.add(header.producer_id)
        return header.producer_id in self._aborted

    def can_drop_marker(self, batch: Buffer, header: BatchHeader) -> bool:
        """A control batch is next: whether nothing is left of its transaction. Errors: as `decode`."""
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
        """Open the aborted transactions that begin up to `offset`."""
        while self._coming and self._coming[0][0] <= offset:
            _, transaction = heapq.heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, transaction)
