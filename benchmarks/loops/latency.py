"""Latency: open loop at a fixed rate, a reader at the end, one record in flight, a small window.

Times are differences of the monotonic clock, which all processes of a machine share. In the open loop a
record's time starts when it was SCHEDULED to be sent: delays of the sender count (no coordinated omission).
"""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.services.bench.histogram import Histogram
from headrace.services.bench.pacing import Schedule
from headrace.services.bench.pacing_io import due_ranges, now_ns, reduce_timer_slack

from .. import payload
from . import clients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from ..worker import Clock

CURVE = (0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.99, 100.0)
STAMP = 8
MOST_ACKS_PER_S = 10_000  # acknowledgements that are timed; a callback per record would be most of the load
FLUSH_S = 60
WINDOW = 5


def summary(histogram: Histogram) -> dict[str, Any]:
    """Milliseconds by name, and the curve as [percentile, ms] pairs."""
    curve = [[percent, histogram.percentile(percent)] for percent in CURVE]
    return {
        **histogram.summary_ms(),
        "curve": [[percent, round(value / 1e6, 4)] for percent, value in curve if value is not None],
    }


def openloop(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Send `rate` records/s for `warm_s` + `seconds`; acknowledgements are timed in the latter part."""
    reduce_timer_slack()
    post, flush, serving = _poster(spec)
    filler = payload.pool(spec["size"])[0][STAMP:]
    rate, warm = spec["rate"], int(spec["rate"] * spec["warm_s"])
    count = warm + int(rate * spec["seconds"])
    every = max(-(-rate // MOST_ACKS_PER_S), 1)
    acks = Histogram()

    def acknowledged(intended: int, *_: object) -> None:
        acks.record(now_ns() - intended)

    for _ in range(100):
        post((0).to_bytes(STAMP, "little") + filler, None)
    flush()
    clock.ready()
    gc.freeze()
    schedule = Schedule(rate, now_ns() + 50_000_000)
    clock.start()
    late = 0
    with serving():
        for first, end in due_ranges(schedule, count):
            for number in range(first, end):
                intended = schedule.intended_ns(number)
                is_timed = number >= warm
                value = (intended if is_timed else 0).to_bytes(STAMP, "little") + filler
                post(value, partial(acknowledged, intended) if is_timed and number % every == 0 else None)
            late = max(late, now_ns() - schedule.intended_ns(end - 1))
        flush()
    found = clock.stop()
    return {**found, "records": count, "timed": count - warm, "sent": count + 100, "ack": summary(acks),
            "bytes": count * spec["size"], "rate": rate, "held_up_ms": late / 1e6}  # fmt: skip


def follow(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Read from the end; times from stamp to arrival, until `timed` stamped records have arrived."""
    reduce_timer_slack()
    arrived, size, count, began, last = Histogram(), 0, 0, 0, 0
    take = _taker(spec)
    take(0.5)  # looks up the end offsets, so that no later record is missed
    clock.ready()
    gc.freeze()
    clock.start()
    ends_at = time.monotonic() + spec["timeout_s"]
    while arrived.count < spec["timed"] and time.monotonic() < ends_at:
        values = take(0.1)
        now = now_ns()
        stamps = [int.from_bytes(value[:STAMP], "little") for value in values]
        times = [now - stamp for stamp in stamps if stamp]
        arrived.record_many(times)
        if times:
            began, last = began or now, now
            count += len(times)
            size += sum(map(len, values))
    return {**clock.stop(), "e2e": summary(arrived), "arrived": arrived.count, "records": count,
            "bytes": size, "span_s": (last - began) / 1e9}  # fmt: skip


def ping(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """One record in flight: sent, acknowledged and read before the next one."""
    post, flush, _ = _poster(spec)
    take = _taker(spec)
    take(0.5)
    value = payload.pool(spec["size"])[0]
    whole, acks = Histogram(), Histogram()

    def once() -> tuple[int, int]:
        began = now_ns()
        post(value, None)
        flush()
        acked = now_ns()
        while not take(1.0):
            pass
        return acked - began, now_ns() - began

    clock.ready()
    for _ in range(spec["warm"]):
        once()
    gc.freeze()
    clock.start()
    for _ in range(spec["count"]):
        acked, arrived = once()
        acks.record(acked)
        whole.record(arrived)
    return {**clock.stop(), "records": spec["count"], "ack": summary(acks), "e2e": summary(whole)}


def window(spec: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """At most five records in flight for `seconds`."""
    value = payload.pool(spec["size"])[0]
    acks = Histogram()

    def acknowledged(began_ns: int) -> None:
        acks.record(now_ns() - began_ns)

    step = (_kafka_window if spec["system"] == "kafka" else _headrace_window)(spec, value, acknowledged)
    ends_at = time.monotonic() + 0.3
    while time.monotonic() < ends_at:
        step()
    clock.ready()
    acks = Histogram()
    clock.start()
    ends_at = time.monotonic() + spec["seconds"]
    while time.monotonic() < ends_at:
        step()
    found = clock.stop()
    return {**found, "records": acks.count, "bytes": acks.count * spec["size"], "ack": summary(acks)}


def _kafka_window(
    spec: dict[str, Any], value: bytes, acknowledged: Callable[[int], None]
) -> Callable[[], None]:
    producer, topic = clients.kafka_producer(spec), spec["topic"]
    in_flight = [0]

    def delivered(began: int, error: Any, message: Any) -> None:
        if error is not None:
            raise RuntimeError(str(error))
        in_flight[0] -= 1
        acknowledged(began)

    def step() -> None:
        while in_flight[0] < WINDOW:
            in_flight[0] += 1
            producer.produce(topic, value, on_delivery=partial(delivered, now_ns()))
        producer.poll(1.0)

    return step


def _headrace_window(
    spec: dict[str, Any], value: bytes, acknowledged: Callable[[int], None]
) -> Callable[[], None]:
    producer, topic = clients.headrace_producer(spec), spec["topic"]
    in_flight: deque[tuple[int, Any]] = deque()

    def step() -> None:
        while len(in_flight) < WINDOW:
            in_flight.append((now_ns(), producer.send(topic, value)))
        began, future = in_flight.popleft()
        future.result(30)
        acknowledged(began)

    return step


def kafka_post(produce: Callable[..., None], topic: str, has_room: threading.Event) -> Callable[..., None]:
    """`post(value, callback or None)`, which waits for `has_room` while the queue is full, as `send` does.

    The schedule does not wait. Errors: BufferError after a minute.
    """

    def post(value: bytes, callback: Any) -> None:
        arguments = {} if callback is None else {"on_delivery": callback}
        while True:
            try:
                produce(topic, value, **arguments)
            except BufferError:
                if not has_room.wait(FLUSH_S):
                    raise
                has_room.clear()
            else:
                return

    return post


@contextlib.contextmanager
def served(producer: Any, has_room: threading.Event) -> Iterator[None]:
    """Run a confluent producer's callbacks in a thread of their own, as headrace's client does.

    Sets `has_room`: delivered records have left the queue.
    """
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            if producer.poll(0.05):
                has_room.set()

    thread = threading.Thread(target=serve, name="bench-callbacks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _poster(
    spec: dict[str, Any],
) -> tuple[Callable[..., None], Callable[[], object], Callable[[], AbstractContextManager[None]]]:
    """(send a value with a callback or None, wait for all, a context in which callbacks run)."""
    topic = spec["topic"]
    if spec["system"] == "kafka":
        producer = clients.kafka_producer(spec)
        has_room = threading.Event()
        post = kafka_post(producer.produce, topic, has_room)
        return post, partial(producer.flush, FLUSH_S), partial(served, producer, has_room)
    ours = clients.headrace_producer(spec)
    send = ours.send

    def post_ours(value: bytes, callback: Any) -> None:
        future = send(topic, value)
        if callback is not None:
            future.add_done_callback(callback)

    return post_ours, partial(ours.flush, FLUSH_S), contextlib.nullcontext


def _taker(spec: dict[str, Any]) -> Callable[[float], list[bytes]]:
    """A function that returns the next values, with a timeout in seconds for the first."""
    partitions = list(range(spec["partition_count"]))
    if spec["system"] == "kafka":
        kafka = clients.kafka_consumer(spec, partitions, from_end=True)
        poll, consume = kafka.poll, kafka.consume

        def take(timeout_s: float) -> list[bytes]:
            first = poll(timeout_s)
            # with a timeout `consume` would wait for the full number
            return [] if first is None else [m.value() for m in (first, *consume(10_000, 0))]

        return take
    ours = clients.headrace_consumer(spec, partitions, from_end=True)

    def take_ours(timeout_s: float) -> list[bytes]:
        return [record.value for record in ours.poll(timeout_s, 10_000)]

    for partition in ours.assignment():
        ours.position(partition, 20)
    return take_ours
