"""Commits of offsets by members of a group, waiting for each one or with some under way."""

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
    """Commit 1, 2, ... of the topic's one partition for `seconds`, with `window` under way (1: each waits).

    `commits`: how many were confirmed, all of them; `committed`: what the group has at the end, which is as
    many and those of the warm-up.
    """
    member: Any = (KafkaMember if spec["system"] == "kafka" else HeadraceMember)(spec)
    commit = member.commit if spec["window"] == 1 else member.commit_async
    number = 0
    for number in range(1, WARM_COMMITS + 1):
        commit(number)
    member.settle()
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
    member.settle()
    found = clock.stop()
    if member.confirmed != number:
        raise RuntimeError(f"{member.confirmed} of {number} commits were confirmed")
    report = {**found, "commits": spans.count, "committed": member.committed(), "expected": number}
    member.close()
    return report | ({"ack": summary(spans)} if spec["window"] == 1 else {})


class KafkaMember:
    """confluent-kafka's consumer, alone in its group."""

    def __init__(self, spec: dict[str, Any]) -> None:
        from confluent_kafka import TopicPartition

        self._make, self._topic, self._window = TopicPartition, spec["topic"], spec["window"]
        self._under_way = self.confirmed = 0
        self._consumer = clients.kafka_member(spec, on_commit=self._told)
        self._consumer.subscribe([self._topic])
        ends_at = time.monotonic() + JOIN_TIMEOUT_S
        while not self._consumer.assignment():
            if time.monotonic() > ends_at:
                raise TimeoutError("no partition was assigned")
            self._consumer.poll(0.1)

    def commit(self, offset: int) -> None:
        """And wait for it."""
        self._under_way += 1
        (found,) = self._consumer.commit(offsets=[self._make(self._topic, 0, offset)], asynchronous=False)
        self._told(found.error, [found])

    def commit_async(self, offset: int) -> None:
        """Wait while there are as many under way as may be."""
        self._consumer.commit(offsets=[self._make(self._topic, 0, offset)], asynchronous=True)
        self._under_way += 1
        self._consumer.poll(0)
        while self._under_way >= self._window:
            self._consumer.poll(0.01)

    def settle(self) -> None:
        """Until all are confirmed."""
        while self._under_way:
            self._consumer.poll(0.01)

    def committed(self) -> int:
        """As the group has it."""
        (found,) = self._consumer.committed([self._make(self._topic, 0)], timeout=30)
        return int(found.offset)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _told(self, error: Any, partitions: list[Any]) -> None:
        if error is not None or partitions[0].error is not None:
            raise RuntimeError(f"a commit failed: {error or partitions[0].error}")
        self._under_way -= 1
        self.confirmed += 1


class HeadraceMember:
    """headrace's consumer, alone in its group."""

    def __init__(self, spec: dict[str, Any]) -> None:
        from headrace import TopicPartition

        self._tp, self._window = TopicPartition(spec["topic"], 0), spec["window"]
        self._under_way: deque[Future[Any]] = deque()
        self.confirmed = 0
        self._consumer = clients.headrace_member(spec)
        self._consumer.subscribe([spec["topic"]])
        ends_at = time.monotonic() + JOIN_TIMEOUT_S
        while not self._consumer.assignment():
            if time.monotonic() > ends_at:
                raise TimeoutError("no partition was assigned")
            self._consumer.poll(0.1)

    def commit(self, offset: int) -> None:
        """And wait for it."""
        self._consumer.commit({self._tp: offset})
        self.confirmed += 1

    def commit_async(self, offset: int) -> None:
        """Wait while there are as many under way as may be."""
        self._under_way.append(self._consumer.commit_async({self._tp: offset}))
        while len(self._under_way) >= self._window:
            self._confirm()

    def settle(self) -> None:
        """Until all are confirmed."""
        while self._under_way:
            self._confirm()

    def committed(self) -> int:
        """As the group has it."""
        found = self._consumer.committed(self._tp)[self._tp]
        return int(found.offset)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _confirm(self) -> None:
        self._under_way.popleft().result(30)
        self.confirmed += 1
