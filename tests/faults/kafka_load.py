"""Kafka's clients under faults, and their laws.

Producers send numbers, each to partition number % PARTITIONS, and retry each record without limit;
transactional ones abort every third transaction. A read_committed consumer runs all the time. `finish` stops
them, reads the topic again and checks: each acknowledged or committed record is there once and in order, no
aborted record is there, and the consumer read the same records.
"""

import asyncio
import contextlib
import gc
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import pairwise
from typing import Any, ClassVar, Self

from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from fault_cluster import FaultCluster
from kafka import KafkaProducer
from waiting import PATIENCE_S, wait_for
from worker_thread import WorkerThread

PARTITIONS = 3
ABORTED_EACH = 3
TXN_SIZE = 6
PAUSE_S = 0.003  # between records: some hundred per second and producer
UNACKED = 200
END_S = 90.0
LIVES = 30
RETRY_MS = 100


def silent() -> logging.Logger:
    """A logger without output: clients log every lost connection."""
    logger = logging.getLogger("kafka-load")
    logger.setLevel(logging.CRITICAL)
    return logger


class Sender(WorkerThread):
    """A producer in a thread. Its records are in `acked`, `aborted` or `unknown`, by their outcome."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        super().__init__(name)
        self.bootstrap, self.topic = bootstrap, topic
        self.acked: list[bytes] = []
        self.aborted: set[bytes] = set()
        self.unknown: list[list[bytes]] = []  # transactions with an unknown outcome
        self.deaths = 0  # producers that failed and were replaced
        self._number = 0

    def numbers(self) -> Iterable[tuple[bytes, int]]:
        """Values and their partitions, at a limited rate, until it is stopped."""
        while not self.stopping.wait(PAUSE_S):
            yield self.next_one()

    def next_one(self) -> tuple[bytes, int]:
        number = self._number
        self._number += 1
        return b"%s %d" % (self.name.encode(), number), number % PARTITIONS


class Librdkafka(Sender):
    """An idempotent producer of confluent-kafka."""

    options: ClassVar[dict[str, Any]] = {
        "enable.idempotence": True,
        "linger.ms": 1,
        "message.timeout.ms": int(END_S * 1000),
        "retry.backoff.ms": RETRY_MS,
        "retry.backoff.max.ms": 200,
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 1_000,
    }

    def work(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, **self.options}, logger=silent())

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise KafkaException(error)
            self.acked.append(message.value())

        for value, partition in self.numbers():
            while len(producer) > UNACKED:
                producer.poll(0.05)
            producer.produce(self.topic, value, partition=partition, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(END_S) == 0, "records were never answered"


class KafkaPython(Sender):
    """An idempotent producer of kafka-python."""

    def work(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            enable_idempotence=True,
            acks="all",
            retry_backoff_ms=RETRY_MS,
            delivery_timeout_ms=int(END_S * 1000),
            request_timeout_ms=10_000,
        )
        for value, partition in self.numbers():
            producer.send(self.topic, value, partition=partition).add_callback(
                lambda _, value=value: self.acked.append(value)
            ).add_errback(self._failed)
        producer.close(timeout=END_S)
        if self.failure is None:
            assert len(self.acked) == self._number, "records were never answered"

    def _failed(self, error: BaseException) -> None:
        self.failure = self.failure or error


class AioKafka(Sender):
    """An idempotent producer of aiokafka."""

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            enable_idempotence=True,
            retry_backoff_ms=RETRY_MS,
            request_timeout_ms=int(END_S * 1000),
            metadata_max_age_ms=1_000,
        )
        await producer.start()
        sent = []
        while not self.stopping.is_set():
            value, partition = self.next_one()
            sent.append((value, await producer.send(self.topic, value, partition=partition)))
            while sent and sent[0][1].done():
                done, future = sent.pop(0)
                future.result()
                self.acked.append(done)
            await asyncio.sleep(PAUSE_S)
        async with asyncio.timeout(END_S):
            for value, future in sent:
                await future
                self.acked.append(value)
        await producer.stop()


class Transactional(Sender):
    """One transaction after the other; every third is aborted. A transaction that fails before its commit
    counts as aborted; one whose commit fails is unknown: all of its records are there, or none."""

    def __init__(self, *where: str) -> None:
        super().__init__(*where)
        self._transactions = 0
        self._values: list[bytes] = []
        self._is_committing = False

    def new_transaction(self) -> Iterator[tuple[bytes, int]]:
        """The records of the next transaction."""
        self._transactions += 1
        self._values, self._is_committing = [], False
        for _ in range(TXN_SIZE):
            value, partition = self.next_one()
            self._values.append(value)
            yield value, partition

    def is_to_commit(self) -> bool:
        """Whether this transaction is to be committed."""
        self._is_committing = self._transactions % ABORTED_EACH != 0
        if not self._is_committing:
            self.aborted.update(self._values)
        return self._is_committing

    def committed(self) -> None:
        self.acked.extend(self._values)

    def broken(self) -> None:
        """The transaction failed: its outcome depends on the step."""
        if self._is_committing:
            self.unknown.append(self._values)
        else:
            self.aborted.update(self._values)

    def play(self, producer: Any, end: Callable[[Callable[..., Any]], None]) -> None:
        """One transaction of a blocking producer; `end` performs the commit or the abort."""
        producer.begin_transaction()
        for value, partition in self.new_transaction():
            self.send(producer, value, partition)
            self.stopping.wait(PAUSE_S)
        if self.is_to_commit():
            end(producer.commit_transaction)
            self.committed()
        else:
            end(producer.abort_transaction)

    def send(self, producer: Any, value: bytes, partition: int) -> None:
        """Send a record with the client's own call."""
        producer.send(self.topic, value, partition=partition)

    def another_life(self) -> None:
        self.deaths += 1
        assert self.deaths < LIVES, "no producer makes progress"


class LibrdkafkaTransactions(Transactional):
    """Transactions of confluent-kafka."""

    def work(self) -> None:
        producer = self._begin()
        while not self.stopping.is_set():
            try:
                self.play(producer, _until_done)
            except KafkaException as error:
                is_fatal = not error.args[0].txn_requires_abort()
                if is_fatal or not _is_aborted(producer):
                    self.broken()
                    producer = self._begin()
                else:
                    self.aborted.update(self._values)

    def send(self, producer: Producer, value: bytes, partition: int) -> None:
        producer.produce(self.topic, value, partition=partition)
        producer.poll(0)

    def _begin(self) -> Producer:
        self.another_life()
        options = {**Librdkafka.options, "transactional.id": self.name, "transaction.timeout.ms": 20_000}
        options["message.timeout.ms"] = 15_000
        producer = Producer({"bootstrap.servers": self.bootstrap, **options}, logger=silent())
        _until_done(producer.init_transactions)
        return producer


def _is_aborted(producer: Producer) -> bool:
    try:
        _until_done(producer.abort_transaction)
    except KafkaException:
        return False
    return True


def _until_done(action: Callable[[float], None]) -> None:
    """Retry retriable errors."""
    ends_at = time.monotonic() + END_S
    while True:
        try:
            action(END_S)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > ends_at:
                raise
        else:
            return


def in_time(action: Callable[[], None], patience_s: float = 15.0) -> None:
    """Run `action` on a thread. Errors: its own, or TimeoutError, which leaves the thread running."""
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            outcome.set_result(action())
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    outcome.result(patience_s)


class KafkaPythonTransactions(Transactional):
    """Transactions of kafka-python: after any error a new producer replaces the old one. Version 3.0 loses
    the end of a transaction whose coordinator is down at that moment, and waits for ever."""

    def work(self) -> None:
        producer = self._begin()
        while not self.stopping.is_set():
            try:
                self.play(producer, in_time)
            except Exception:  # noqa: BLE001 - as above
                self.broken()
                self._end(producer)
                producer = self._begin()
        producer.close(timeout=END_S)

    def _begin(self) -> Any:
        while True:
            self.another_life()
            producer = KafkaProducer(
                bootstrap_servers=self.bootstrap.split(","),
                transactional_id=self.name,
                transaction_timeout_ms=20_000,
                retry_backoff_ms=RETRY_MS,
                request_timeout_ms=10_000,
                delivery_timeout_ms=20_000,
            )
            try:
                in_time(producer.init_transactions)
            except Exception:  # noqa: BLE001 - again with another
                self._end(producer)
            else:
                return producer

    @staticmethod
    def _end(producer: Any) -> None:
        with contextlib.suppress(Exception):  # it is of no use any more
            producer.close(timeout=1)


class AioKafkaTransactions(Transactional):
    """Transactions of aiokafka: as above."""

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        producer = await self._begin()
        while not self.stopping.is_set():
            try:
                await producer.begin_transaction()
                for value, partition in self.new_transaction():
                    await producer.send(self.topic, value, partition=partition)
                    await asyncio.sleep(PAUSE_S)
                if self.is_to_commit():
                    await producer.commit_transaction()
                    self.committed()
                else:
                    await producer.abort_transaction()
            except Exception:  # noqa: BLE001 - as above
                self.broken()
                await self._end(producer)
                producer = await self._begin()
        await producer.stop()

    @staticmethod
    async def _end(producer: AIOKafkaProducer) -> None:
        with contextlib.suppress(Exception):  # it is of no use any more
            async with asyncio.timeout(2):
                await producer.stop()

    async def _begin(self) -> AIOKafkaProducer:
        while True:
            self.another_life()
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                transactional_id=self.name,
                transaction_timeout_ms=20_000,
                retry_backoff_ms=RETRY_MS,
                request_timeout_ms=20_000,
                metadata_max_age_ms=1_000,
            )
            try:
                await producer.start()
            except Exception:  # noqa: BLE001 - again with another
                await self._end(producer)
            else:
                return producer


IDEMPOTENT = (Librdkafka, KafkaPython, AioKafka)
TRANSACTIONAL = (LibrdkafkaTransactions, KafkaPythonTransactions, AioKafkaTransactions)


class KafkaLoad:
    """Load on a topic that it creates. A context manager: faults inside, then `finish`."""

    def __init__(self, cluster: FaultCluster, *kinds: type[Sender], topic: str = "t", **configs: Any) -> None:
        self.cluster, self.topic = cluster, topic
        self._configs = {"min_insync_replicas": 2, **configs}
        self.senders = [kind(cluster.kafka_bootstrap, topic, kind.__name__) for kind in kinds]
        self.seen: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        self._is_over = threading.Event()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.cluster.create_topic(self.topic, PARTITIONS, **self._configs)
        self._reader.start()
        for sender in self.senders:
            sender.start()
        self.more(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in (*self.senders, self._reader):
            if isinstance(thread, Sender):
                thread.stopping.set()
            thread.join(END_S)
        gc.collect()  # closes the sockets that kafka-python leaks

    def more(self, count: int = 50) -> None:
        """Wait until every sender has this many more acknowledged records."""
        goals = {sender: len(sender.acked) + count for sender in self.senders}

        def is_so() -> bool:
            for sender in self.senders:
                assert sender.failure is None, self.progress()
            return all(len(sender.acked) >= goal for sender, goal in goals.items())

        wait_for(is_so, f"{count} more records of each", PATIENCE_S, self.progress)

    def progress(self) -> str:
        """The counts of each sender, and the evidence of the cluster."""
        lines = [
            f"{each.name}: {len(each.acked)} acknowledged, {len(each.aborted)} aborted, {len(each.unknown)}"
            f" unknown, {each.deaths} lives, {each.failure!r}"
            for each in self.senders
        ]
        return "\n".join([*lines, f"reader: {self._failure!r}", self.cluster.evidence()])

    def finish(self) -> None:
        """Stop all senders, and check the laws."""
        for sender in self.senders:
            sender.stopping.set()
        for sender in self.senders:
            sender.join(2 * END_S)
            assert not sender.is_alive(), self.progress()
            assert sender.failure is None, self.progress()
        found = read_all(self.cluster.kafka_bootstrap, self.topic)
        judge(self.senders, found)
        wait_for(
            lambda: sum(map(len, self.seen.values())) >= sum(map(len, found.values())),
            "the reader has everything",
            evidence=self.progress,
        )
        self._is_over.set()
        self._reader.join(END_S)
        assert self._failure is None, self._failure
        assert dict(self.seen) == found, "the consumer's reads equal the topic"

    def _follow(self) -> None:
        try:
            consumer = new_reader(self.cluster.kafka_bootstrap)
            consumer.assign([TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
            while not self._is_over.is_set():
                for message in consumer.consume(500, 0.1):
                    if message.error() is None:
                        self.seen[message.partition()].append((message.offset(), message.value()))
                    else:
                        assert message.error().retriable() or message.error().code() < 0, message.error()
            consumer.close()
        except BaseException as error:  # noqa: BLE001 - reported at the end
            self._failure = error


def new_reader(bootstrap: str, **more: Any) -> Consumer:
    """A read_committed consumer with manual assignment; a reset of its position is an error."""
    options = {
        "bootstrap.servers": bootstrap,
        "group.id": "none",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": False,
        "reconnect.backoff.max.ms": 500,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return Consumer(options, logger=silent())


def read_all(bootstrap: str, topic: str, **more: Any) -> dict[int, list[tuple[int, bytes]]]:
    """Offset and value of all committed records by partition, up to the present end offsets."""
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    reader = new_reader(bootstrap, enable_partition_eof=True, **more)
    try:
        places = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
        ends = {place.partition: reader.get_watermark_offsets(place, END_S)[1] for place in places}
        reader.assign(places)
        deadline_s = time.monotonic() + END_S
        left = set(ends)
        while left:
            assert time.monotonic() < deadline_s, f"the reader stalls at {reader.position(places)} of {ends}"
            for message in reader.consume(1_000, 0.2):
                error, partition = message.error(), message.partition()
                if error is None:
                    found[partition].append((message.offset(), message.value()))
                # the last offset may be a marker, which is not delivered; a log may grow meanwhile
                is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
                if message.offset() + (not is_end) >= ends[partition] and (is_end or error is None):
                    left.discard(partition)
    finally:
        reader.close()
    return dict(found)


def judge(senders: Iterable[Sender], found: dict[int, list[tuple[int, bytes]]]) -> None:
    """Fails with records that are missing, duplicate, out of order, or aborted."""
    complaints = []
    by_sender: dict[bytes, list[tuple[int, list[int]]]] = defaultdict(list)
    values: list[bytes] = []
    for partition, records in found.items():
        numbers: dict[bytes, list[int]] = defaultdict(list)
        for _, value in records:
            name, _, number = value.partition(b" ")
            numbers[name].append(int(number))
            values.append(value)
        for name, ordered in numbers.items():
            by_sender[name].append((partition, ordered))
    there = set(values)
    for sender in senders:
        for partition, ordered in by_sender[sender.name.encode()]:
            if any(second <= first for first, second in pairwise(ordered)):
                complaints.append(f"{sender.name}: partition {partition} is out of order or has some twice")
        missing = [value for value in sender.acked if value not in there]
        if missing:
            complaints.append(f"{sender.name}: {len(missing)} are missing: {missing[:5]}")
        shown = sender.aborted & there
        if shown:
            complaints.append(f"{sender.name}: {len(shown)} were aborted: {sorted(shown)[:5]}")
        halves = [each for each in sender.unknown if len({value in there for value in each}) > 1]
        if halves:
            complaints.append(f"{sender.name}: transactions are there in part: {halves[:3]}")
    assert len(values) == len(there), "some records are there twice"
    assert not complaints, "\n".join(complaints)
