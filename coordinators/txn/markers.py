"""Sends the markers of ending transactions to the leaders of their partitions.

A transaction starts here once its PrepareCommit or PrepareAbort is committed, and is complete when each
partition has its marker or was deleted; `Markers` then calls `complete`. A partition waits for a leader, for
a free request slot to its leader's node, or after an error for a retry: at the next metadata change, or
RETRY_MS later. Soft state: after a load all markers are sent again, which partitions accept. Bound: the
transactions of this shard; REQUESTS times MAX_PARTITIONS of their partitions are in flight per node. Source:
Kafka TransactionMarkerChannelManager.scala, TransactionMarkerRequestCompletionHandler.scala.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import (
    InvalidProducerEpochError,
    InvalidRequestError,
    KafkaError,
    UnsupportedVersionError,
)
from ...protocol.messages.groups import TopicNamePartitions
from ...protocol.messages.registry import WRITE_TXN_MARKERS
from ...protocol.messages.transactions import (
    TransactionMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.model import NO_NODE
from .states import TxnState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Outcome, ShardContext
    from .transaction import Partition, Transaction

REQUESTS = 5  # in flight per node
MAX_PARTITIONS = 1_000  # per request; halved when a node rejects the size
RETRY_MS = 100
TIMEOUT_MS = 10_000
_RETRY = "markers"
_UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
# Results after which the partition has no open transaction: a later producer epoch was seen (this marker was
# written and its response lost, or the producer never wrote to it), or it does not support transactions.
_DONE = frozenset(
    (0, InvalidProducerEpochError.code, UnsupportedVersionError.code, _UNSUPPORTED_FOR_MESSAGE_FORMAT)
)


class _EndingTransaction:
    """An ending transaction and its partitions without a marker."""

    __slots__ = ("left", "transaction", "transactional_id")

    def __init__(self, transactional_id: str, transaction: Transaction) -> None:
        self.transactional_id, self.transaction = transactional_id, transaction
        self.left = dict.fromkeys(transaction.partitions())  # dicts as ordered sets


class _MarkerEntry(NamedTuple):
    """Partitions of one transaction that are led by one node."""

    ending: _EndingTransaction
    partitions: tuple[Partition, ...]


class _Node:
    """Queue and request slots of one node."""

    __slots__ = ("requests", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_MarkerEntry] = deque()
        self.requests = 0


class Markers:
    """The markers of one shard. `complete` decides on transactions that have all their markers; `again`
    retries a failed completion."""

    def __init__(self, context: ShardContext, complete: Callable[[Sequence[str], Now], Outcome]) -> None:
        self._context, self._complete = context, complete
        self._ending: dict[str, _EndingTransaction] = {}
        self._nodes: dict[int, _Node] = {}
        self._max_partitions = MAX_PARTITIONS
        self._again: list[
            _MarkerEntry
        ] = []  # no leader, refused, or (without partitions) the completion failed

    def __len__(self) -> int:
        """The number of ending transactions."""
        return len(self._ending)

    def begin(self, transactions: Iterable[tuple[str, Transaction]], now: Now) -> Outcome:
        """Start to send the markers of transactions whose decision is committed."""
        new = [_EndingTransaction(*each) for each in transactions]
        self._ending.update((ending.transactional_id, ending) for ending in new)
        return self._place([_MarkerEntry(ending, tuple(ending.left)) for ending in new], now)

    def end(self, transactional_id: str) -> None:
        """Drop a transaction that is complete or deleted; ignored if it did not begin."""
        self._ending.pop(transactional_id, None)

    def again(self, transactional_ids: Iterable[str], now: Now) -> None:
        """Retry the completion of these transactions later: its append failed."""
        ending_transactions = [self._ending[each] for each in transactional_ids if each in self._ending]
        self._later([_MarkerEntry(ending, ()) for ending in ending_transactions], now)

    def on_metadata(self, now: Now) -> Outcome:
        """Leaders may have changed: route waiting and failed partitions again."""
        entries, self._again = self._again, []
        for node in self._nodes.values():
            entries.extend(node.waiting)
            node.waiting.clear()
        return self._place(entries, now)

    def _later(self, entries: Iterable[_MarkerEntry], now: Now) -> None:
        self._again.extend(entries)
        if self._again and self._context.timers.deadline_of(_RETRY) is None:
            self._context.timers.set(_RETRY, now.ms + RETRY_MS, self.on_metadata)

    def _place(self, entries: Iterable[_MarkerEntry], now: Now) -> Outcome:
        """Queue partitions at their leaders' nodes; complete transactions whose last partition was
        deleted."""
        leaderless: list[_MarkerEntry] = []
        touched: dict[str, _EndingTransaction] = {}
        for ending, partitions in entries:
            if self._ending.get(ending.transactional_id) is not ending:
                continue
            touched[ending.transactional_id] = ending
            by_leader: dict[int, list[Partition]] = {}
            for partition in partitions:
                leader = self._leader(partition)
                if leader is None:
                    ending.left.pop(partition, None)
                else:
                    by_leader.setdefault(leader, []).append(partition)
            for leader, led in by_leader.items():
                if leader == NO_NODE:
                    leaderless.append(_MarkerEntry(ending, tuple(led)))
                else:
                    waiting = self._nodes.setdefault(leader, _Node()).waiting
                    size = self._max_partitions
                    starts = range(0, len(led), size)
                    waiting.extend(_MarkerEntry(ending, tuple(led[start : start + size])) for start in starts)
        self._later(leaderless, now)
        for node_id in list(self._nodes):
            self._send(node_id)
        return self._completed(touched.values(), now)

    def _leader(self, partition: Partition) -> int | None:
        """NO_NODE: the partition has no leader. None: the topic was deleted, and the transaction's records
        with it."""
        topic = self._context.image.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return None
        return topic.partitions[partition[1]].leader

    def _completed(self, ending_transactions: Iterable[_EndingTransaction], now: Now) -> Outcome:
        return self._complete([each.transactional_id for each in ending_transactions if not each.left], now)

    def _send(self, node_id: int) -> None:
        node = self._nodes[node_id]
        while node.waiting and node.requests < REQUESTS:
            entries, room = [node.waiting.popleft()], self._max_partitions
            room -= len(entries[0].partitions)
            while node.waiting and len(node.waiting[0].partitions) <= room:
                entries.append(node.waiting.popleft())
                room -= len(entries[-1].partitions)
            self._ask(node_id, node, entries)
        if not node.waiting and not node.requests:
            del self._nodes[node_id]

    def _ask(self, node_id: int, node: _Node, entries: list[_MarkerEntry]) -> None:
        node.requests += 1

        def answered(answer: WriteTxnMarkersResponse | KafkaError, now: Now) -> Outcome:
            node.requests -= 1
            self._send(node_id)
            return self._answered(entries, answer, now)

        request = WriteTxnMarkersRequest(tuple(self._marker(entry) for entry in entries))
        self._context.ask(node_id, WRITE_TXN_MARKERS, request, TIMEOUT_MS, answered)

    def _marker(self, entry: _MarkerEntry) -> TransactionMarker:
        by_topic: dict[str, list[int]] = {}
        for topic, number in entry.partitions:
            by_topic.setdefault(topic, []).append(number)
        transaction = entry.ending.transaction
        return TransactionMarker(
            producer_id=transaction.value.producer_id,
            producer_epoch=transaction.value.producer_epoch,
            committed=transaction.state is TxnState.PREPARE_COMMIT,
            topics=tuple(TopicNamePartitions(topic, tuple(numbers)) for topic, numbers in by_topic.items()),
            coordinator_epoch=self._context.epoch,
            transaction_version=transaction.value.client_transaction_version,
        )

    def _answered(
        self, entries: list[_MarkerEntry], answer: WriteTxnMarkersResponse | KafkaError, now: Now
    ) -> Outcome:
        """Retry every partition that is not done, whatever the error: an outdated coordinator epoch closes
        this shard anyway."""
        if isinstance(answer, InvalidRequestError):
            self._max_partitions = max(1, self._max_partitions // 2)
        refused = isinstance(answer, KafkaError) or len(answer.markers) != len(entries)
        retried: list[_MarkerEntry] = []
        for index, (ending, partitions) in enumerate(entries):
            written = () if refused else answer.markers[index].results  # type: ignore[union-attr]
            done = {(each.topic, each.partition) for each in written if each.error_code in _DONE}
            for partition in partitions:
                if partition in done:
                    ending.left.pop(partition, None)
            still = tuple(partition for partition in partitions if partition in ending.left)
            if still and self._ending.get(ending.transactional_id) is ending:
                retried.append(_MarkerEntry(ending, still))
        self._later(retried, now)
        return self._completed(self._still_here(entries), now)

    def _still_here(self, entries: Iterable[_MarkerEntry]) -> Iterable[_EndingTransaction]:
        seen = {entry.ending.transactional_id: entry.ending for entry in entries}
        return [ending for name, ending in seen.items() if self._ending.get(name) is ending]
