"""An open loop while a server is killed: which records were acknowledged, when, and whether they are stored.

The process prints "ready" before the load, and again once all records are acknowledged or failed; after the
second "go", when the killed server has been restarted, it reads everything back.
"""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import due_ranges, now_ns, reduce_timer_slack

from .. import payload
from ..cells.outage import check, longest_gaps
from . import clients, latency
from .consume import TIMEOUT_S, verifier

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ..worker import Clock

STAMP = 8
FLUSH_S = 60
Answered = Any  # callback(error or None)


def failover(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Send `rate` records/s to all partitions in turn, for `warm_s` + `after_s` seconds.

    `gaps` in the report: the longest times between acknowledgements of each partition.
    """
    reduce_timer_slack()
    post, flush, serving = _poster(spec)
    filler = payload.pool(spec["size"])[0][STAMP:]
    partitions, rate = spec["partition_count"], spec["rate"]
    count = int(rate * (spec["warm_s"] + spec["after_s"]))
    acked: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]  # (time, record number) by partition
    failed: list[str] = []

    def answered(partition: int, number: int, error: Any) -> None:
        if error is None:
            acked[partition].append((now_ns(), number))
        else:
            failed.append(str(error))

    def one(number: int) -> None:
        partition = number % partitions
        post(number.to_bytes(STAMP, "little") + filler, partition, partial(answered, partition, number))

    with serving():
        for number in range(count, count + 10 * partitions):  # connections, look-ups
            one(number)
        flush()
        for each in acked:
            each.clear()
        clock.ready()
        clock.start()
        schedule = Schedule(rate, now_ns() + 50_000_000)
        for first, end in due_ranges(schedule, count):
            for number in range(first, end):
                one(number)
        flush()
        found = clock.stop()
    clock.ready()  # meanwhile the harness restarts the killed server
    numbers = [number for each in acked for _, number in each]
    checked = check(numbers, _read_all(spec))
    gaps = [longest_gaps([when for when, _ in each]) for each in acked]
    return {**found, "records": count, "bytes": count * spec["size"], "acked": len(numbers),
            "failed": len(failed), "failures": sorted(set(failed))[:3],
            "gaps": gaps, "lost": checked.lost, "doubled": checked.doubled, "read": checked.read}  # fmt: skip


def _read_all(spec: dict[str, Any]) -> list[int]:
    take, ends = verifier({**spec, "partitions": list(range(spec["partition_count"]))})
    found: list[int] = []
    idle_since = time.monotonic()
    while len(found) < sum(ends) and time.monotonic() - idle_since < TIMEOUT_S:
        values = take()
        if values:
            idle_since = time.monotonic()
            found.extend(int.from_bytes(value[:STAMP], "little") for value in values)
    return found


def _poster(
    spec: dict[str, Any],
) -> tuple[
    Callable[[bytes, int, Answered], None], Callable[[], object], Callable[[], AbstractContextManager[None]]
]:
    """(send a value to a partition with a callback, wait for all, a context in which callbacks run)."""
    topic = spec["topic"]
    if spec["system"] == "kafka":
        producer = clients.kafka_producer(spec)

        def post(value: bytes, partition: int, answered: Answered) -> None:
            producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: answered(error))

        return post, partial(producer.flush, FLUSH_S), partial(latency.served, producer, threading.Event())
    ours = clients.headrace_producer(spec)

    def post_ours(value: bytes, partition: int, answered: Answered) -> None:
        future = ours.send(topic, value, partition=partition)
        future.add_done_callback(lambda done: answered(done.exception()))

    return post_ours, partial(ours.flush, FLUSH_S), contextlib.nullcontext
