"""Reading workers: throughput of the four read APIs, and the reader of the end-to-end measurement."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...protocol.model import TopicPartition
from .histogram import Histogram
from .pacing_io import now_ns
from .send_work import STAMP
from .watchdog import ClusterWatchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...clients.sync.consumer_io import Consumer
    from .plan import ReadPlan
    from .worker_pool import WorkerLink

# How often an idle reader checks whether the others have read the remaining records; free while records
# arrive.
POLL_S = 0.1
# Records between two reads of the clock in a record-by-record loop.
RECORDS_PER_CHECK = 1000

_VALUE = attrgetter("value")


@dataclass
class ReadResult:
    """The measurement of one reader; `elapsed_s` ends with its last record."""

    records: int = 0
    size_bytes: int = 0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    has_lost_cluster: bool = False  # all nodes stopped answering


@dataclass(frozen=True)
class ReadTask:
    """Worker `index` of a `ReadPlan`: reads until the readers have reached their goal, or no record comes."""

    plan: ReadPlan
    index: int

    def run(self, link: WorkerLink) -> ReadResult:
        """Connect, wait for the start, read. Errors: those of the consumer."""
        from ...clients.sync.cluster_io import connect

        plan = self.plan
        partitions = [TopicPartition(plan.target.topic, number) for number in plan.partitions_of(self.index)]
        with connect(plan.target.bootstrap, config=plan.target.config) as cluster:
            consumer = cluster.consumer(auto_offset_reset="earliest", iter_timeout=POLL_S)
            if plan.from_end:
                first = start_at_end(consumer, partitions)
            else:
                first = sum(consumer.beginning_offsets(*partitions).values())  # connects
            if plan.api == "arrow":
                from ...clients.arrow.library import pa

                pa.scalar(0)  # pyarrow imports pandas, if installed, with its first value
            start_ns = link.start(first)
            cpu_s = time.process_time()
            if not plan.from_end:
                consumer.assign(partitions)  # only now: the consumer would prefetch before the measurement
            with ClusterWatchdog(cluster, link.group_records) as watchdog:
                result = _read(consumer, plan, link, start_ns, watchdog)
            result.cpu_s = time.process_time() - cpu_s
            return result


def start_at_end(consumer: Consumer[Any, Any], partitions: list[TopicPartition]) -> int:
    """Seek to the end and return the sum of the positions; no record after this return is missed."""
    consumer.assign(partitions)
    consumer.seek_to_end()
    return sum(consumer.position(place) for place in partitions)


def _read(
    consumer: Consumer[Any, Any], plan: ReadPlan, link: WorkerLink, start_ns: int, watchdog: ClusterWatchdog
) -> ReadResult:
    records = size_bytes = seen = 0
    last_ns = idle_since_ns = start_ns
    chunks = _CHUNKS[plan.api](consumer, plan)
    while not watchdog.is_gone:
        goal, read = link.goal(), link.group_records()
        if goal is not None and read >= goal:
            break
        left = plan.max_records if goal is None else min(plan.max_records, goal - read)
        count, chunk_bytes = chunks(left)
        if count:
            records += count
            size_bytes += chunk_bytes
            last_ns = now_ns()
            link.progress(records, size_bytes)
        if read + count > seen:  # any reader's progress: a reader that is done waits for the others
            seen, idle_since_ns = read + count, now_ns()
        elif now_ns() - idle_since_ns >= plan.timeout_s * 1e9:
            break
    return ReadResult(records, size_bytes, (last_ns - start_ns) / 1e9, has_lost_cluster=watchdog.is_gone)


def _size_of(records: list[Any]) -> int:
    try:
        return sum(map(len, map(_VALUE, records)))
    except TypeError:  # a null value is among them
        return sum(len(record.value or b"") for record in records)


def _by_poll(consumer: Consumer[Any, Any], _plan: ReadPlan) -> Callable[[int], tuple[int, int]]:
    def read(most: int) -> tuple[int, int]:
        records = consumer.poll(POLL_S, most)
        return len(records), _size_of(records)

    return read


def _by_record(consumer: Consumer[Any, Any], _plan: ReadPlan) -> Callable[[int], tuple[int, int]]:
    found: list[Iterator[Any]] = [iter(consumer)]

    def read(most: int) -> tuple[int, int]:
        count = size_bytes = 0
        wanted = min(most, RECORDS_PER_CHECK)
        for record in islice(found[0], wanted):
            count += 1
            size_bytes += len(record.value or b"")
        if count < wanted:  # the iterator ended: no record for POLL_S
            found[0] = iter(consumer)
        return count, size_bytes

    return read


def _by_batch(consumer: Consumer[Any, Any], plan: ReadPlan) -> Callable[[int], tuple[int, int]]:
    def begin(most: int) -> Iterator[list[Any]]:
        return consumer.batches(most, POLL_S)

    def measure(records: list[Any]) -> tuple[int, int]:
        return len(records), _size_of(records)

    return _by_chunk(begin, measure, plan)


def _by_arrow(consumer: Consumer[Any, Any], plan: ReadPlan) -> Callable[[int], tuple[int, int]]:
    def begin(most: int) -> Iterator[Any]:
        return consumer.arrow_batches(most, POLL_S)

    def measure(batch: Any) -> tuple[int, int]:
        return batch.num_rows, _binary_bytes(batch.column("value"))

    return _by_chunk(begin, measure, plan)


def _by_chunk(
    begin: Callable[[int], Iterator[Any]], measure: Callable[[Any], tuple[int, int]], plan: ReadPlan
) -> Callable[[int], tuple[int, int]]:
    """The chunk size of an iterator is fixed when it starts: a smaller last chunk needs a new iterator."""
    state: list[Any] = [begin(plan.max_records), plan.max_records]

    def read(most: int) -> tuple[int, int]:
        if most != state[1]:
            state[:] = [begin(most), most]
        chunk = next(state[0], None)
        if chunk is None:  # the iterator ended: no record for POLL_S
            state[0] = begin(state[1])
            return 0, 0
        return measure(chunk)

    return read


def _binary_bytes(column: Any) -> int:
    """The bytes of all values of an Arrow binary array, from its offsets alone."""
    import pyarrow.compute as pc

    return int(pc.sum(pc.binary_length(column)).as_py() or 0)


_CHUNKS: dict[str, Callable[[Any, Any], Callable[[int], tuple[int, int]]]] = {
    "poll": _by_poll, "iterate": _by_record, "batches": _by_batch, "arrow": _by_arrow,
}  # fmt: skip


@dataclass
class TailResult:
    """Stamped records that arrived: distinct ones, and duplicates."""

    records: int = 0
    size_bytes: int = 0
    repeated: int = 0
    foreign: int = 0  # of other runs or producers
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    latency: Histogram = field(default_factory=Histogram)
    has_lost_cluster: bool = False


@dataclass(frozen=True)
class TailTask:
    """Reads the stamped records of one run; those with numbers below `warmup` are not measured."""

    plan: ReadPlan
    run_number: int
    expected: int
    warmup: int

    def run(self, link: WorkerLink) -> TailResult:
        """Read until every record has arrived, or no record comes. Errors: those of the consumer."""
        from ...clients.sync.cluster_io import connect

        plan = self.plan
        partitions = [TopicPartition(plan.target.topic, number) for number in range(plan.partitions)]
        with connect(plan.target.bootstrap, config=plan.target.config) as cluster:
            consumer = cluster.consumer(auto_offset_reset="earliest")
            start_at_end(consumer, partitions)
            start_ns = link.start()
            cpu_s = time.process_time()
            with ClusterWatchdog(cluster, link.group_records) as watchdog:
                result = self._follow(consumer, link, start_ns, watchdog)
            result.cpu_s = time.process_time() - cpu_s
            return result

    def _follow(
        self, consumer: Consumer[Any, Any], link: WorkerLink, start_ns: int, watchdog: ClusterWatchdog
    ) -> TailResult:
        result, seen = TailResult(), bytearray(self.expected)
        last_ns = start_ns
        while not watchdog.is_gone:
            goal = link.goal()  # set when the senders are done: the number of acknowledged records
            if result.records >= self.expected or (goal is not None and result.records >= goal):
                break
            records = consumer.poll(POLL_S, self.plan.max_records)
            at_ns = now_ns()
            if records:
                last_ns = at_ns
                self._take(records, at_ns, seen, result)
                link.progress(result.records, result.size_bytes, result.repeated)
            elif at_ns - last_ns >= self.plan.timeout_s * 1e9:
                break
        result.elapsed_s, result.has_lost_cluster = (last_ns - start_ns) / 1e9, watchdog.is_gone
        return result

    def _take(self, records: list[Any], at_ns: int, seen: bytearray, result: TailResult) -> None:
        latencies = []
        for record in records:
            value = record.value
            if value is None or len(value) < STAMP.size:
                result.foreign += 1
                continue
            intended_ns, run_number, number = STAMP.unpack_from(value)
            if run_number != self.run_number or number >= self.expected:
                result.foreign += 1
                continue
            if seen[number]:
                result.repeated += 1
                continue
            seen[number] = 1
            result.records += 1
            result.size_bytes += len(value)
            if number >= self.warmup:
                latencies.append(at_ns - intended_ns)
        result.latency.record_many(latencies)
