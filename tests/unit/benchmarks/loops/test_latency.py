"""Producing while the client's queue is full: no record is lost, and the order stays."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from headrace.benchmarks.loops.clients import retry_when_full
from headrace.benchmarks.loops.latency import kafka_post, served


class SmallProducer:
    """Like confluent-kafka's: `produce` raises while two records are queued, `poll` delivers the oldest."""

    def __init__(self) -> None:
        self.queue: deque[tuple[bytes, Callable[[], None] | None]] = deque()
        self.delivered: list[bytes] = []
        self.was_full = 0
        self._has_some = threading.Condition()

    def produce(self, _topic: str, value: bytes, on_delivery: Any = None) -> None:
        with self._has_some:
            if len(self.queue) == 2:
                self.was_full += 1
                raise BufferError
            self.queue.append((value, on_delivery))
            self._has_some.notify()

    def poll(self, timeout_s: float) -> int:
        with self._has_some:
            if not self._has_some.wait_for(lambda: self.queue, timeout_s):
                return 0
            value, callback = self.queue.popleft()
            self.delivered.append(value)
        if callback is not None:
            callback()
        return 1


VALUES = [b"%d" % number for number in range(200)]


def test_open_loop_waits_for_room_in_the_queue() -> None:
    """The thread that runs the callbacks signals it."""
    producer, has_room, seen = SmallProducer(), threading.Event(), []
    post = kafka_post(producer.produce, "t", has_room)
    with served(producer, has_room):
        for number, value in enumerate(VALUES):
            post(value, (lambda number=number: seen.append(number)) if number % 2 else None)
    while producer.poll(0):
        pass
    assert producer.delivered == VALUES
    assert seen == list(range(1, 200, 2))
    assert producer.was_full


def test_plain_loop_polls_until_the_record_fits() -> None:
    """Its own thread runs the callbacks."""
    producer = SmallProducer()
    for value in VALUES:
        try:
            producer.produce("t", value)
        except BufferError:
            retry_when_full(lambda value=value: producer.produce("t", value), producer)
    assert producer.delivered + [value for value, _ in producer.queue] == VALUES
    assert producer.was_full
