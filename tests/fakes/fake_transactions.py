"""The transaction coordinator of the fake cluster, with offsets of groups; transaction version 2.

Kafka's rules for producers: each EndTxn increments the epoch, a repeated EndTxn gets the same response, and a
leader verifies that the transaction of a batch is open.
"""

from dataclasses import dataclass, field
from typing import Any

from headrace.protocol import errors
from headrace.protocol.messages import groups, transactions

TRANSACTION_APIS = {"InitProducerId", "EndTxn", "TxnOffsetCommit"}


@dataclass
class FakeTransaction:
    """One transactional id."""

    producer_id: int
    epoch: int = 0
    is_open: bool = False
    last_end: tuple[int, bool] | None = None  # (epoch, committed)
    outcomes: dict[int, bool] = field(default_factory=dict)  # by epoch: whether it was committed
    offsets: dict[int, dict[tuple[str, str, int], int]] = field(default_factory=dict)  # by epoch


class FakeTransactions:
    """The mixin of `FakeCluster` for transactions; `FakeCoordinator` has the coordinating node."""

    coordinator: int

    def __init__(self) -> None:
        self.transactions: dict[str, FakeTransaction] = {}
        self.ends: list[tuple[str, int, bool]] = []  # (id, epoch, committed) of each first EndTxn
        self.generations: dict[str, tuple[int, str]] = {}  # by group: generation and member id
        self._next_producer_id = 1000

    def read_committed(self, name: str, partition: int = 0) -> list[bytes]:
        """The values that a read_committed consumer gets, of transactions that have ended."""
        ended = {(t.producer_id, e) for t in self.transactions.values() for e, ok in t.outcomes.items() if ok}
        batches = self.topics[name].partitions[partition].headers_and_records()  # type: ignore[attr-defined]
        return [
            record.value
            for header, records in batches
            if not header.is_transactional or (header.producer_id, header.producer_epoch) in ended
            for record in records
        ]

    def committed_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets of a group by committed transactions."""
        found = {}
        for transaction in self.transactions.values():
            for epoch, offsets in transaction.offsets.items():
                if transaction.outcomes.get(epoch):
                    found.update({key[1:]: at for key, at in offsets.items() if key[0] == group})
        return found

    def check_transactional(self, transactional_id: str | None, header: Any) -> None:
        """Verify a batch as a leader does before the append; adds the partition to the transaction."""
        if not header.is_transactional:
            return
        found = self.transactions.get(transactional_id or "")
        if found is None or found.producer_id != header.producer_id:
            raise errors.InvalidProducerIdMappingError("not this id's")
        if found.epoch != header.producer_epoch:
            raise errors.InvalidProducerEpochError(f"{header.producer_epoch}, now {found.epoch}")
        found.is_open = True

    def _refuse_elsewhere(self, node_id: int) -> int:
        return 0 if node_id == self.coordinator else errors.NotCoordinatorError.code

    def _do_InitProducerId(self, body: Any, node_id: int) -> transactions.InitProducerIdResponse:
        if body.transactional_id is None:
            self._next_producer_id += 1
            return transactions.InitProducerIdResponse(0, self._next_producer_id, 0)
        code = self._refuse_elsewhere(node_id)
        if code:
            return transactions.InitProducerIdResponse(code)
        found = self.transactions.get(body.transactional_id)
        if found is None:
            self._next_producer_id += 1
            found = self.transactions[body.transactional_id] = FakeTransaction(self._next_producer_id)
        else:
            self._end(body.transactional_id, found, committed=False)
            found.last_end = None
        return transactions.InitProducerIdResponse(0, found.producer_id, found.epoch)

    def _do_EndTxn(self, body: Any, node_id: int) -> transactions.EndTxnResponse:
        found = self.transactions.get(body.transactional_id)
        code = self._refuse_elsewhere(node_id)
        if code:
            return transactions.EndTxnResponse(code)
        if found is None or found.producer_id != body.producer_id:
            return transactions.EndTxnResponse(errors.InvalidProducerIdMappingError.code)
        if found.last_end == (body.producer_epoch, body.committed):
            return transactions.EndTxnResponse(0, found.producer_id, found.epoch)
        if found.epoch != body.producer_epoch:
            return transactions.EndTxnResponse(errors.ProducerFencedError.code)
        if not found.is_open and body.committed:
            return transactions.EndTxnResponse(errors.InvalidTxnStateError.code)
        self._end(body.transactional_id, found, committed=body.committed)
        return transactions.EndTxnResponse(0, found.producer_id, found.epoch)

    def _do_TxnOffsetCommit(self, body: Any, node_id: int) -> transactions.TxnOffsetCommitResponse:
        found = self.transactions[body.transactional_id]
        member = self.generations.get(body.group_id)
        code = self._refuse_elsewhere(node_id)
        if found.epoch != body.producer_epoch:
            code = errors.InvalidProducerEpochError.code
        elif member is not None and member != (body.generation_id, body.member_id):
            code = errors.IllegalGenerationError.code
        elif not code:
            found.is_open = True
            kept = found.offsets.setdefault(found.epoch, {})
            kept.update({(body.group_id, each.topic, each.partition): each.offset for each in body.offsets})
        return transactions.TxnOffsetCommitResponse(
            tuple(groups.PartitionResult(each.topic, each.partition, code) for each in body.offsets)
        )

    def _end(self, transactional_id: str, found: FakeTransaction, *, committed: bool) -> None:
        self.ends.append((transactional_id, found.epoch, committed))
        found.outcomes[found.epoch] = committed
        found.last_end = (found.epoch, committed)
        found.epoch += 1
        found.is_open = False
