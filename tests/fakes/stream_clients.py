"""A cluster in memory for the parts of a streams worker: consumers, producers, and errors on demand.

No threads, no sockets: a test calls the parts directly, one step at a time.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.clients.admin.admin_types import NewTopic, Results, TopicListing
from headrace.clients.group.group_metadata import GroupMetadata
from headrace.clients.group.streams import TaskRoles
from headrace.clients.records import OffsetAndTimestamp
from headrace.protocol.errors import GroupIdNotFoundError
from headrace.protocol.model import TopicPartition
from headrace.stream.testing.topics import StoredRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.clients.admin.streams_groups import StreamsGroupDescription
    from headrace.clients.group.group_metadata import OffsetAndMetadata
    from headrace.clients.records import Headers


class FakeStreamsCluster:
    """Logs by partition, committed offsets, and the errors that the next calls of a client raise.

    `failures` has the errors by call ("consumer.commit", "producer.commit_transaction", ...), the next one
    first.
    """

    def __init__(self, **partitions: int) -> None:
        self.partitions = {name.replace("_", "-"): count for name, count in partitions.items()}
        self.logs: dict[TopicPartition, list[StoredRecord | None]] = defaultdict(list)
        self.internal: set[str] = set()
        self.group: StreamsGroupDescription | None = None
        self.starts: dict[TopicPartition, int] = defaultdict(int)
        self.open_from: dict[TopicPartition, int] = {}
        """The first offset of a transaction without marker: committed records are read up to there."""
        self.left_open: list[TopicPartition] = []
        """Partitions with a transaction that the next producer aborts when it is initialized."""
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.failures: dict[str, list[Exception]] = defaultdict(list)
        self.send_errors: dict[str, list[Exception]] = defaultdict(list)
        """By topic: the outcome of the next records."""
        self.row_results: list[Any] = []
        """The results of the next calls of `send_arrow`."""
        self.longest_run = 100
        """Records that join batches of a producer in one call."""
        self.created: list[NewTopic] = []
        self.admin_config: dict[str, Any] = {}
        self.admins: list[FakeAdmin] = []
        self.consumers: list[FakeConsumer] = []
        self.producers: list[FakeProducer] = []
        self.max_poll_records = 1000
        """Of each partition."""
        self.on_poll: Callable[[], None] = lambda: None
        """Called before each poll of a consumer in a group."""

    def fail(self, call: str) -> None:
        """Raise the next failure of a call."""
        if self.failures[call]:
            raise self.failures[call].pop(0)

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        timestamp: int = 0,
        headers: Headers = (),
    ) -> int:
        """Append a record; returns its offset."""
        log = self.logs[TopicPartition(topic, partition)]
        log.append(StoredRecord(topic, partition, len(log), timestamp, key, value, headers))
        return len(log) - 1

    def append_marker(self, topic: str, partition: int = 0) -> None:
        """Append an offset without a record: a transaction marker or a compacted record."""
        self.logs[TopicPartition(topic, partition)].append(None)

    def end(self, tp: TopicPartition, *, is_committed: bool) -> int:
        """The last stable offset, or the high watermark."""
        high = len(self.logs[tp])
        return self.open_from.get(tp, high) if is_committed else high

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """The values of a partition."""
        return [record.value for record in self.logs[TopicPartition(topic, partition)] if record]

    # the clients of a worker

    def admin(self, config: Mapping[str, Any]) -> Any:
        self.admin_config = dict(config)
        self.admins.append(FakeAdmin(self))
        return self.admins[-1]

    def consumer(self, config: Mapping[str, Any], streams: Any = None) -> Any:
        is_committed = config.get("isolation.level") == "read_committed"
        self.consumers.append(FakeConsumer(self, streams, is_committed))
        return self.consumers[-1]

    def producer(self, config: Mapping[str, Any]) -> Any:
        self.producers.append(FakeProducer(self, "transactional.id" in config))
        return self.producers[-1]


class _Results(NamedTuple):
    errors: dict[str, Exception]


class FakeAdmin:
    """Lists and creates topics; returns end offsets of partitions."""

    def __init__(self, cluster: FakeStreamsCluster) -> None:
        self.cluster = cluster
        self.is_closed = False

    def __enter__(self) -> FakeAdmin:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True

    def list_offsets(self, wanted: Mapping[TopicPartition, Any]) -> dict[TopicPartition, OffsetAndTimestamp]:
        self.cluster.fail("admin.list_offsets")
        return {tp: OffsetAndTimestamp(self.cluster.end(tp, is_committed=False), -1, 0) for tp in wanted}

    def describe_streams_groups(self, *names: str) -> Results[str, StreamsGroupDescription]:
        """The cluster's description, for any group."""
        found = self.cluster.group
        error = GroupIdNotFoundError("there is no such group")
        return Results(dict.fromkeys(names, error if found is None else found))

    def list_topics(self, *, internal: bool) -> list[TopicListing]:
        assert internal
        self.cluster.fail("admin.list_topics")
        found, hidden = list(self.cluster.partitions.items()), self.cluster.internal
        return [TopicListing(name, name.encode(), count, name in hidden) for name, count in found]

    def create_topics(self, *topics: NewTopic) -> _Results:
        self.cluster.created += topics
        self.cluster.partitions.update({topic.name: topic.partitions or 1 for topic in topics})
        return _Results({})


class FakeConsumer:
    """`give` and `take` change its assignment with the next poll, as a rebalance does."""

    def __init__(self, cluster: FakeStreamsCluster, streams: Any, is_committed: bool) -> None:
        self.cluster = cluster
        self.is_committed = is_committed
        self.leaves: bool | None = None
        self.streams = streams  # the StreamsApplication of a member
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.listener: Any = None
        self.is_closed = False
        self.rebalances: list[str] = []
        self.subscriptions: list[tuple[str, ...]] = []
        self.timeouts_s: list[float] = []
        self._changes: list[tuple[str, tuple[TopicPartition, ...]]] = []

    def give(self, *partitions: TopicPartition) -> None:
        self._changes.append(("assigned", partitions))

    def take(self, *partitions: TopicPartition, lost: bool = False) -> None:
        self._changes.append(("lost" if lost else "revoked", partitions))

    def subscribe(self, topics: Sequence[str], *, pattern: Any, listener: Any) -> None:
        assert bool(topics) == (pattern is None)
        self.listener = listener
        self.subscriptions.append(tuple(topics))

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.positions = {tp: self.cluster.starts[tp] for tp in partitions}
        self.paused &= self.positions.keys()

    def add(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions from their committed offsets, or from the beginning."""
        for tp in partitions:
            found = self.cluster.committed.get(tp)
            self.positions[tp] = self.cluster.starts[tp] if found is None else found.offset

    def drop(self, partitions: Sequence[TopicPartition]) -> None:
        for tp in partitions:
            self.positions.pop(tp, None)
            self.paused.discard(tp)

    def poll(self, timeout_s: float) -> list[StoredRecord]:
        self.timeouts_s.append(timeout_s)
        if self.listener is not None:
            self.cluster.on_poll()
        changes, self._changes = self._changes, []
        for kind, partitions in changes:
            self._show_tasks(kind, partitions)
            if kind == "assigned":
                self.add(partitions)
                self.listener.on_assigned(self, partitions)
            else:
                (self.listener.on_lost if kind == "lost" else self.listener.on_revoked)(self, partitions)
                self.drop(partitions)
        self.cluster.fail("consumer.poll")
        found: list[StoredRecord] = []
        for tp, position in self.positions.items():
            if tp not in self.paused:
                log, first = self.cluster.logs[tp], max(position, self.cluster.starts[tp])
                end = self.cluster.end(tp, is_committed=self.is_committed)
                last = min(end, first + self.cluster.max_poll_records)
                found += [record for record in log[first:last] if record is not None]
                self.positions[tp] = max(position, last)
        return found

    def _show_tasks(self, kind: str, partitions: tuple[TopicPartition, ...]) -> None:
        """Set the tasks, as a member of a streams group does before it calls the listener."""
        held = {*self.positions, *partitions} if kind == "assigned" else {*self.positions} - {*partitions}
        active = {
            (subtopology, tp.partition)
            for subtopology, topics in self.streams.sources.items()
            for tp in held
            if tp.topic in topics
        }
        self.streams.tasks = TaskRoles(frozenset(active))
        for each in self.streams.topology.subtopologies:  # the coordinator has created its changelogs
            counts = [
                self.cluster.partitions.get(topic, 0) for topic in self.streams.sources[each.subtopology_id]
            ]
            for topic in each.state_changelog_topics:
                self.cluster.partitions.setdefault(topic.name, max(counts))

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.positions[tp] = offset

    def seek_to_beginning(self, *tps: TopicPartition) -> None:
        for tp in tps:
            self.positions[tp] = self.cluster.starts[tp]

    def position(self, tp: TopicPartition) -> int:
        return self.positions[tp]

    def pause(self, *tps: TopicPartition) -> None:
        self.paused.update(tps)

    def resume(self, *tps: TopicPartition) -> None:
        self.paused.difference_update(tps)

    def committed(self, *tps: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self.cluster.fail("consumer.committed")
        return {tp: self.cluster.committed.get(tp) for tp in tps}

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.cluster.fail("consumer.commit")
        self.cluster.committed.update(offsets)

    def beginning_offsets(self, *tps: TopicPartition) -> dict[TopicPartition, int]:
        return {tp: self.cluster.starts[tp] for tp in tps}

    def end_offsets(self, *tps: TopicPartition) -> dict[TopicPartition, int]:
        self.cluster.fail("consumer.end_offsets")
        return {tp: self.cluster.end(tp, is_committed=self.is_committed) for tp in tps}

    def lag(self) -> dict[TopicPartition, int]:
        return {tp: len(self.cluster.logs[tp]) - position for tp, position in self.positions.items()}

    def group_metadata(self) -> GroupMetadata:
        return GroupMetadata("app")

    def enforce_rebalance(self, reason: str) -> None:
        self.rebalances.append(reason)

    def wakeup(self) -> None:
        """No call blocks here."""

    def close(self, *, leave: bool | None = None) -> None:
        self.is_closed, self.leaves = True, leave


class _Metadata(NamedTuple):
    offset: int


class _Delivery:
    """A batch with one record, which may be split."""

    def __init__(self) -> None:
        self.is_done = False
        self.error: Exception | None = None
        self.part_error: Exception | None = None
        self.offset = -1

    def outcome(self, index: int) -> tuple[int, int, Exception | None]:
        assert index == 0, "a batch has one record"
        return self.offset, -1, self.error or self.part_error

    def report(self) -> None:
        """No record is lost here."""

    def has_succeeded(self) -> bool:
        return self.is_done and self.error is None and self.part_error is None


class FakeFuture:
    """A future that completes with the flush."""

    def __init__(self) -> None:
        self.delivery = _Delivery()
        self._offset: int | None = None
        self._error: Exception | None = None

    def resolve(self, offset: int, error: Exception | None) -> None:
        self.delivery.is_done, self.delivery.error, self.delivery.offset = True, error, offset
        self._offset, self._error = offset, error

    def resolve_in_parts(self, error: Exception) -> None:
        """Resolve a split batch: the part with the record failed."""
        self.delivery.is_done, self.delivery.part_error = True, error
        self._offset, self._error = -1, error

    def done(self) -> bool:
        return self._offset is not None

    def exception(self) -> Exception | None:
        return self._error

    def outcome(self) -> tuple[Any, Exception | None]:
        assert self._offset is not None
        return _Metadata(self._offset), self._error


class FakeProducer:
    """Appends records to the logs at `flush`, those of a transaction at its commit."""

    def __init__(self, cluster: FakeStreamsCluster, is_transactional: bool) -> None:
        self.cluster = cluster
        self.is_transactional = is_transactional
        self.in_transaction = self.is_initialized = self.is_closed = False
        self.pending: list[tuple[FakeFuture, dict[str, Any]]] = []
        self._offsets: dict[TopicPartition, OffsetAndMetadata] = {}

    def send(self, topic: str, value: bytes | None, **facts: Any) -> FakeFuture:
        self.cluster.fail("producer.send")
        future = FakeFuture()
        self.pending.append((future, {"topic": topic, "value": value, **facts}))
        return future

    def append_run(
        self,
        topic: str,
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamps: list[int],
        partition: int | None,
        start: int,
    ) -> tuple[list[Any], list[int], list[int]]:
        """Append up to `longest_run` records, each in a separate batch."""
        end = min(len(keys), start + self.cluster.longest_run)
        futures = [FakeFuture() for _ in range(start, end)]
        for future, place in zip(futures, range(start, end), strict=True):
            facts = {"topic": topic, "key": keys[place], "value": values[place], "headers": (),
                     "partition": partition, "timestamp": timestamps[place]}  # fmt: skip
            self.pending.append((future, facts))
        return [future.delivery for future in futures], [0] * len(futures), list(range(len(futures)))

    def send_arrow(self, _topic: str, _rows: Any) -> Any:
        self.cluster.fail("producer.send")
        return self.cluster.row_results.pop(0)

    def flush(self) -> None:
        self.cluster.fail("producer.flush")
        if not self.is_transactional:
            self._append()
        else:  # the offsets of the records if the transaction is committed
            for future, facts in self.pending:
                errors = self.cluster.send_errors[facts["topic"]]
                if not future.done():
                    future.resolve(0, errors.pop(0) if errors else None)

    def _append(self) -> None:
        for future, facts in self.pending:
            errors = self.cluster.send_errors[facts["topic"]]
            if not future.done() and errors:
                future.resolve(-1, errors.pop(0))
            if future.delivery.error is not None:
                continue
            timestamp = facts["timestamp"] or 0
            partition = facts["partition"] or 0
            offset = self.cluster.append(
                facts["topic"], facts["key"], facts["value"],
                partition=partition, timestamp=timestamp, headers=facts["headers"],
            )  # fmt: skip
            future.resolve(offset, None)
        self.pending.clear()

    def partitions_for(self, topic: str) -> list[int]:
        self.cluster.fail("producer.partitions_for")
        return list(range(self.cluster.partitions.get(topic, 0)))

    def init_transactions(self) -> None:
        self.cluster.fail("producer.init_transactions")
        assert self.is_transactional
        assert not self.is_initialized
        self.is_initialized = True
        for tp in self.cluster.left_open:
            del self.cluster.open_from[tp]
        self.cluster.left_open = []

    def begin_transaction(self) -> None:
        self.cluster.fail("producer.begin_transaction")
        assert self.is_transactional
        assert not self.in_transaction
        if not self.is_initialized:
            self.init_transactions()
        self.in_transaction = True

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], _group: GroupMetadata
    ) -> None:
        self.cluster.fail("producer.send_offsets")
        self._offsets.update(offsets)

    def commit_transaction(self) -> None:
        assert self.in_transaction
        self.cluster.fail("producer.commit_transaction")
        self._append()
        self.cluster.committed.update(self._offsets)
        self._offsets.clear()
        self.in_transaction = False

    def abort_transaction(self) -> None:
        self.pending.clear()
        self._offsets.clear()
        self.in_transaction = False
        self.cluster.fail("producer.abort_transaction")

    def close(self, _timeout_s: float | None = None) -> None:
        self.is_closed = True
