"""Offset commits by a member of a group, sequential or with some in flight."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from headrace.services.bench.histogram import Histogram

from . import clients
from .latency import summary

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..worker import Clock

WARM_COMMITS = 200
JOIN_TIMEOUT_S = 30.0


def commits(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Commit offsets 1, 2, ... of the topic's only partition for `seconds`, with `window` in flight.

    `commits`: the number of confirmed commits; `committed`: the group's offset at the end; `expected`: the
    last offset that was committed.
    """
    member: Any = (KafkaMember if spec["system"] == "kafka" else HeadraceMember)(spec)
    commit = member.commit if spec["window"] == 1 else member.commit_async
    number = 0
    for number in range(1, WARM_COMMITS + 1):
        commit(number)
    member.flush()
    clock.ready()
    spans = Histogram()
    clock.start()
    at_ns = time.perf_counter_ns()
    ends_ns = at_ns + int(spec["seconds"] * 1e9)
    while at_ns < ends_ns:
        number += 1
        commit(number)
        before_ns, at_ns = at_ns, time.perf_counter_ns()
        spans.record(at_ns - before_ns)
    member.flush()
    found = clock.stop()
    if member.confirmed != number:
        raise RuntimeError(f"{member.confirmed} of {number} commits were confirmed")
    report = {**found, "commits": spans.count, "committed": member.committed(), "expected": number}
    member.close()
    return report | ({"ack": summary(spans)} if spec["window"] == 1 else {})


class _Member:
    """A consumer, alone in its group, that commits offsets of partition 0."""

    def __init__(self, spec: dict[str, Any], consumer: Any) -> None:
        self.consumer, self.window, self.confirmed = consumer, spec["window"], 0
        self.close = consumer.close
        consumer.subscribe([spec["topic"]])
        deadline = time.monotonic() + JOIN_TIMEOUT_S
        while not consumer.assignment():
            if time.monotonic() > deadline:
                raise TimeoutError("no partition was assigned")
            consumer.poll(0.1)


class KafkaMember(_Member):
    """A member through confluent_kafka.Consumer."""

    def __init__(self, spec: dict[str, Any]) -> None:
        from confluent_kafka import TopicPartition

        self._new, self._topic, self._in_flight = TopicPartition, spec["topic"], 0
        super().__init__(spec, clients.kafka_member(spec, on_commit=self._committed))

    def commit(self, offset: int) -> None:
        """Wait for its confirmation."""
        self._in_flight += 1
        (found,) = self.consumer.commit(offsets=[self._new(self._topic, 0, offset)], asynchronous=False)
        self._committed(found.error, [found])

    def commit_async(self, offset: int) -> None:
        """Wait while `window` commits are in flight."""
        self.consumer.commit(offsets=[self._new(self._topic, 0, offset)], asynchronous=True)
        self._in_flight += 1
        self.consumer.poll(0)
        while self._in_flight >= self.window:
            self.consumer.poll(0.01)

    def flush(self) -> None:
        """Wait until all commits are confirmed."""
        while self._in_flight:
            self.consumer.poll(0.01)

    def committed(self) -> int:
        """The group's offset."""
        (found,) = self.consumer.committed([self._new(self._topic, 0)], timeout=30)
        return int(found.offset)

    def _committed(self, error: Any, partitions: list[Any]) -> None:
        if error is not None or partitions[0].error is not None:
            raise RuntimeError(f"a commit failed: {error or partitions[0].error}")
        self._in_flight -= 1
        self.confirmed += 1


class HeadraceMember(_Member):
    """A member through headrace.Consumer."""

    def __init__(self, spec: dict[str, Any]) -> None:
        from headrace import TopicPartition

        self._tp = TopicPartition(spec["topic"], 0)
        self._in_flight: deque[Future[Any]] = deque()
        super().__init__(spec, clients.headrace_member(spec))

    def commit(self, offset: int) -> None:
        """Wait for its confirmation."""
        self.consumer.commit({self._tp: offset})
        self.confirmed += 1

    def commit_async(self, offset: int) -> None:
        """Wait while `window` commits are in flight."""
        self._in_flight.append(self.consumer.commit_async({self._tp: offset}))
        while len(self._in_flight) >= self.window:
            self._confirm()

    def flush(self) -> None:
        """Wait until all commits are confirmed."""
        while self._in_flight:
            self._confirm()

    def committed(self) -> int:
        """The group's offset."""
        return int(self.consumer.committed(self._tp)[self._tp].offset)

    def _confirm(self) -> None:
        self._in_flight.popleft().result(30)
        self.confirmed += 1
