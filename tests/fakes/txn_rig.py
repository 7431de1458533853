"""A shard of the transaction coordinator, driven step by step, and the partition leaders that get its
markers.

The log is a list; records are committed immediately, or by the test. Requests to other nodes wait until the
test delivers them; they and their responses may be lost, duplicated, or belong to a dropped shard. Records
are encoded and decoded.
"""

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.coordinators.runtime.ports import NO_PRODUCER, Outcome, Record
from headrace.coordinators.txn.shard import TransactionShard
from headrace.protocol import errors
from headrace.protocol.messages import registry, transactions
from headrace.protocol.messages.groups import PartitionResult, TopicNamePartitions
from headrace.protocol.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from headrace.protocol.model import CONSUMER_OFFSETS, NO_NODE
from headrace.protocol.records.coordinator_records import decode_record, encode_record
from headrace.protocol.records.transaction_records import TransactionKey, TransactionValue
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.embedded.contract import Now

WALL_SHIFT_MS = 1_700_000_000_000
TOPICS = {"t": 3, "u": 2, CONSUMER_OFFSETS: 5}
Key = tuple[str, int]


@dataclass(eq=False)
class Call:
    """A request of a client; `answers` has its response."""

    session: int = 1
    client_id: str = "test"
    client_host: str = "/h"
    answers: list[Any] = field(default_factory=list)

    @property
    def answer(self) -> Any:
        """The only response."""
        (answer,) = self.answers
        return answer

    @property
    def code(self) -> int:
        """The error code of the response."""
        answer = self.answer
        return answer.code if isinstance(answer, errors.KafkaError) else answer.error_code


@dataclass(eq=False)
class Ask:
    """A request in flight to a node."""

    node_id: int
    body: Any
    answered: Callable[[Any, Now], Outcome]
    shard: TransactionShard


@dataclass
class Leader:
    """A partition leader with producer state and records."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[Any]] = field(default_factory=dict)
    committed: list[Any] = field(default_factory=list)
    aborted: list[Any] = field(default_factory=list)
    coordinator_epoch: int = -1
    refuses: int = 0  # error code of its responses to markers

    def append(self, producer_id: int, epoch: int, value: Any) -> None:
        """Append a record of an open transaction. Errors: InvalidProducerEpochError."""
        if epoch < self.epochs.get(producer_id, -1):
            raise errors.InvalidProducerEpochError("older")
        self.epochs[producer_id] = epoch
        self.open.setdefault(producer_id, []).append(value)

    def mark(self, marker: transactions.TransactionMarker) -> int:
        """Handle a marker; returns the error code."""
        if self.refuses:
            return self.refuses
        if marker.coordinator_epoch < self.coordinator_epoch:
            return errors.TransactionCoordinatorFencedError.code
        known_epoch = self.epochs.get(marker.producer_id, -1)
        # The next transaction of version 2 has the epoch of this marker, which must not end that transaction.
        is_late = marker.transaction_version >= 2 and marker.producer_epoch == known_epoch
        if marker.producer_epoch < known_epoch or (is_late and marker.producer_id in self.open):
            return errors.InvalidProducerEpochError.code
        self.coordinator_epoch = marker.coordinator_epoch
        self.epochs[marker.producer_id] = marker.producer_epoch
        ended = self.open.pop(marker.producer_id, [])
        (self.committed if marker.committed else self.aborted).extend(ended)
        return 0


class TxnRig:
    """Host, timers and runtime of the shard."""

    def __init__(self, **config: Any) -> None:
        self.config = self
        self.timers = self
        self.now = NodeConfig.of({"log.dirs": "d", **config})
        self.node_id, self.epoch = 1, 0
        self.now_ms, self.wall_shift_ms = 1_000, WALL_SHIFT_MS
        self.image = MetadataImage()
        self.leaders: dict[Key, Leader] = {}
        for topic, partitions in TOPICS.items():
            self.leaders.update({(topic, number): Leader() for number in range(partitions)})
        self.lead(dict.fromkeys(self.leaders, 1))
        self.ids = itertools.count(1_000)
        self.has_ids = True
        self.refuses: errors.KafkaError | None = None
        self.commits_at_once = True
        self.log: list[tuple[bytes, bytes | None]] = []
        self.high_watermark = 0
        self.asks: list[Ask] = []
        self.max_markers = 1 << 30  # most partitions in one request to a node
        self.max_batch_bytes = 1 << 20
        self.restart()

    # --- host of the shard -------------------------------------------------------------------------------

    def lead(self, leaders: dict[Key, int]) -> None:
        """Set the leaders; partitions that are not named do not exist."""
        topics = {}
        for topic in TOPICS:
            numbers = sorted(number for name, number in leaders if name == topic)
            found = tuple(PartitionRegistration((1,), (1,), leaders[topic, n], 0, 0) for n in numbers)
            if found:
                topics[topic] = TopicImage(topic, topic.encode()[:16].ljust(16), found)
        self.image = MetadataImage(topics=topics)

    def move(self, key: Key, node_id: int = NO_NODE) -> None:
        """Change a partition's leader."""
        topic = self.image.topics[key[0]]
        partitions = list(topic.partitions)
        partitions[key[1]] = replace(partitions[key[1]], leader=node_id)
        self.image = replace(
            self.image, topics={**self.image.topics, key[0]: replace(topic, partitions=tuple(partitions))}
        )
        self.run(lambda now: self.shard.on_metadata(self.image, None, now))

    def delete(self, name: str) -> None:
        """Delete a topic."""
        self.image = replace(
            self.image, topics={each: topic for each, topic in self.image.topics.items() if each != name}
        )
        self.run(lambda now: self.shard.on_metadata(self.image, None, now))

    def ask(
        self, node_id: int, api: Any, body: Any, _timeout_ms: int, answered: Callable[[Any, Now], Outcome]
    ) -> None:
        assert api == registry.WRITE_TXN_MARKERS
        self.asks.append(Ask(node_id, body, answered, self.shard))

    def next_producer_id(self, now_ms: int) -> int:
        if not self.has_ids:
            raise errors.CoordinatorLoadInProgressError("no ids")
        return next(self.ids)

    def set(self, key: Hashable, deadline_ms: int, action: Callable[[Now], Outcome]) -> None:
        self.due[key] = (deadline_ms, action)

    def cancel(self, key: Hashable) -> None:
        self.due.pop(key, None)

    def deadline_of(self, key: Hashable) -> int | None:
        return self.due[key][0] if key in self.due else None

    # --- runtime -----------------------------------------------------------------------------------------

    @property
    def moment(self) -> Now:
        return Now(self.now_ms, self.now_ms + self.wall_shift_ms)

    def restart(self, *, keeps: int | None = None) -> None:
        """Load a new shard from the log up to `keeps`, which is at least the high watermark."""
        if keeps is not None:
            del self.log[max(keeps, self.high_watermark) :]
        self.epoch += 1
        self.due: dict[Hashable, tuple[int, Callable[[Now], Outcome]]] = {}
        self.held: list[tuple[int, Call, Any]] = []
        self.next: list[tuple[int, Callable[[Now], Outcome]]] = []
        self.shard = TransactionShard(0, self)
        for offset in range(len(self.log)):
            self._replay(offset)
        self.run(self.shard.on_loaded)
        if self.commits_at_once:
            self.commit()

    def _replay(self, offset: int) -> None:
        decoded = decode_record(*self.log[offset])
        assert decoded is not None
        self.shard.replay(Record(*decoded), offset, NO_PRODUCER)

    def run(self, decide: Callable[[Now], Outcome], call: Call | None = None) -> None:
        """Decide, append, apply, answer."""
        try:
            outcome = decide(self.moment)
        except errors.KafkaError as error:
            if call is None:
                raise
            call.answers.append(error)
            return
        encoded = [encode_record(record.key, record.value) for record in outcome.records]
        refusal = self.refuses
        if sum(len(key) + len(value or b"") for key, value in encoded) > self.max_batch_bytes:
            refusal = errors.MessageTooLargeError("too many bytes")
        if outcome.records and refusal is not None:
            undone = outcome.on_failed(refusal, self.moment) if outcome.on_failed else Outcome()
            assert not undone.records
            for answer in outcome.answers:
                answer.token.answers.append(refusal)  # type: ignore[attr-defined]
            return
        for record in encoded:
            self.log.append(record)
            self._replay(len(self.log) - 1)
        self.held += [(len(self.log), answer.token, answer.body) for answer in outcome.answers]  # type: ignore[misc]
        if outcome.on_committed is not None:
            self.next.append((len(self.log), outcome.on_committed))
        self.commit(len(self.log) if self.commits_at_once else self.high_watermark)

    def commit(self, upto: int | None = None) -> None:
        """Advance the high watermark."""
        self.high_watermark = len(self.log) if upto is None else upto
        while self.held and self.held[0][0] <= self.high_watermark:
            _, call, body = self.held.pop(0)
            call.answers.append(body)
        while self.next and self.next[0][0] <= self.high_watermark:
            self.run(self.next.pop(0)[1])

    def pass_time(self, milliseconds: int) -> None:
        """Advance the clock, and fire each timer at its deadline."""
        end_ms = self.now_ms + milliseconds
        while self.due:
            key = min(self.due, key=lambda each: self.due[each][0])
            deadline_ms, action = self.due[key]
            if deadline_ms > end_ms:
                break
            del self.due[key]
            self.now_ms = max(self.now_ms, deadline_ms)
            self.run(action)
        self.now_ms = end_ms

    # --- nodes that get markers --------------------------------------------------------------------------

    def deliver(self, index: int = 0, *, is_lost: bool = False, again: bool = False) -> None:
        """Deliver one request, and its response unless `is_lost`; with `again` the request is delivered
        twice."""
        ask = self.asks[index] if again else self.asks.pop(index)
        asked = sum(len(topic.partitions) for marker in ask.body.markers for topic in marker.topics)
        if asked > self.max_markers:
            self._answer(ask, errors.InvalidRequestError("too many"))
            return
        written = tuple(self._written(ask.node_id, marker) for marker in ask.body.markers)
        if not again:
            self._answer(
                ask, errors.NetworkError("lost") if is_lost else transactions.WriteTxnMarkersResponse(written)
            )

    def lose(self, index: int = 0) -> None:
        """Lose one request."""
        self._answer(self.asks.pop(index), errors.NetworkError("lost"))

    def _answer(self, ask: Ask, answer: Any) -> None:
        if ask.shard is self.shard:
            self.run(lambda now: ask.answered(answer, now))

    def _written(self, node_id: int, marker: transactions.TransactionMarker) -> transactions.WrittenMarker:
        results = []
        for topic, numbers in ((each.topic, each.partitions) for each in marker.topics):
            for number in numbers:
                held = self.image.topics.get(topic)
                leads = held is not None and held.partitions[number].leader == node_id
                code = (
                    self.leaders[topic, number].mark(marker)
                    if leads
                    else errors.NotLeaderOrFollowerError.code
                )
                results.append(PartitionResult(topic, number, code))
        return transactions.WrittenMarker(marker.producer_id, tuple(results))

    def settle(self) -> None:
        """Deliver all requests and advance the clock until none is left."""
        for _ in range(50):
            while self.asks:
                self.deliver()
            self.pass_time(200)
            if not self.asks and not len(self.shard._markers):
                return
        raise AssertionError("markers are stuck")

    # --- clients -----------------------------------------------------------------------------------------

    def call(self, api: Any, body: Any) -> Call:
        """Handle a request of a client."""
        call = Call()
        self.run(lambda now: self.shard.handle(api, body, call, now), call)  # type: ignore[arg-type]
        return call

    def init(self, name: str = "a", producer: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000) -> Call:
        """Send InitProducerId."""
        return self.call(
            registry.INIT_PRODUCER_ID, transactions.InitProducerIdRequest(name, timeout_ms, *producer)
        )

    def begun(self, name: str = "a", **more: Any) -> tuple[int, int]:
        """Send InitProducerId; returns the producer's id and epoch."""
        answer = self.init(name, **more).answer
        assert answer.error_code == 0, answer
        return answer.producer_id, answer.producer_epoch

    def add(self, producer: tuple[int, int], *keys: Key, name: str = "a", verify_only: bool = False) -> Any:
        """Send AddPartitionsToTxn for one transaction; returns its part of the response."""
        topics = tuple(TopicNamePartitions(topic, (number,)) for topic, number in keys)
        asked = transactions.TransactionPartitions(name, *producer, topics, verify_only)
        call = self.call(registry.ADD_PARTITIONS_TO_TXN, transactions.AddPartitionsToTxnRequest((asked,)))
        return call.answer.transactions[0] if call.answers and hasattr(call.answer, "transactions") else call

    def add_offsets(self, producer: tuple[int, int], group: str = "g", name: str = "a") -> Call:
        """Send AddOffsetsToTxn."""
        return self.call(
            registry.ADD_OFFSETS_TO_TXN, transactions.AddOffsetsToTxnRequest(name, *producer, group)
        )

    def prepare(self, producer: tuple[int, int], name: str = "a") -> Call:
        """Send PrepareTxn."""
        return self.call(registry.PREPARE_TXN, transactions.PrepareTxnRequest(name, *producer))

    def end(
        self, producer: tuple[int, int], *, commit: bool = True, name: str = "a", v2: bool = True
    ) -> Call:
        """Send EndTxn."""
        return self.call(registry.END_TXN, transactions.EndTxnRequest(name, *producer, commit, v2))

    def write(self, producer: tuple[int, int], key: Key, value: Any, name: str = "a") -> bool:
        """Add the partition and append a record at its leader. False: the leader rejected it."""
        leader = self.leaders[key]
        if producer[0] not in leader.open or leader.epochs[producer[0]] != producer[1]:
            added = self.add(producer, key, name=name)
            if getattr(added, "error_code", 1) or added.results[0].error_code:
                return False
        try:
            leader.append(*producer, value)
        except errors.InvalidProducerEpochError:
            return False
        return True

    def known(self, name: str = "a") -> Any:
        """The transaction in the shard's state."""
        return self.shard.transactions[name]

    def state(self, name: str = "a") -> str:
        """The name of the transaction's state."""
        return str(self.known(name).state.value)

    def put(self, status: int, epoch: int, name: str = "a", **facts: Any) -> None:
        """Append a record of producer id 500 to the log, and load the shard."""
        wall_ms = self.moment.wall_ms
        partitions = () if status else None
        value = TransactionValue(500, 500, -1, epoch, 60_000, status, partitions, wall_ms, wall_ms)
        self.log.append(encode_record(TransactionKey(name), value._replace(**facts)))
        self.restart()
