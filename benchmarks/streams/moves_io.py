"""The group `moves`: two instances of an application with warm standbys; one is closed, or killed.

A producer writes to all partitions all the time. Each record gives one record of output, which names the
instance, and gets its timestamp from the broker as it is appended.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.benchmarks.harness import ChildError
from headrace.runtime.waiting_io import let_pass, until

from .cells import HEADRACE
from .inputs_io import LONG
from .operations import CLOSED, LONGEST, MOVED, MOVES, PAUSE, ROUND_S, TASKS, Output, pauses
from .scale_runs_io import tasks_of
from .servers_io import SMALL_JVM, START_TIMEOUT_S, expect, send, stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.benchmarks.servers.children_io import Child

    from .cells import Sizes
    from .servers_io import Servers

STAYS, GOES = "stays", "goes"
KEYS = 1000  # of each partition
SETTLE_S, QUICK_SETTLE_S = 8.0, 4.0  # standbys catch up, and offsets are committed
MOVE_TIMEOUT_S = 120.0
BOTH = f"{TASKS // 2} {TASKS // 2}"
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


class MoveRuns:
    """Runs the cells of MOVES."""

    def __init__(self, servers: Servers, sizes: Sizes) -> None:
        self._servers = servers
        self.settle_s = QUICK_SETTLE_S if sizes.is_quick else SETTLE_S

    def run(self, cell: str) -> dict[str, Any]:
        """The median and the longest pause of the tasks that have moved."""
        system, how = MOVES[cell]
        servers = self._servers
        broker = servers.broker(system)
        order = servers.order(system, "moves", "", standbys="1")
        order["input"] = order["output"].replace("out", "in")
        order["config.statestore.cache.max.bytes"] = "0"
        order["commit"] = "30000"  # the default
        if system != HEADRACE:
            order["config.group.protocol"] = "streams"
        broker.create_topic(order["input"], TASKS)
        broker.create_topic(order["output"], 1, configs=APPEND_TIME)
        try:
            return self._moved(system, how, order)
        finally:
            for topic in (order["input"], order["output"]):
                broker.delete_topic(topic)
            for name in (STAYS, GOES):
                shutil.rmtree(f"{order['state']}-{name}", ignore_errors=True)

    def _moved(self, system: str, how: str, order: dict[str, str]) -> dict[str, Any]:
        begin_s = time.monotonic()
        with contextlib.ExitStack() as running:
            stays, goes = (
                running.enter_context(self._servers.application(system, jvm=SMALL_JVM)) for _ in range(2)
            )
            for name, child in ((STAYS, stays), (GOES, goes)):
                send(child, {**order, "instance": name, "state": f"{order['state']}-{name}"})
            for child in (stays, goes):
                expect(child, "running", START_TIMEOUT_S)
            observer = running.enter_context(observed(system, order))
            running.enter_context(feeding(system, order))
            if not until(lambda: tasks_of(stays) == tasks_of(goes) == BOTH, START_TIMEOUT_S, 0.2):
                raise ChildError(f"tasks are {tasks_of(stays)} and {tasks_of(goes)}, not {BOTH}")
            if not until(lambda: observer.writers() == TASKS, START_TIMEOUT_S, 0.1):
                raise ChildError(f"{observer.writers()} of {TASKS} tasks write")
            let_pass(self.settle_s)
            self._end(goes, how)
            if not until(observer.is_over, MOVE_TIMEOUT_S, 0.1):
                raise ChildError(f"tasks are silent {MOVE_TIMEOUT_S:.0f} s after an instance was {how}")
            found = pauses(observer.outputs, GOES, STAYS)
            stop(stays)
        return {
            PAUSE: max(statistics.median(found.values()), 1.0),
            LONGEST: max(*found.values(), 1.0),
            MOVED: len(found),
            "run_s": time.monotonic() - begin_s,
        }

    @staticmethod
    def _end(child: Child, how: str) -> None:
        if how == CLOSED:
            stop(child)
        else:
            child.process.kill()
            child.process.wait()

    def close(self) -> None:
        """Nothing is shared."""


class Observer:
    """The records of the output, in the order of their appends."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self._last: dict[int, str] = {}

    def add(self, key: bytes, value: bytes, at_ms: int) -> None:
        """A record; its key begins with the partition of the input."""
        found = Output(int(key[:2]), value.decode(), at_ms)
        self.outputs.append(found)
        self._last[found.partition] = found.instance

    def writers(self) -> int:
        """How many tasks have written."""
        return len(self._last)

    def is_over(self) -> bool:
        """Whether no task was last written by the instance that is gone."""
        return GOES not in list(self._last.values())


@contextlib.contextmanager
def _in_thread(work: Callable[[threading.Event], None]) -> Iterator[None]:
    ends = threading.Event()
    thread = threading.Thread(target=work, args=(ends,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join(START_TIMEOUT_S)


@contextlib.contextmanager
def observed(system: str, order: dict[str, str]) -> Iterator[Observer]:
    """Reads the output beside the applications."""
    observer = Observer()
    read = _read_headrace if system == HEADRACE else _read_kafka
    with _in_thread(partial(read, order, observer)):
        yield observer


@contextlib.contextmanager
def feeding(system: str, order: dict[str, str]) -> Iterator[None]:
    """Writes one record to each partition every ROUND_S."""
    feed = _feed_headrace if system == HEADRACE else _feed_kafka
    with _in_thread(partial(feed, order)):
        yield


def _rounds(ends: threading.Event) -> Iterator[tuple[int, bytes, bytes]]:
    """(partition, key, value)."""
    due_s, number = time.monotonic(), 0
    while not ends.wait(max(due_s - time.monotonic(), 0)):
        due_s, number = due_s + ROUND_S, number + 1
        for partition in range(TASKS):
            yield partition, b"%02d-%06d" % (partition, number % KEYS), LONG.pack(number)


def _feed_kafka(order: dict[str, str], ends: threading.Event) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": order["bootstrap"], "linger.ms": 5})
    for partition, key, value in _rounds(ends):
        producer.produce(order["input"], value, key, partition)
        producer.poll(0)
    producer.flush(START_TIMEOUT_S)


def _feed_headrace(order: dict[str, str], ends: threading.Event) -> None:
    import headrace

    with headrace.Producer(bootstrap=order["bootstrap"], config={"linger.ms": 5}) as producer:
        for partition, key, value in _rounds(ends):
            producer.send(order["input"], value, key=key, partition=partition)


def _read_kafka(order: dict[str, str], observer: Observer, ends: threading.Event) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": order["bootstrap"], "group.id": "observer",
                         "enable.auto.commit": False})  # fmt: skip
    consumer.assign([TopicPartition(order["output"], 0, 0)])
    while not ends.is_set():
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                observer.add(message.key(), message.value(), message.timestamp()[1])
    consumer.close()


def _read_headrace(order: dict[str, str], observer: Observer, ends: threading.Event) -> None:
    import headrace

    settings = {"auto.offset.reset": "earliest"}
    with headrace.Consumer(bootstrap=order["bootstrap"], config=settings) as consumer:
        consumer.assign(headrace.TopicPartition(order["output"], 0))
        while not ends.is_set():
            for record in consumer.poll(0.1):
                observer.add(record.key, record.value, record.timestamp)
