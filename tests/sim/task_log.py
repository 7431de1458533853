"""The logs, transactions and clients of the simulated tasks: a cluster that never fails, with transactions
that stay open, time out, and fence their producers.

Records of an open transaction are in their log, and read_committed consumers wait for its end. Then a marker
follows; records of an aborted transaction are gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.protocol.errors import (
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    UnstableOffsetCommitError,
    error_from_code,
)
from headrace.protocol.messages.groups import CommittedOffset
from headrace.protocol.messages.registry import TXN_OFFSET_COMMIT
from headrace.protocol.messages.transactions import TxnOffsetCommitRequest
from stream_clients import FakeConsumer, FakeProducer, FakeStreamsCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.clients.group.group_metadata import GroupMetadata, OffsetAndMetadata
    from headrace.protocol.model import TopicPartition

TIMEOUT_MS = 3_000  # of a transaction


@dataclass(eq=False)
class _Open:
    """An open transaction."""

    begun_ms: int
    places: list[tuple[TopicPartition, int]] = field(default_factory=list)
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)


class TaskLog(FakeStreamsCluster):
    """`ask_group` sends a request to the group's coordinator, `end_offsets_of` the marker of a producer's
    transaction. `on_commit` gets the committed records, and the offsets before and after."""

    def __init__(self, now_ms: Callable[[], int], **partitions: int) -> None:
        super().__init__(**partitions)
        self._now_ms = now_ms
        self.ask_group: Callable[[Any, Any], Any] = lambda *_: None
        self.on_commit: Callable[[list[Any], Mapping[Any, Any], Mapping[Any, Any]], None] = lambda *_: None
        self.end_offsets_of: Callable[[int, int, bool], None] = lambda *_: None
        self.epochs: dict[str, int] = {}
        self._open: dict[str, _Open] = {}
        self._decided: set[str] = set()  # decided to commit; their markers are not written yet
        self.later: Callable[[Callable[[], None]], None] = lambda action: action()
        """Calls a function after a while."""

    def consumer(self, config: Mapping[str, Any], streams: Any = None) -> Any:
        return TaskConsumer(self, streams, config.get("isolation.level") == "read_committed")

    def producer(self, config: Mapping[str, Any]) -> Any:
        return TaskProducer(self, config["transactional.id"])

    def end(self, tp: TopicPartition, *, is_committed: bool) -> int:
        firsts = [offset for txn in self._open.values() for place, offset in txn.places if place == tp]
        return min(firsts) if firsts and is_committed else len(self.logs[tp])

    def is_pending(self, tp: TopicPartition) -> bool:
        """Whether an open transaction has offsets for the partition."""
        return any(tp in txn.offsets for txn in self._open.values())

    # transactions

    def initialize(self, name: str) -> int:
        """Start the next producer of a transactional id; the transaction of the previous one is aborted, or
        committed if that was decided."""
        self.abort(name)
        self.epochs[name] = self.epochs.get(name, 0) + 1
        return self.epochs[name]

    def producer_id(self, name: str) -> int:
        """The producer id of a transactional id."""
        return 1 + list(self.epochs).index(name)

    def transaction(self, name: str) -> _Open:
        """The open transaction; a new one begins after the markers of the last one."""
        if name in self._decided:
            self.finish(name, is_commit=True)
        return self._open.setdefault(name, _Open(self._now_ms()))

    def decide(self, name: str) -> None:
        """Commit a transaction; its markers are written later."""
        if name in self._open:
            txn = self._open[name]
            self._decided.add(name)
            self.later(lambda: self.finish(name, is_commit=True) if self._open.get(name) is txn else None)

    def abort(self, name: str) -> None:
        """Abort the open transaction; commit it if its commit was decided."""
        self.finish(name, is_commit=name in self._decided)

    def finish(self, name: str, *, is_commit: bool) -> None:
        """Commit or abort the open transaction, if there is one."""
        self._decided.discard(name)
        txn = self._open.pop(name, None)
        if txn is None:
            return
        records = [self.logs[tp][offset] for tp, offset in txn.places]
        for tp, offset in txn.places:
            if not is_commit:
                self.logs[tp][offset] = None
        for tp in dict.fromkeys(tp for tp, _ in txn.places):
            self.append_marker(*tp)
        if txn.offsets:
            self.end_offsets_of(self.producer_id(name), self.epochs[name], is_commit)
        if is_commit:
            before = {tp: self.committed.get(tp) for tp in txn.offsets}
            self.committed.update(txn.offsets)
            self.on_commit(records, before, txn.offsets)

    def expire(self) -> None:
        """Abort transactions after their timeout, and fence their producers."""
        for name in [each for each, txn in self._open.items() if self._now_ms() >= txn.begun_ms + TIMEOUT_MS]:
            self.initialize(name)


class TaskConsumer(FakeConsumer):
    """Reads a partition once its committed offset is stable. `member`: the group member, or None."""

    cluster: TaskLog
    member: Any = None

    def add(self, partitions: Any) -> None:
        for tp in partitions:
            self.unplaced.add(tp)

    @property
    def unplaced(self) -> set[TopicPartition]:
        found: set[TopicPartition] = self.__dict__.setdefault("_unplaced", set())
        return found

    def drop(self, partitions: Any) -> None:
        super().drop(partitions)
        self.unplaced.difference_update(partitions)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.unplaced.discard(tp)
        super().seek(tp, offset)

    def poll(self, timeout_s: float) -> Any:
        stable = [tp for tp in sorted(self.unplaced) if not self.cluster.is_pending(tp)]
        self.unplaced.difference_update(stable)
        super().add(stable)
        return super().poll(timeout_s)

    def committed(self, *tps: TopicPartition) -> Any:
        if any(self.cluster.is_pending(tp) for tp in tps):
            raise UnstableOffsetCommitError("a transaction is open")
        return super().committed(*tps)

    def group_metadata(self) -> GroupMetadata:
        found: GroupMetadata = self.member.owner_metadata
        return found


class TaskProducer(FakeProducer):
    """A producer of a transactional id, which is fenced if its epoch is old."""

    cluster: TaskLog

    def __init__(self, cluster: TaskLog, name: str) -> None:
        super().__init__(cluster, is_transactional=True)
        self._name, self._epoch = name, -1

    def init_transactions(self) -> None:
        self._epoch = self.cluster.initialize(self._name)
        self.is_initialized = True

    def _check(self) -> None:
        if self.cluster.epochs[self._name] != self._epoch:
            raise ProducerFencedError(f"{self._name} has epoch {self._epoch}")

    def flush(self) -> None:
        if self.pending:
            self._check()
        for future, facts in self.pending:
            partition = facts["partition"] or 0
            offset = self.cluster.append(
                *(facts["topic"], facts["key"], facts["value"]),
                partition=partition, timestamp=facts["timestamp"] or 0, headers=facts["headers"],
            )  # fmt: skip
            log = self.cluster.logs
            place = next(tp for tp in log if tp == (facts["topic"], partition))
            self.cluster.transaction(self._name).places.append((place, offset))
            future.resolve(offset, None)
        self.pending.clear()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        self._check()
        self.cluster.fail(self._name)
        wanted = tuple(CommittedOffset(*tp, each.offset) for tp, each in offsets.items())
        body = TxnOffsetCommitRequest(
            *(self._name, group.group_id, self.cluster.producer_id(self._name), self._epoch, wanted),
            *(group.generation_id, group.member_id, group.group_instance_id),
            adds_partition=False,
        )
        answer = self.cluster.ask_group(TXN_OFFSET_COMMIT, body)
        error = _error_of(answer)
        if error is not None:
            raise error if error.retriable else TransactionAbortableError(f"{self._name}: {error}")
        self.cluster.transaction(self._name).offsets.update(offsets)

    def commit_transaction(self) -> None:
        self.flush()
        self._check()
        self.cluster.decide(self._name)
        self.in_transaction = False

    def abort_transaction(self) -> None:
        self.pending.clear()
        self.in_transaction = False
        self._check()
        self.cluster.abort(self._name)


def _error_of(answer: Any) -> KafkaError | None:
    if isinstance(answer, KafkaError):
        return answer
    codes = [each.error_code for each in answer.results if each.error_code]
    return error_from_code(codes[0]) if codes else None
