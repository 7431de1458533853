"""The markers of decided transactions, on their way to the leaders of the partitions.

A transaction begins here once its decision is committed, and ends when each of its partitions has the marker
or is gone; `Markers` then says that it is complete. Partitions wait for a leader, for one of the requests to
their leader's node, or after a refusal for another try: with the next change of the cluster, or a moment
later. Soft state: after a reload all markers are written again, which the partitions do not mind.
Bound: what the transactions of this shard have; REQUESTS times MAX_PARTITIONS of it are on the wire per node.
Source: Kafka TransactionMarkerChannelManager.scala, TransactionMarkerRequestCompletionHandler.scala.
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

    from ..runtime.ports import Now, Outcome, Surroundings
    from .transaction import Partition, Transaction

REQUESTS = 5  # under way to one node
MAX_PARTITIONS = 1_000  # in one request; fewer, if a node refuses so many
RETRY_MS = 100
TIMEOUT_MS = 10_000
_RETRY = "markers"
_UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
# The partition has nothing of this transaction that is open: a later epoch of the producer has been there
# (this marker was written and the answer was lost, or nothing of it ever came), or it takes no transactions.
_DONE = frozenset(
    (0, InvalidProducerEpochError.code, UnsupportedVersionError.code, _UNSUPPORTED_FOR_MESSAGE_FORMAT)
)


class _Ending:
    """A decided transaction and the partitions that have no marker yet."""

    __slots__ = ("left", "transaction", "transactional_id")

    def __init__(self, transactional_id: str, transaction: Transaction) -> None:
        self.transactional_id, self.transaction = transactional_id, transaction
        self.left = dict.fromkeys(transaction.partitions())  # dicts as ordered sets


class _Errand(NamedTuple):
    """Partitions of one transaction whose leader is one node."""

    ending: _Ending
    partitions: tuple[Partition, ...]


class _Node:
    """What goes to one node."""

    __slots__ = ("requests", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Errand] = deque()
        self.requests = 0


class Markers:
    """Of one shard. `complete` decides on transactions that have all their markers; `again` takes back what
    it could not write."""

    def __init__(self, around: Surroundings, complete: Callable[[Sequence[str], Now], Outcome]) -> None:
        self._around, self._complete = around, complete
        self._endings: dict[str, _Ending] = {}
        self._nodes: dict[int, _Node] = {}
        self._max_partitions = MAX_PARTITIONS
        self._again: list[_Errand] = []  # no leader, refused, or (without partitions) the completion failed

    def __len__(self) -> int:
        """Transactions that are being ended."""
        return len(self._endings)

    def begin(self, transactions: Iterable[tuple[str, Transaction]], now: Now) -> Outcome:
        """The decisions are committed."""
        new = [_Ending(*each) for each in transactions]
        self._endings.update((ending.transactional_id, ending) for ending in new)
        return self._place([_Errand(ending, tuple(ending.left)) for ending in new], now)

    def end(self, transactional_id: str) -> None:
        """The completion is written, or the id is gone; nothing happens if it did not begin."""
        self._endings.pop(transactional_id, None)

    def again(self, transactional_ids: Iterable[str], now: Now) -> None:
        """The completion of these could not be written."""
        endings = [self._endings[each] for each in transactional_ids if each in self._endings]
        self._later([_Errand(ending, ()) for ending in endings], now)

    def on_metadata(self, now: Now) -> Outcome:
        """Leaders may have changed: also what waits for a request finds its node anew."""
        errands, self._again = self._again, []
        for node in self._nodes.values():
            errands.extend(node.waiting)
            node.waiting.clear()
        return self._place(errands, now)

    def _later(self, errands: Iterable[_Errand], now: Now) -> None:
        self._again.extend(errands)
        if self._again and self._around.timers.deadline_of(_RETRY) is None:
            self._around.timers.set(_RETRY, now.ms + RETRY_MS, self.on_metadata)

    def _place(self, errands: Iterable[_Errand], now: Now) -> Outcome:
        """Bring partitions on the way to their leaders; what is complete meanwhile is decided on."""
        homeless: list[_Errand] = []
        touched: dict[str, _Ending] = {}
        for ending, partitions in errands:
            if self._endings.get(ending.transactional_id) is not ending:
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
                    homeless.append(_Errand(ending, tuple(led)))
                else:
                    waiting = self._nodes.setdefault(leader, _Node()).waiting
                    size = self._max_partitions
                    starts = range(0, len(led), size)
                    waiting.extend(_Errand(ending, tuple(led[start : start + size])) for start in starts)
        self._later(homeless, now)
        for node_id in list(self._nodes):
            self._send(node_id)
        return self._completed(touched.values(), now)

    def _leader(self, partition: Partition) -> int | None:
        """NO_NODE: nobody now. None: the topic was deleted, and with it all that the transaction wrote."""
        topic = self._around.image.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return None
        return topic.partitions[partition[1]].leader

    def _completed(self, endings: Iterable[_Ending], now: Now) -> Outcome:
        return self._complete([each.transactional_id for each in endings if not each.left], now)

    def _send(self, node_id: int) -> None:
        node = self._nodes[node_id]
        while node.waiting and node.requests < REQUESTS:
            errands, room = [node.waiting.popleft()], self._max_partitions
            room -= len(errands[0].partitions)
            while node.waiting and len(node.waiting[0].partitions) <= room:
                errands.append(node.waiting.popleft())
                room -= len(errands[-1].partitions)
            self._ask(node_id, node, errands)
        if not node.waiting and not node.requests:
            del self._nodes[node_id]

    def _ask(self, node_id: int, node: _Node, errands: list[_Errand]) -> None:
        node.requests += 1

        def answered(answer: WriteTxnMarkersResponse | KafkaError, now: Now) -> Outcome:
            node.requests -= 1
            self._send(node_id)
            return self._answered(errands, answer, now)

        request = WriteTxnMarkersRequest(tuple(self._marker(errand) for errand in errands))
        self._around.ask(node_id, WRITE_TXN_MARKERS, request, TIMEOUT_MS, answered)

    def _marker(self, errand: _Errand) -> TransactionMarker:
        by_topic: dict[str, list[int]] = {}
        for topic, number in errand.partitions:
            by_topic.setdefault(topic, []).append(number)
        transaction = errand.ending.transaction
        return TransactionMarker(
            producer_id=transaction.value.producer_id,
            producer_epoch=transaction.value.producer_epoch,
            committed=transaction.state is TxnState.PREPARE_COMMIT,
            topics=tuple(TopicNamePartitions(topic, tuple(numbers)) for topic, numbers in by_topic.items()),
            coordinator_epoch=self._around.epoch,
            transaction_version=transaction.value.client_transaction_version,
        )

    def _answered(
        self, errands: list[_Errand], answer: WriteTxnMarkersResponse | KafkaError, now: Now
    ) -> Outcome:
        """Every partition that is not said to be done is tried again, whatever the error: an epoch of the
        coordinator that is over ends this shard anyway."""
        if isinstance(answer, InvalidRequestError):
            self._max_partitions = max(1, self._max_partitions // 2)
        refused = isinstance(answer, KafkaError) or len(answer.markers) != len(errands)
        retried: list[_Errand] = []
        for index, (ending, partitions) in enumerate(errands):
            written = () if refused else answer.markers[index].results  # type: ignore[union-attr]
            done = {(each.topic, each.partition) for each in written if each.error_code in _DONE}
            for partition in partitions:
                if partition in done:
                    ending.left.pop(partition, None)
            still = tuple(partition for partition in partitions if partition in ending.left)
            if still and self._endings.get(ending.transactional_id) is ending:
                retried.append(_Errand(ending, still))
        self._later(retried, now)
        return self._completed(self._still_here(errands), now)

    def _still_here(self, errands: Iterable[_Errand]) -> Iterable[_Ending]:
        seen = {errand.ending.transactional_id: errand.ending for errand in errands}
        return [ending for name, ending in seen.items() if self._endings.get(name) is ending]
