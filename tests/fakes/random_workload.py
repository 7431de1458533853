"""A workload of synchronous and asynchronous clients with random settings on a local cluster, while servers
are killed and topics change.

All random choices come from one seed; the interleaving of the threads is not controlled.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

import headrace
from fault_workload import Workload, note
from headrace import NewTopic, TopicPartition, errors
from waiting import PATIENCE_S

STEADY, VOLATILE = "steady", "volatile"
PARTITIONS = 4  # initial partitions of the steady topic
NOT_WRITTEN = (
    errors.MessageTooLargeError,
    errors.BufferExhaustedError,
    errors.UnknownTopicOrPartitionError,
    errors.ApiTimeoutError,
)
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


class LocalCluster:
    """A local cluster for a workload; its evidence is the list of faults."""

    def __init__(self, cluster: Any, clients: Any) -> None:
        self.local, self.clients, self.bootstrap = cluster, clients, cluster.bootstrap
        self.faults: list[str] = []

    def evidence(self) -> str:
        """The faults so far."""
        return f"faults: {self.faults}"


class RandomWorkload(Workload):
    """Producers and consumers of STEADY, and one thread with clients of VOLATILE, which is recreated."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        super().__init__(cluster, STEADY)
        self._local, self._faults = cluster.local, cluster.faults
        self._random = Random(seed)
        self._partitions = PARTITIONS

    def start(self, warm_up: int = 0) -> RandomWorkload:
        """Create the topics and start all clients."""
        clients, bootstrap = self._cluster.clients, self._cluster.bootstrap
        topics = [NewTopic(STEADY, partitions=self._partitions), NewTopic(VOLATILE)]
        clients.admin().create_topics(*topics).raise_for_errors()
        self._senders = [self._seeded(self._send_sync, clients, number) for number in range(3)]
        self._senders += [self._seeded(self._send_async, bootstrap, number) for number in range(2)]
        self._readers = [
            self._seeded(self._read_polling, clients),
            self._seeded(self._read_iterating, clients),
            self._seeded(self._read_async, bootstrap),
            self._seeded(self._on_the_volatile, clients),
        ]
        return self

    def make_trouble(self, fault_s: float) -> None:
        """Inject faults one after the other for this time."""
        random, ends_at = self._random, time.monotonic() + fault_s
        kinds = [self._kill, self._kill_for_long, self._restart, self._controller, self._grow, self._recreate]
        try:
            while time.monotonic() < ends_at:
                threading.Event().wait(random.uniform(0.1, 0.8))
                kind = random.choice(kinds)
                self._faults.append(kind.__name__)
                kind()
        except BaseException:
            self._stop_sending.set()
            self._stop_reading.set()  # stops the clients
            raise

    def _seeded(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        return self._thread(work, Random(self._random.random()), *arguments)

    # --- faults -------------------------------------------------------------------------------------------

    def _kill(self) -> None:
        index = self._random.randrange(3)
        self._local.kill_node(index)
        self._local.restart_node(index)

    def _kill_for_long(self) -> None:
        """Kill a node until it is fenced; sometimes the controller restarts meanwhile."""
        index = self._random.randrange(3)
        self._local.kill_node(index)
        threading.Event().wait(self._random.uniform(0.5, 2.0))
        if self._random.random() < 0.3:
            self._local.restart_controller()
        self._local.restart_node(index)

    def _restart(self) -> None:
        self._local.restart_node(self._random.randrange(3))

    def _controller(self) -> None:
        self._local.restart_controller()

    def _grow(self) -> None:
        if self._partitions < 7:
            self._partitions += 1
            with self._cluster.clients.admin() as admin:
                admin.create_partitions({STEADY: self._partitions}).raise_for_errors()

    def _recreate(self) -> None:
        with self._cluster.clients.admin() as admin:
            admin.delete_topics(VOLATILE).raise_for_errors()
            admin.create_topics(NewTopic(VOLATILE)).raise_for_errors()

    # --- producers ----------------------------------------------------------------------------------------

    def _config(self, random: Random, number: int) -> tuple[dict[str, Any], bool]:
        """(settings of a producer, whether its retries may write a record twice)."""
        acks = ("all", "1", "0", "all", "1")[number % 5]
        retries = 0 if number == 1 else 2**31 - 1
        config = {
            "acks": acks,
            "retries": retries,
            "compression_type": random.choice(COMPRESSIONS),
            "linger_ms": random.choice([0, 1, 20]),
            "batch_size": random.choice([200, 2000, 65_536]),
            "request_timeout_ms": 5000,
            "buffer_memory": random.choice([10_000, 1 << 25]),
        }
        return config, acks == "1" and bool(retries)  # with acks=all it is idempotent

    def _send_sync(self, random: Random, clients: Any, number: int) -> None:
        """Send from two threads with one producer; each thread is a process in the history."""
        config, may_repeat = self._config(random, number)
        producer = clients.producer(**config)
        halves = [
            self._seeded(self._send_half, producer, f"sync-{number}-{half}", may_repeat) for half in (0, 1)
        ]
        self._join(halves, f"half of producer {number}")
        producer.flush(PATIENCE_S)
        self._check_account(f"sync-{number}", producer.metrics())
        producer.close()

    def _send_half(self, random: Random, producer: Any, name: str, may_repeat: bool) -> None:
        process, pending = self.history.process(name), []
        number = 0
        while not self._stop_sending.is_set():
            for _ in range(random.randrange(1, 40)):
                value, partition = b"%s/%d" % (name.encode(), number), random.choice([None, 0, 1, 2, 3])
                number += 1
                try:
                    future = producer.send(STEADY, **_record(random, value), partition=partition)
                except NOT_WRITTEN:
                    continue
                key = f"{STEADY}-{future.delivery.partition}"
                pending.append((process.send(key, value, may_repeat=may_repeat), future))
            threading.Event().wait(random.choice([0, 0.001, 0.02]))
        for send, future in pending:
            metadata, error = future.outcome(PATIENCE_S)
            _settle(send, metadata.offset, error)

    def _send_async(self, random: Random, bootstrap: str, number: int) -> None:
        asyncio.run(self._send_on_loop(random, bootstrap, number))

    async def _send_on_loop(self, random: Random, bootstrap: str, number: int) -> None:
        name = f"async-{number}"
        process, pending = self.history.process(name), []
        config, may_repeat = self._config(random, number + 3)
        async with headrace.aio.AsyncProducer(bootstrap, **config) as producer:
            sequence = 0
            while not self._stop_sending.is_set():
                for _ in range(random.randrange(1, 40)):
                    value, partition = b"%s/%d" % (name.encode(), sequence), random.randrange(PARTITIONS)
                    sequence += 1
                    send = process.send(f"{STEADY}-{partition}", value, may_repeat=may_repeat)
                    try:
                        future = producer.send(STEADY, **_record(random, value), partition=partition)
                    except errors.BufferExhaustedError:
                        send.fail()
                    else:
                        pending.append((send, future))
                await producer.drain()
                await asyncio.sleep(random.choice([0, 0.001, 0.02]))
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(future for _, future in pending), return_exceptions=True)
            for send, future in pending:
                error = future.exception()
                _settle(send, -1 if error is not None else future.result().offset, error)
            self._check_account(name, producer.metrics())

    def _check_account(self, name: str, metrics: dict[str, float]) -> None:
        if metrics["buffer-available-bytes"] != metrics["buffer-total-bytes"]:
            self.complaints.append(f"{name} leaks buffer: {metrics}")
        if metrics["batches-pending"] or metrics["waiting-threads"]:
            self.complaints.append(f"{name} left something behind: {metrics}")

    # --- consumers ----------------------------------------------------------------------------------------

    def _read_polling(self, random: Random, clients: Any) -> None:
        process = self.history.process("polling")
        config = {"max_partition_fetch_bytes": 2000, "fetch_max_bytes": 10_000}
        with clients.consumer(STEADY, auto_offset_reset="earliest", **config) as consumer:
            ends_at = 0.0
            while not self._has_read_all(consumer):
                ends_at = self._deadline(ends_at)
                note(process, consumer.poll(0.1, random.choice([1, 7, 500])))
                assigned = consumer.assignment()
                tp, dice = random.choice(assigned), random.random()
                if dice < 0.02 and not self._stop_reading.is_set():
                    consumer.seek(tp, random.randrange(1 + (consumer.position(tp) or 0)))
                    process.move(_key(tp))
                elif dice < 0.05:
                    consumer.pause(*random.sample(assigned, 2))
                elif dice < 0.15 or self._stop_reading.is_set():
                    consumer.resume()

    def _read_iterating(self, random: Random, clients: Any) -> None:
        process = self.history.process("iterating")
        with clients.consumer(STEADY, auto_offset_reset="earliest", iter_timeout=0.2) as consumer:
            ends_at = 0.0
            while not self._has_read_all(consumer):
                ends_at = self._deadline(ends_at)
                for record in consumer:
                    note(process, [record])
                    if random.random() < 0.0003 and not self._stop_reading.is_set():
                        tp = TopicPartition(record.topic, record.partition)
                        consumer.seek_to_beginning(tp)
                        process.move(_key(tp))
                    elif random.random() < 0.0005:
                        break

    def _read_async(self, random: Random, bootstrap: str) -> None:
        asyncio.run(self._read_on_loop(random, bootstrap))

    async def _read_on_loop(self, random: Random, bootstrap: str) -> None:
        process = self.history.process("async-reader")
        async with headrace.aio.AsyncConsumer(bootstrap=bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign(TopicPartition(STEADY, partition) for partition in range(PARTITIONS))
            ends_at = 0.0
            while True:
                assigned = await consumer.assignment()
                positions = {tp: await consumer.position(tp, PATIENCE_S) for tp in assigned}
                if self._stop_reading.is_set() and all(positions[tp] >= self._ends[tp] for tp in assigned):
                    return
                ends_at = self._deadline(ends_at)
                for _ in range(random.randrange(1, 30)):
                    note(process, await consumer.poll(0.05, random.choice([1, 100, 5000])))
                tp = random.choice(assigned)
                if random.random() < 0.1 and not self._stop_reading.is_set():
                    await consumer.seek(tp, random.randrange(1 + positions[tp]))
                    process.move(_key(tp))

    def _on_the_volatile(self, random: Random, clients: Any) -> None:
        """Use a topic that is deleted and recreated: clients continue, and read only values that were
        sent."""
        sent, number = set(), 0
        producer = clients.producer(acks=1, delivery_timeout_ms=20_000, request_timeout_ms=5000)
        with clients.consumer(VOLATILE, auto_offset_reset="earliest") as consumer:
            while not self._stop_reading.is_set():
                value = b"v%d" % number
                sent.add(value)
                number += 1
                producer.send(VOLATILE, value)
                self._see(sent, consumer.poll(0.02))
            last = b"v-last"
            sent.add(last)
            producer.send(VOLATILE, last).result(PATIENCE_S)
            ends_at = 0.0
            while last not in self._see(sent, consumer.poll(0.2)):
                ends_at = self._deadline(ends_at)
        producer.close()

    def _see(self, sent: set[bytes], records: list[Any]) -> set[bytes]:
        seen = {record.value for record in records}
        self.complaints += [f"{value!r} was never sent" for value in seen - sent]
        return seen


def _record(random: Random, value: bytes) -> dict[str, Any]:
    return {
        "value": value + b" " * random.choice([0, 0, 0, 50, 700]),
        "key": None if random.random() < 0.5 else value,
        "headers": [("value", value)],
    }


def _key(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


def _settle(send: Any, offset: int, error: BaseException | None) -> None:
    if error is None:
        if offset >= 0:
            send.ok(offset)  # else acks=0: unknown outcome
    elif isinstance(error, NOT_WRITTEN):
        send.fail()
