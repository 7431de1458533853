"""Runs a topology in memory, record by record, on a clock of its own. Source: TopologyTestDriver.

All sub-topologies run as one task on partition 0. A record that is sent to an input topic of the topology is
processed as well. After each record, punctuators on stream time are called and everything is committed.
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...clients.serdes import deserializer, serializer
from ...protocol.model import TopicPartition
from ..errors import StreamsError
from ..records import Record, RecordContext
from ..state.memory_engine import MemoryEngine
from ..state.stores import ChangelogRecord
from ..state.thread_cache import ThreadCache
from ..task.global_task import GlobalTask
from ..task.handlers import LogAndContinue, ProducedRecord
from ..task.settings import TaskSettings
from ..task.task import CommitOffset, Task, TaskIo
from ..topology.serdes import resolve
from ..topology.specs import SinkSpec, SourceSpec
from .topics import InputTopic, OutputTopic, StoredRecord, to_ms, to_time
from .virtual_loop_io import VirtualCalls

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path
    from types import TracebackType

    from ...clients.records import Headers
    from ..state.engines import Engine
    from ..task.restoration import Restoration
    from ..topology.built import BuiltTopology

DEFAULT_CACHE_BYTES = 10 * 1024 * 1024


class Buildable(Protocol):
    """A `Topology`, or an application of the DSL."""

    def build(self, application_id: str, *, caching: bool) -> BuiltTopology: ...


class Serdes(NamedTuple):
    """The serdes of a topic."""

    key: Any
    value: Any


class CrashError(BaseException):
    """The task is lost at this step. Not an Exception: no handler of the task sees it."""


class TestDriver:
    """Use it in a `with` statement, or close it: an iterator of a store that was left open is then found.

    `settings`: serdes and handlers; those of an `App` if there are none. `now`: where the wall clock starts;
    it stands still until `advance_wall_clock_time`. `at_once` False: async functions and Arrow sections go on
    only with this clock, and nothing is committed before they are done; otherwise each record waits for them,
    in virtual time. `cache_bytes` 0: stores have no caches. `crash_at`: steps (`steps` counts them) at which
    the task is lost and restarted from what was durable. `state_dir`: the folder for files of stores that a
    supplier makes; the others are in memory.
    """

    __test__ = False  # not a test of pytest

    def __init__(
        self,
        topology: Buildable,
        *,
        application_id: str = "test-driver",
        settings: TaskSettings | None = None,
        now: int | datetime = 0,
        at_once: bool = True,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        crash_at: Collection[int] = (),
        exactly_once: bool = True,
        state_dir: Path | None = None,
    ) -> None:
        self.application_id = application_id
        self.settings = replace(
            settings or getattr(topology, "settings", None) or TaskSettings(),
            window_emit_interval_ms=0,
            outer_join_emit_interval_ms=0,
        )
        self._wall_ms = self._start_ms = to_time(now)
        self._state_dir = state_dir
        self._at_once = at_once
        self._calls: VirtualCalls | None = None
        self._has_failed = False
        self._built = topology.build(application_id, caching=cache_bytes > 0)
        self._topology = self._built.all_tasks()
        self._sent: list[ProducedRecord] = []
        self._offsets: dict[str, int] = {}
        self._outputs: dict[str, deque[ProducedRecord]] = {}
        self._history: dict[str, list[ProducedRecord]] = {}
        self._inputs: dict[TopicPartition, list[StoredRecord]] = {}
        self._committed: dict[TopicPartition, CommitOffset] = {}
        self._engines: dict[str, MemoryEngine] = {}
        self._cache = ThreadCache(cache_bytes)
        self._crash_at = frozenset(crash_at)
        self._exactly_once = exactly_once
        self.steps = 0
        """Sends, calls of async functions and halves of commits so far: where `crash_at` may crash."""
        self._global_task = self._new_global_task()
        self._task = self._new_task()

    def _new_task(self) -> Task | None:
        patterns = [
            node.pattern.pattern
            for node in self._topology.nodes
            if isinstance(node, SourceSpec) and node.pattern is not None
        ]
        topics = (*self._topology.sources, *patterns)
        if not topics:
            return None
        io = TaskIo(self._produce, lambda _topic: 1, self._open_engine, self._cache, self._open_calls)
        task = Task(
            self.application_id,
            0,
            self._topology,
            self.settings,
            io,
            topics=topics,
            wall_ms=self._wall_ms,
            global_stores=None if self._global_task is None else self._global_task.stores,
        )
        task.context.folder = self._state_dir
        self._restore(task.initialize())
        task.complete_restoration({tp: committed.metadata for tp, committed in self._committed.items()})
        task.group.use_lags(dict.fromkeys(task.partitions, 0))
        for partition, records in self._inputs.items():
            committed = self._committed.get(partition)
            task.add_records(partition, records[0 if committed is None else committed.offset :])
        return task

    def _restore(self, restoration: Restoration) -> None:
        """From the changelogs as they are; nothing before the first crash."""
        for partition, changelog in restoration.changelogs.items():
            log: Sequence[Any] = (
                self._inputs.get(partition, ())
                if changelog.is_source
                else self._history.get(partition.topic, ())
            )
            records = [
                ChangelogRecord(record.key, record.value, record.timestamp, offset, record.headers)
                for offset, record in enumerate(log)
            ]
            committed = self._committed.get(partition)
            restoration.use_ends(
                {partition: len(records)}, {partition: None if committed is None else committed.offset}
            )
            restoration.apply(partition, records[changelog.start :], len(records))

    def _new_global_task(self) -> GlobalTask | None:
        topology = self._built.global_topology()
        if topology is None:
            return None
        task = GlobalTask(
            self.application_id,
            topology,
            replace(self.settings, deserialization_handler=LogAndContinue()),
            cache=self._cache,
            open_engine=self._open_engine,
            wall_ms=self._wall_ms,
        )
        task.context.folder = self._state_dir
        task.initialize()
        return task

    def _open_engine(self, store_name: str) -> Engine:
        return self._engines.setdefault(store_name, MemoryEngine())

    def _open_calls(self) -> VirtualCalls:
        if self._calls is None:
            self._calls = VirtualCalls(self._step)
        return self._calls

    # topics

    def input_topic(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        start: int | datetime | None = None,
        auto_advance: int | timedelta = 0,
    ) -> InputTopic[Any, Any]:
        """An input topic. Serdes that are None: those of the source. `start` None: the wall clock."""
        start_ms = self._wall_ms if start is None else to_time(start)
        source = self._topology.source_of(topic)
        if source is None and self._global_task is not None:
            source = self._global_task.topology.source_of(topic)
        if source is None:
            raise ValueError(f"topic {topic} is not an input of the topology")
        serdes = self._serdes(key or source.key, value or source.value)
        return InputTopic(self, topic, serdes, start_ms, to_ms(auto_advance))

    def output_topic(self, topic: str, *, key: Any = None, value: Any = None) -> OutputTopic[Any, Any]:
        """An output topic. Serdes that are None: those of the sink."""
        for node in self._topology.nodes:
            if isinstance(node, SinkSpec) and node.topic == topic:
                key, value = key or node.key, value or node.value
                break
        return OutputTopic(self, topic, self._serdes(key, value))

    def _serdes(self, key: Any, value: Any) -> Serdes:
        defaults = {"key": self.settings.key_serde, "value": self.settings.value_serde}
        return Serdes(resolve(key, "key", **defaults), resolve(value, "value", **defaults))

    @property
    def produced_topic_names(self) -> frozenset[str]:
        """Topics with output, changelogs and repartition topics included."""
        return frozenset(self._history)

    def producer_records(self, topic: str) -> list[ProducedRecord]:
        """All records that were sent to a topic, in bytes, whether they have been read or not."""
        return list(self._history.get(topic, ()))

    def pipe(
        self, topic: str, key: Any, value: Any, timestamp: int, headers: Headers, serdes: Serdes
    ) -> None:
        """Serialize and process one record, and all that follow from it."""
        key_bytes = None if key is None else serializer(serdes.key, "key")(topic, key, headers)
        value_bytes = None if value is None else serializer(serdes.value, "value")(topic, value, headers)
        self.pipe_bytes(topic, key_bytes, value_bytes, timestamp, headers)

    def pipe_bytes(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Process one serialized record, and all that follow from it."""
        is_input, is_global = self._reads(topic)
        if not is_input and not is_global:
            raise ValueError(f"topic {topic} is not an input of the topology")
        if is_input:
            self._enqueue(topic, timestamp, key, value, headers)
            self._process_all()
        if is_global:
            self._update_global(topic, timestamp, key, value, headers)

    def next_output(self, topic: str, serdes: Serdes) -> Record[Any, Any] | None:
        queue = self._outputs.get(topic)
        if not queue:
            return None
        record = queue.popleft()
        key, value = record.key, record.value
        timestamp = self._wall_ms if record.timestamp is None else record.timestamp
        if key is not None:
            key = deserializer(serdes.key, "key")(topic, key, record.headers)
        if value is not None:
            value = deserializer(serdes.value, "value")(topic, value, record.headers)
        return Record(key, value, timestamp, record.headers)

    def outputs_left(self, topic: str) -> int:
        return len(self._outputs.get(topic, ()))

    # clock and stores

    def advance_wall_clock_time(self, by: int | timedelta) -> None:
        """Advance the clock (int: ms), call the punctuators that are due, and process what was waited
        with."""
        self._wall_ms += to_ms(by)
        if self._task is not None:
            self._process_all()  # with the results of async functions up to now
            try:
                self._task.punctuate_wall_time(self._wall_ms)
                self._commit_if_done(self._task)
            except CrashError:
                self._restart()
        self._process_all()

    def store(self, name: str) -> Any:
        """A store of the topology, also a global one. Errors: LookupError."""
        if self._task is not None and name in self._task.stores:
            self._task.context.record_context = RecordContext(0, -1, "", -1)
            return self._task.stores[name]
        if self._global_task is not None and name in self._global_task.stores:
            return self._global_task.stores[name]
        raise LookupError(f"the topology has no store {name}")

    @property
    def stores(self) -> Mapping[str, Any]:
        """All stores by name."""
        found = {} if self._task is None else dict(self._task.stores)
        return found if self._global_task is None else found | dict(self._global_task.stores)

    @property
    def dropped_records(self) -> dict[str, int]:
        """The number of skipped records by reason."""
        found: Counter[str] = Counter()
        for task in (self._task, self._global_task):
            if task is not None:
                found.update(task.context.dropped_records)
        return dict(found)

    # internals

    def _reads(self, topic: str) -> tuple[bool, bool]:
        is_global = self._global_task is not None and topic in self._global_task.topology.sources
        return self._partition(topic) is not None, is_global

    def _partition(self, topic: str) -> TopicPartition | None:
        if topic in self._topology.sources:
            return TopicPartition(topic, 0)
        source = self._topology.source_of(topic)
        return None if source is None or source.pattern is None else TopicPartition(source.pattern.pattern, 0)

    def _next_offset(self, topic: str) -> int:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        return offset

    def _enqueue(
        self, topic: str, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        partition = self._partition(topic)
        assert partition is not None
        offset = self._next_offset(partition.topic)
        record = StoredRecord(topic, 0, offset, timestamp, key, value, headers)
        self._inputs.setdefault(partition, []).append(record)
        if self._task is not None:
            self._task.add_records(partition, (record,))

    def _update_global(
        self, topic: str, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        assert self._global_task is not None
        record = StoredRecord(topic, 0, self._next_offset(topic), timestamp, key, value, headers)
        self._global_task.update(TopicPartition(topic, 0), record, self._wall_ms)
        self._global_task.flush()

    def _produce(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None,
        headers: Headers,
    ) -> None:
        self._step()
        self._sent.append(ProducedRecord(topic, key, value, timestamp, headers, partition))

    def _process_all(self) -> None:
        if self._task is None or not (self._exactly_once and self._task.has_unfinished):
            self._capture()  # else it is part of a transaction
        while self._task is not None:
            try:
                if self._task.process(self._wall_ms):
                    self._task.punctuate_stream_time()
                elif not self._forward_results(self._task):
                    return
                self._commit_if_done(self._task)
            except CrashError:
                self._restart()
            except Exception:
                self._has_failed = True
                raise

    def _forward_results(self, task: Task) -> bool:
        """Let async functions run until a call ends; False if none has ended by now."""
        until_ms = None if self._at_once else self._wall_ms - self._start_ms
        has_ended = self._calls is not None and task.calls.pending > 0 and self._calls.run(until_ms)
        task.forward_results(self._wall_ms)
        return has_ended

    def _commit_if_done(self, task: Task) -> None:
        """Commit, unless something has to wait for the clock."""
        if self._at_once:
            self._end_calls(task)
        elif (task.has_unfinished and not task.calls.is_draining) or not task.drain():
            return
        self._commit(task)

    def _end_calls(self, task: Task) -> None:
        while not task.drain():
            if self._calls is not None and not self._calls.run(None):
                raise StreamsError("an async function waits for something that does not happen in the driver")
            task.forward_results(self._wall_ms)

    def _commit(self, task: Task) -> None:
        """Output and offsets become visible at once; the stores become durable afterwards."""
        offsets = task.prepare_commit()
        self._step()
        self._committed.update(offsets)
        self._capture()
        self._step()
        known = {}
        for store, topic in self._topology.changelogs.items():
            committed = self._committed.get(TopicPartition(topic, 0))
            is_source = topic in self._topology.sources
            known[store] = len(self._history.get(topic, ())) if not is_source else 0
            if is_source and committed is not None:
                known[store] = committed.offset
        task.post_commit(known)

    def _step(self) -> None:
        self.steps += 1
        if self.steps in self._crash_at:
            raise CrashError

    def _restart(self) -> None:
        """Lose the task. What it sent since its last commit is aborted with exactly-once, else it is
        visible."""
        task, self._task = self._task, None
        if task is not None:
            task.lose()
            for name in task.stores:
                self._cache.close(f"{task.id}-{name}")
        if self._exactly_once:
            self._sent.clear()
        self._capture()
        self._task = self._new_task()

    def _capture(self) -> None:
        """Move what was sent to the outputs; what is input as well is processed later, what is global at
        once."""
        sent, self._sent = self._sent, []
        for record in sent:
            topic, key, value, timestamp, headers, _ = record
            timestamp = self._wall_ms if timestamp is None else timestamp
            self._outputs.setdefault(topic, deque()).append(record)
            self._history.setdefault(topic, []).append(record)
            is_input, is_global = self._reads(topic)
            if is_input:
                self._enqueue(topic, timestamp, key, value, headers)
            if is_global:
                self._update_global(topic, timestamp, key, value, headers)

    def close(self) -> None:
        """Close processors and stores, after a last commit.

        Errors: StreamsError for iterators of a store that were not closed.
        """
        counts = {name: getattr(store, "num_open_iterators", 0) for name, store in self.stores.items()}
        leaks = [f"{count} of store {name}" for name, count in counts.items() if count]
        self._close()
        if leaks:
            raise StreamsError(f"iterators were not closed: {', '.join(leaks)}; use a with statement")

    def _close(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # `close` raises an error instead
            self._close_stores()
        self._capture()

    def _close_stores(self) -> None:
        if self._task is not None:
            if not self._has_failed:
                self._end_calls(self._task)
            self._task.suspend()
            if not self._task.calls.pending:
                self._commit(self._task)
            self._task.close()
        if self._calls is not None:
            self._calls.close()
        if self._global_task is not None:
            self._global_task.close()

    def __enter__(self) -> TestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._close()  # the error of the test comes first
