"""An open loop while a server is killed: which records were acknowledged, when, and whether they are there.

The process talks twice with the harness: "ready" before the load, and again once all is answered; it reads
everything back after the second "go", when the killed server is there again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import due_ranges, now_ns, sharpen_timer

from .. import payload
from ..cells.outage import check, longest_gaps
from . import clients, latency
from .consume import PATIENCE_S, verifier

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ..worker import Clock

STAMP = 8
FLUSH_S = 60
Answer = Any  # callback(is_acknowledged)


def failover(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Send `rate` records a second, in turn to every partition, for `warm_s` + `after_s` seconds.

    The report: `gaps_ms`, the longest time without an acknowledgement of each partition; what was lost.
    """
    sharpen_timer()
    post, flush, serving = _poster(spec)
    filler = payload.pool(spec["size"])[0][STAMP:]
    partitions, rate = spec["partition_count"], spec["rate"]
    count = int(rate * (spec["warm_s"] + spec["after_s"]))
    acked: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]  # (when, record) of each partition
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
    clock.ready()  # the harness brings the killed server back meanwhile
    numbers = [number for each in acked for _, number in each]
    checked = check(numbers, _read_all(spec))
    gaps = [longest_gaps([when for when, _ in each]) for each in acked]
    return {**found, "records": count, "bytes": count * spec["size"], "acked": len(numbers),
            "failed": len(failed), "failures": sorted(set(failed))[:3],
            "gaps": gaps, "lost": checked.lost, "doubled": checked.doubled, "read": checked.read}  # fmt: skip


def _read_all(spec: dict[str, Any]) -> list[int]:
    take, ends = verifier({**spec, "partitions": list(range(spec["partition_count"]))})
    found: list[int] = []
    quiet_since = time.monotonic()
    while len(found) < sum(ends) and time.monotonic() - quiet_since < PATIENCE_S:
        values = take()
        if values:
            quiet_since = time.monotonic()
            found.extend(int.from_bytes(value[:STAMP], "little") for value in values)
    return found


def _poster(
    spec: dict[str, Any],
) -> tuple[
    Callable[[bytes, int, Answer], None], Callable[[], object], Callable[[], AbstractContextManager[None]]
]:
    """(post a value to a partition with a callback of its error, wait for all, the callbacks' context)."""
    topic = spec["topic"]
    if spec["system"] == "kafka":
        producer = clients.kafka_producer(spec)

        def post(value: bytes, partition: int, answered: Answer) -> None:
            producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: answered(error))

        return post, partial(producer.flush, FLUSH_S), partial(latency.served, producer, threading.Event())
    ours = clients.headrace_producer(spec)

    def post_ours(value: bytes, partition: int, answered: Answer) -> None:
        future = ours.send(topic, value, partition=partition)
        future.add_done_callback(lambda done: answered(done.exception()))

    return post_ours, partial(ours.flush, FLUSH_S), contextlib.nullcontext
