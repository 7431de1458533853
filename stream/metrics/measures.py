"""What a task measures per record and per call of a store, with metrics.recording.level DEBUG or TRACE. Pure.

The stream thread writes, any thread reads. Without these levels a task has no measures, and pays nothing.
Source: ProcessorNodeMetrics, TopicMetrics, StateStoreMetrics, NamedCacheMetrics.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from ...clients.measured import WINDOW_MS, Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..column_rows import ProcessRows, Rows
    from ..processing import Forward, InputRun, ProcessRun


_NS_PER_MS = 1e6


class NodeMeasures:
    """Of a node. `latency`: from the timestamp of a record to the time at which the node gets it; None: it is
    not measured here. `emitted`: records that left a buffer."""

    __slots__ = ("_wall_ms", "emitted", "latency", "process")

    def __init__(self, wall_ms: Callable[[], int], *, has_latency: bool) -> None:
        self._wall_ms = wall_ms
        self.process = Measured()
        self.latency = Measured() if has_latency else None
        self.emitted: Measured | None = None

    def seen(self, timestamps: Sequence[int]) -> None:
        """The node gets records with these timestamps."""
        now_ms = self._wall_ms()
        self.process.record(0, now_ms, len(timestamps))
        if self.latency is not None:
            self.latency.record_each([now_ms - timestamp for timestamp in timestamps], now_ms)

    def counting(self, process: Forward) -> Forward:
        """`process` that counts."""

        def counted(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            self.seen((timestamp,))
            process(key, value, timestamp, headers)

        return counted

    def counting_rows(self, process_rows: ProcessRows | None) -> ProcessRows | None:
        """The same of rows."""
        if process_rows is None:
            return None

        def counted_rows(rows: Rows) -> None:
            self.seen(rows.timestamps)
            process_rows(rows)

        return counted_rows

    def counting_run(self, process_run: ProcessRun | None) -> ProcessRun | None:
        """The same of a run, of which a part may be processed."""
        if process_run is None:
            return None

        def counted_run(run: InputRun) -> None:
            process_run(run)
            self.seen(run.timestamps[: run.count])

        return counted_run

    def counting_output(self, forward: Forward) -> Forward:
        """`forward` of a node that keeps records back for a while."""
        emitted = self.emitted = Measured()

        def counted_output(key: Any, value: Any, timestamp: int, headers: Any) -> None:
            emitted.record(0, self._wall_ms())
            forward(key, value, timestamp, headers)

        return counted_output


class TopicMeasures:
    """Of a node and a topic that it reads or writes."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.records = self.bytes = 0

    def add(self, records: int, size: int) -> None:
        """Records, and the bytes of their keys and values."""
        self.records += records
        self.bytes += size


class Totals:
    """Rates of numbers that only grow, which are known when they are read: over the last 30 to 60 s, as those
    of events."""

    def __init__(self) -> None:
        self._samples: dict[str, tuple[tuple[int, float], ...]] = {}  # time and total, oldest first

    def per_second(self, name: str, total: float, now_ms: int) -> float:
        """The rate since the oldest sample in the window; 0 at the first one."""
        known = self._samples.get(name, ())
        if known and total < known[-1][1]:
            known = ()  # the database was opened again
        while len(known) > 1 and now_ms - known[1][0] >= WINDOW_MS:
            known = known[1:]
        if not known or now_ms - known[-1][0] >= WINDOW_MS:
            known = (*known, (now_ms, total))
        self._samples[name] = known
        began_ms, before = known[0]
        return (total - before) * 1000 / max(now_ms - began_ms, WINDOW_MS)


class StoreMeasures:
    """Of a store: its operations by Kafka's names. `reads` and `misses` of its cache; None without one."""

    def __init__(self, wall_ms: Callable[[], int], clock_ns: Callable[[], int]) -> None:
        self.wall_ms, self.clock_ns = wall_ms, clock_ns
        self.operations: defaultdict[str, Measured] = defaultdict(Measured)
        self.hit_ratio: Measured | None = None
        self.buffer_size: Measured | None = None
        self.buffer_count: Measured | None = None
        self.is_inside = False  # an operation that calls another one counts once
        self.iterators = Measured()  # from their begin to their end
        self.open_since_ms: dict[object, int] = {}  # of open iterators, in their order
        self.totals = Totals()
        self._reads = self._misses = 0

    def iterator_opened(self, closed: Callable[[], None]) -> Callable[[], None]:
        """`closed` of a new iterator, which also notes how long it was open."""
        iterator, began_ns = object(), self.clock_ns()
        self.open_since_ms[iterator] = self.wall_ms()

        def noted() -> None:
            self.open_since_ms.pop(iterator, None)
            self.iterators.record((self.clock_ns() - began_ns) / _NS_PER_MS, self.wall_ms())
            closed()

        return noted

    def missed(self) -> None:
        """A read was not answered by the cache."""
        self._misses += 1

    def read(self) -> None:
        """A read has ended, of a store with a cache."""
        self._reads += 1
        hits = max(self._reads - self._misses, 0)
        if self.hit_ratio is not None:
            self.hit_ratio.record(hits / self._reads, self.wall_ms())

    def buffered(self, size: int, count: int) -> None:
        """The bytes and records that a buffer has now."""
        if self.buffer_size is None or self.buffer_count is None:
            self.buffer_size, self.buffer_count = Measured(), Measured()
        self.buffer_size.record(size, self.wall_ms())
        self.buffer_count.record(count, self.wall_ms())


class OfTopic(NamedTuple):
    """The key of `TaskMeasures.consumed` and `produced`."""

    node: str
    topic: str


class TaskMeasures:
    """Of one task. `is_finest`: TRACE, with latencies of nodes that have stores. `clock_ns` for durations."""

    def __init__(self, wall_ms: Callable[[], int], clock_ns: Callable[[], int], *, is_finest: bool) -> None:
        self._wall_ms, self._clock_ns = wall_ms, clock_ns
        self._is_finest = is_finest
        self.nodes: dict[str, NodeMeasures] = {}
        self.stores: dict[str, StoreMeasures] = {}
        self.consumed: defaultdict[OfTopic, TopicMeasures] = defaultdict(TopicMeasures)
        self.produced: defaultdict[OfTopic, TopicMeasures] = defaultdict(TopicMeasures)

    def node(self, name: str, *, is_end: bool, has_stores: bool) -> NodeMeasures:
        """Those of a node; `is_end`: a source, or a node without children. They go on when the task begins
        again."""
        found = self.nodes.get(name)
        if found is None:
            has_latency = is_end or (has_stores and self._is_finest)
            found = self.nodes[name] = NodeMeasures(self._wall_ms, has_latency=has_latency)
        return found

    def store(self, name: str) -> StoreMeasures:
        """Those of a store."""
        found = self.stores.get(name)
        if found is None:
            found = self.stores[name] = StoreMeasures(self._wall_ms, self._clock_ns)
        return found

    def take(self, node: str, topic: str, records: Iterable[Any]) -> list[Any]:
        """Input records of a source; they are counted."""
        taken = list(records)
        self.consumed[OfTopic(node, topic)].add(
            len(taken), sum(_size(record.key) + _size(record.value) for record in taken)
        )
        return taken

    def sent(self, node: str, topic: str, key: bytes | None, value: bytes | None) -> None:
        """A record of a sink."""
        self.produced[OfTopic(node, topic)].add(1, _size(key) + _size(value))

    def sent_rows(self, node: str, topic: str, *columns: Sequence[bytes | None]) -> None:
        """Keys and values of records of a sink."""
        size = sum(_size(item) for column in columns for item in column)
        self.produced[OfTopic(node, topic)].add(len(columns[0]), size)


def _size(data: bytes | None) -> int:
    return 0 if data is None else len(data)
