"""A sending worker: as fast as possible, or at a fixed rate."""

from __future__ import annotations

import contextlib
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from operator import length_hint
from typing import TYPE_CHECKING, Any

from ...protocol.errors import BufferExhaustedError, HeadraceError, MessageTooLargeError
from .histogram import Histogram
from .pacing import Schedule
from .pacing_io import due_ranges, now_ns, reduce_timer_slack
from .plan import share
from .watchdog import GONE, ClusterWatchdog

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.sync.producer_io import Producer
    from .plan import SendPlan
    from .worker_pool import WorkerLink

# The head of a stamped value: intended send time (monotonic ns), number of the run, number of the record.
STAMP = struct.Struct(">qII")
# Bound: a callback per record costs about a microsecond; above this rate only every n-th record has one.
MOST_SAMPLES_PER_S = 20_000


@dataclass
class SendResult:
    """The measurement of one worker. `accepted` records were sent and acknowledged or failed; `unsent` ones
    were never tried because the cluster stopped accepting records."""

    acknowledged: int = 0
    failed: int = 0
    unsent: int = 0
    size_bytes: int = 0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    latency: Histogram = field(default_factory=Histogram)
    first_error: str | None = None
    has_lost_cluster: bool = False  # all nodes stopped answering


@dataclass(frozen=True)
class SendTask:
    """Worker `index` of a `SendPlan`."""

    plan: SendPlan
    index: int

    def run(self, link: WorkerLink) -> SendResult:
        """Send, flush, count. Errors: those that prevent the start."""
        from ...clients.sync.cluster_io import connect

        plan = self.plan
        source = _Source(plan, self.index)
        with connect(plan.target.bootstrap, config=plan.target.config) as cluster:
            producer = cluster.producer()
            producer.partitions_for(plan.target.topic)  # connects before the measurement
            if plan.api == "arrow":
                pass
            reduce_timer_slack()
            warmup = share_of_warmup(plan, self.index)
            if warmup and plan.stamp is None:
                first = _Sender(producer, plan, source, link)
                first.run_fast(warmup, None)
                result = first.finish()
                if result.failed:
                    raise HeadraceError(f"a warm-up record failed: {result.first_error}")
            sender = _Sender(producer, plan, source, link)
            with ClusterWatchdog(cluster, sender.acknowledged, sender.cancel) as watchdog:
                start_ns = link.start()
                cpu_s = time.process_time()
                sender.run(self.index, start_ns)
                result = sender.finish()
            result.has_lost_cluster = watchdog.is_gone
            result.elapsed_s = (sender.ended_ns - start_ns) / 1e9
            result.cpu_s = time.process_time() - cpu_s
            with contextlib.suppress(HeadraceError):  # failed records were counted
                producer.close()  # after this, its IO thread has run every callback
            sender.drain()
            return result


def share_of_warmup(plan: SendPlan, index: int) -> int:
    """The number of warm-up records of worker `index`."""
    return share(plan.warmup, index, plan.workers)


class _Source:
    """Precomputed chunks of (arguments of `send`, bytes of values), returned in turn."""

    def __init__(self, plan: SendPlan, index: int) -> None:
        self.values = plan.payload.values(index)
        self.keys = plan.payload.keyed(self.values, index)
        self.has_keys = plan.payload.keys > 0
        self.sizes = [len(value) for value in self.values]
        self._at = 0

    def take(self, most: int) -> slice:
        """The next values, at most `most`, up to the end of the pool."""
        first, end = self._at, min(self._at + most, len(self.values))
        self._at = end % len(self.values)
        return slice(first, end)


class _Sender:
    """Sends records with one API and counts their outcomes."""

    def __init__(
        self, producer: Producer[Any, Any], plan: SendPlan, source: _Source, link: WorkerLink
    ) -> None:
        self._producer, self._plan, self._source, self._link = producer, plan, source, link
        self._topic = plan.target.topic
        self._tried = self._tried_bytes = self._refused = self._unsent = 0
        self._failed_before = producer.metrics()["record-error-total"]
        self._latencies: deque[int] = deque()  # appended by the client's IO thread
        self._results: deque[Any] = deque()  # results of send_many and send_arrow without an outcome
        self._latency = Histogram()
        self._error: BaseException | None = None
        self._is_stuck = False
        self.ended_ns = 0
        senders: dict[str, Callable[[slice], Any]] = {
            "send": self._send_each, "send-many": self._send_many, "arrow": self._send_arrow,
        }  # fmt: skip
        self._send_chunk = senders[plan.api]
        self._chunks: dict[tuple[int, int], Any] = {}
        # built before the measurement, including modules that are imported at first use
        if plan.api != "send":
            make = self._records if plan.api == "send-many" else self._arrow_batch
            for first in range(0, len(source.values), plan.chunk):
                self._chunk(slice(first, min(first + plan.chunk, len(source.values))), make)

    # --- load -----------------------------------------------------------------------------------------------

    def run(self, index: int, start_ns: int) -> None:
        """All records of worker `index`."""
        plan = self._plan
        if plan.throughput is not None:
            schedule = Schedule(plan.throughput, start_ns, index, plan.workers)
            count = plan.count(index)
            assert count is not None
            self._run_paced(schedule, count)
            return
        ends_ns = None if plan.duration_s is None else start_ns + int(plan.duration_s * 1e9)
        self.run_fast(plan.count(index), ends_ns)

    def run_fast(self, count: int | None, ends_ns: int | None) -> None:
        """As fast as possible; measures the latency of one record of each chunk from its send call."""
        plan, source = self._plan, self._source
        while not self._is_stuck and (count is None or self._tried < count):
            began_ns = now_ns()
            if ends_ns is not None and began_ns >= ends_ns:
                return
            left = plan.chunk if count is None else min(plan.chunk, count - self._tried)
            part = source.take(left)
            self._account(part)
            sampled = self._send_chunk(part)
            if sampled is not None:
                sampled.add_done_callback(self._on_ack(began_ns))
            self._after_chunk()
        if count is not None:
            self._unsent += max(count - self._tried, 0)

    def _run_paced(self, schedule: Schedule, count: int) -> None:
        """At intended times; latency counts from them, however late a record was sent."""
        step = max(int(schedule.rate_per_s / schedule.stride / MOST_SAMPLES_PER_S + 0.999), 1)
        is_single = self._plan.api == "send"
        for first, end in due_ranges(schedule, count, self._plan.chunk):
            if self._is_stuck:
                break
            if is_single:
                self._send_paced(schedule, first, end, step)
            else:
                self._send_paced_chunks(schedule, first, end, step)
            self._after_chunk()
        self._unsent += count - self._tried

    def _send_paced(self, schedule: Schedule, first: int, end: int, step: int) -> None:
        source, send, topic, stamp = self._source, self._producer.send, self._topic, self._plan.stamp
        values, keys, pool = source.values, source.keys, len(source.values)
        warmup = 0 if stamp is None else share_of_warmup(self._plan, schedule.offset)
        for number in range(first, end):
            place = number % pool
            value = values[place]
            if stamp is not None:
                wide = number * schedule.stride + schedule.offset
                value = STAMP.pack(schedule.intended_ns(number), stamp, wide) + value[STAMP.size :]
            self._tried += 1
            self._tried_bytes += len(value)
            try:
                future = send(topic, value, key=keys[place])
            except HeadraceError as error:
                self._refuse(error)
                if self._is_stuck:
                    return
            else:
                if number % step == 0 and number >= warmup:
                    future.add_done_callback(self._on_ack(schedule.intended_ns(number)))

    def _send_paced_chunks(self, schedule: Schedule, first: int, end: int, step: int) -> None:
        while first < end and not self._is_stuck:
            part = self._source.take(end - first)
            self._account(part)
            self._send_chunk(part)
            result = self._results[-1]
            for number in range(first, first + len(result)):
                if number % step == 0:
                    result[number - first].add_done_callback(self._on_ack(schedule.intended_ns(number)))
            first += part.stop - part.start

    # --- send APIs ------------------------------------------------------------------------------------------

    def _send_each(self, part: slice) -> Any:
        """The measured loop: it only calls `send`."""
        send, topic, source = self._producer.send, self._topic, self._source
        values: Any = iter(source.values[part])
        pairs: Any = zip(values, source.keys[part], strict=True) if source.has_keys else None
        sampled = None
        while True:
            try:
                if pairs is None:
                    if sampled is None:
                        for value in islice(values, 1):
                            sampled = send(topic, value)
                    for value in values:
                        send(topic, value)
                else:
                    if sampled is None:
                        for value, key in islice(pairs, 1):
                            sampled = send(topic, value, key=key)
                    for value, key in pairs:
                        send(topic, value, key=key)
            except HeadraceError as error:
                self._refuse(error)
                if self._is_stuck:
                    left = length_hint(values)
                    self._tried -= left  # never tried: they count as unsent
                    self._tried_bytes -= sum(source.sizes[part.stop - left : part.stop])
                    return sampled
            else:
                return sampled

    def _send_many(self, part: slice) -> Any:
        return self._keep(self._producer.send_many(self._topic, self._chunk(part, self._records)))

    def _send_arrow(self, part: slice) -> Any:
        return self._keep(self._producer.send_arrow(self._topic, self._chunk(part, self._arrow_batch)))

    def _records(self, part: slice) -> list[Any]:
        from ...clients.records import ProducerRecord

        source = self._source
        if not source.has_keys:
            return list(source.values[part])
        pairs = zip(source.values[part], source.keys[part], strict=True)
        return [ProducerRecord(value, key) for value, key in pairs]

    def _arrow_batch(self, part: slice) -> Any:
        from ...clients.arrow.library import pa

        columns = {"value": pa.array(self._source.values[part], pa.binary())}
        if self._source.has_keys:
            columns["key"] = pa.array(self._source.keys[part], pa.binary())
        return pa.RecordBatch.from_pydict(columns)

    def _chunk(self, part: slice, make: Callable[[slice], Any]) -> Any:
        """Chunks are built once and reused: the pool is cut at the same places each time round, except at the
        end."""
        known = self._chunks.get((part.start, part.stop))
        if known is None:
            known = make(part)
            # Bound: only aligned chunks are kept, at most one copy of the pool
            if part.start % self._plan.chunk == 0 and self._is_whole(part):
                self._chunks[part.start, part.stop] = known
        return known

    def _is_whole(self, part: slice) -> bool:
        size: int = part.stop - part.start
        return size == self._plan.chunk or bool(part.stop == len(self._source.values))

    def _keep(self, result: Any) -> Any:
        self._results.append(result)
        return result[-1] if len(result) else None

    # --- accounting -----------------------------------------------------------------------------------------

    def acknowledged(self) -> float:
        """Acknowledged records so far; thread-safe."""
        return self._producer.metrics()["record-send-total"]

    def cancel(self) -> None:
        """All nodes stopped answering (called by another thread): records without an outcome fail, and no
        more are sent."""
        self._error, self._is_stuck = HeadraceError(GONE), True
        with contextlib.suppress(HeadraceError):  # records without an outcome are counted
            self._producer.close(0)

    def finish(self) -> SendResult:
        """Wait for every outcome and return the measurement."""
        self._producer.flush()
        self.ended_ns = now_ns()
        while self._results:
            self._collect(self._results.popleft())
        failed = self._refused
        if self._plan.api == "send":
            failed += int(self._producer.metrics()["record-error-total"] - self._failed_before)
        acknowledged = self._tried - failed
        # values have about the same size: the bytes of failed ones are not tracked
        size_bytes = self._tried_bytes * acknowledged // self._tried if self._tried else 0
        self.drain()
        self._link.progress(acknowledged, size_bytes, failed)
        if (failed or self._unsent) and self._error is None:
            self._error = HeadraceError("the client gave no reason")
        error = None if self._error is None else f"{type(self._error).__name__}: {self._error}"
        return SendResult(
            acknowledged, failed, self._unsent, size_bytes, latency=self._latency, first_error=error
        )

    def drain(self) -> None:
        """Move measured latencies into the histogram."""
        latencies = self._latencies
        self._latency.record_many([latencies.popleft() for _ in range(len(latencies))])

    def _account(self, part: slice) -> None:
        self._tried += part.stop - part.start
        self._tried_bytes += sum(self._source.sizes[part])

    def _after_chunk(self) -> None:
        """After each chunk: publish progress, collect finished results."""
        if len(self._latencies) >= 100:
            self.drain()
        while self._results and self._results[0].done():
            self._collect(self._results.popleft())
        self._link.progress(self._tried, self._tried_bytes, self._refused)

    def _collect(self, result: Any) -> None:
        errors = result.errors()
        self._refused += len(errors)
        for error in errors.values():
            self._note(error)

    def _refuse(self, error: HeadraceError) -> None:
        self._refused += 1
        self._note(error)
        if not isinstance(error, MessageTooLargeError):
            self._is_stuck = True  # the next record would wait for as long

    def _note(self, error: BaseException) -> None:
        self._error = self._error or error
        if isinstance(error, BufferExhaustedError):
            self._is_stuck = True

    def _on_ack(self, intended_ns: int) -> Callable[[Any], None]:
        def on_done(future: Any) -> None:
            error = future.exception()
            if error is None:
                self._latencies.append(now_ns() - intended_ns)
            elif self._error is None:
                self._error = error

        return on_done
