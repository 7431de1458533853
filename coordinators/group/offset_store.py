"""Committed offsets of all groups of a shard, and pending offsets of open transactions. Hard state, pure.

Only `replay` and `end_transaction` change it, in the order of the log. Source: Kafka
OffsetMetadataManager.java.

Invariant: the open transactions of a group are the producers with pending offsets of the group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import TopicPartition
from ...protocol.records.group_records import OffsetCommitKey
from ..runtime.ports import NO_PRODUCER_ID, Record

if TYPE_CHECKING:
    from ...protocol.records.group_records import OffsetCommitValue
    from ..runtime.ports import ProducerIdAndEpoch


class StoredOffset(NamedTuple):
    """A commit and its offset in the log: the later commit wins, whenever its transaction ends."""

    value: OffsetCommitValue
    record_offset: int


@dataclass(slots=True)
class OpenTransaction:
    """The pending offsets of a producer since its last marker."""

    producer_epoch: int
    offsets: dict[str, dict[TopicPartition, StoredOffset]] = field(default_factory=dict)  # by group


class OffsetStore:
    """Offsets by group and partition, in the order of first commits."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, StoredOffset]] = {}
        self._transactions: dict[int, OpenTransaction] = {}  # by producer id
        self._open: dict[str, dict[int, None]] = {}  # producer ids by group
        self.count = 0  # committed offsets of all groups

    def of(self, group_id: str) -> dict[TopicPartition, StoredOffset]:
        """All committed offsets of the group. The caller must not change them."""
        return self._committed.get(group_id, {})

    def groups(self) -> list[str]:
        """The ids of groups with committed offsets."""
        return list(self._committed)

    def has_open_transactions(self, group_id: str) -> bool:
        """Whether an open transaction has pending offsets of the group."""
        return group_id in self._open

    def is_ongoing(self, producer: ProducerIdAndEpoch) -> bool:
        """Whether this producer's open transaction has written to this partition."""
        transaction = self._transactions.get(producer.producer_id)
        return transaction is not None and transaction.producer_epoch == producer.producer_epoch

    def pending(self, group_id: str) -> dict[TopicPartition, StoredOffset]:
        """Pending offsets of the group in open transactions."""
        held: dict[TopicPartition, StoredOffset] = {}
        for producer_id in self._open.get(group_id, {}):
            held |= self._transactions[producer_id].offsets[group_id]
        return held

    def tombstones(self, group_id: str) -> list[Record]:
        """Records that delete all offsets of the group, including pending ones."""
        return [offset_tombstone(group_id, tp) for tp in {**self.of(group_id), **self.pending(group_id)}]

    # --- the log -----------------------------------------------------------------------------------------

    def replay(self, record: Record, offset: int, producer: ProducerIdAndEpoch) -> None:
        """Apply a commit, a pending commit of a transaction, or a deletion of both kinds."""
        key, value = record
        assert isinstance(key, OffsetCommitKey)
        tp = TopicPartition(key.topic, key.partition)
        if value is None:
            self._delete(key.group, tp)
        elif producer.producer_id == NO_PRODUCER_ID:
            self._commit(key.group, tp, StoredOffset(value, offset))
        else:
            transaction = self._transactions.setdefault(
                producer.producer_id, OpenTransaction(producer.producer_epoch)
            )
            transaction.producer_epoch = producer.producer_epoch
            transaction.offsets.setdefault(key.group, {})[tp] = StoredOffset(value, offset)
            self._open.setdefault(key.group, {})[producer.producer_id] = None

    def _delete(self, group_id: str, tp: TopicPartition) -> None:
        of_group = self._committed.get(group_id, {})
        if of_group.pop(tp, None) is not None:
            self.count -= 1
            if not of_group:
                del self._committed[group_id]
        for producer_id in list(self._open.get(group_id, {})):
            # The transaction stays open without offsets: its marker for this partition is still to come.
            self._transactions[producer_id].offsets[group_id].pop(tp, None)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit the pending offsets, unless later commits replaced them, or drop them."""
        transaction = self._transactions.pop(producer_id, None)
        for group_id, offsets in transaction.offsets.items() if transaction is not None else ():
            del self._open[group_id][producer_id]
            if not self._open[group_id]:
                del self._open[group_id]
            for tp, stored in offsets.items() if is_commit else ():
                held = self.of(group_id).get(tp)
                if held is None or held.record_offset < stored.record_offset:
                    self._commit(group_id, tp, stored)

    def _commit(self, group_id: str, tp: TopicPartition, stored: StoredOffset) -> None:
        of_group = self._committed.setdefault(group_id, {})
        self.count += tp not in of_group
        of_group[tp] = stored


def offset_tombstone(group_id: str, tp: TopicPartition) -> Record:
    """The record that deletes the committed and the pending offset of one partition."""
    return Record(OffsetCommitKey(group_id, tp.topic, tp.partition), None)
