"""A task: processes the records of its input partitions, keeps its stores, and prepares commits.

Pure: the caller passes records, the wall clock and what the producer reports. Order of a commit:
`prepare_commit` flushes caches and returns the offsets; the caller waits for its producer and commits them;
`post_commit` makes the stores durable. Source: StreamTask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ...protocol.model import TopicPartition
from ..errors import ProcessorFailedError, StreamsError, TaskCorruptedError, TaskMigratedError, TaskRetryError
from ..records import Record, RecordMetadata, TaskId
from ..state.engines import DamagedStoreError, StateStoreError
from ..topology.serdes import resolve
from . import commit_metadata
from .collector import RecordCollector, answer
from .columns import Columns
from .context import TaskContext
from .failures import FLUSH_ROUNDS, cause_of, endless_flush, raise_failure
from .handlers import Decision
from .nodes import Nodes
from .partition_group import PartitionGroup
from .record_queue import RecordQueue
from .restoration import Restoration
from .runs import process_next_run
from .states import TRANSITIONS, TaskState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..processing import Section
    from ..topology.sub_topology import SubTopology
    from .async_calls import AsyncCall, CallExecutor
    from .collector import Produce, ProduceRows
    from .columns import ColumnIo
    from .punctuation import Schedule
    from .record_queue import InputRecord
    from .settings import TaskSettings


class CommitOffset(NamedTuple):
    """The next offset of an input partition, with the metadata of Kafka Streams."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class TaskIo:
    """What a task needs from outside. `cache`: the ThreadCache of the worker; `open_calls`: makes what runs
    its async functions. `produce_rows`: `produce` of each record, without headers; None: one by one."""

    produce: Produce
    partitions_of: Callable[[str], int]
    open_engine: Callable[[str], Any]
    cache: Any
    open_calls: Callable[[], CallExecutor] | None = None
    columns: ColumnIo | None = None
    produce_rows: ProduceRows | None = None


class Task:
    """Invariant: records are processed only in RUNNING; `commit_needed` is True after each of them."""

    def __init__(
        self,
        application_id: str,
        partition: int,
        topology: SubTopology,
        config: TaskSettings,
        io: TaskIo,
        *,
        topics: Iterable[str],
        wall_ms: int,
        global_stores: Mapping[str, Any] | None = None,
    ) -> None:
        """`topics`: the input topics that have this partition, or the text of a source's pattern for all
        of its topics together."""
        self.id = TaskId(topology.id, partition)
        self.topology = topology
        self.config = config
        self.state = TaskState.CREATED
        self.commit_needed = False
        self.context = TaskContext(
            application_id, self.id, config, topology.changelogs, io.cache, io.open_engine
        )
        self.columns = Columns(io.columns)
        self.calls = self.context.calls
        self.calls.open_executor = io.open_calls
        self.context.wall_ms = wall_ms
        self.context.global_stores = global_stores or {}
        self.context.stores = {builder.name: builder.build() for builder in topology.stores}
        self.collector = RecordCollector(
            *(self.id, self.context.current, io.produce, io.partitions_of, config.production_handler),
            *(self.context.dropped, io.produce_rows),
        )
        self.context.collector = self.collector
        self._partitions = tuple(TopicPartition(topic, partition) for topic in topics)
        self._nodes: Nodes | None = None
        self.group = PartitionGroup((), config.max_task_idle_ms)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return self._partitions

    @property
    def stores(self) -> Mapping[str, Any]:
        return self.context.stores

    def _move(self, state: TaskState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise StreamsError(f"task {self.id} cannot become {state.value}: it is {self.state.value}")
        self.state = state

    # start

    def initialize(self) -> Restoration:
        """Open the stores. The caller restores them from their changelogs. Errors: StateStoreError."""
        self._move(TaskState.RESTORING)
        self.context.open_stores()
        return self._restoration()

    def _restoration(self, positions: Mapping[str, int] | None = None) -> Restoration:
        topology = self.topology
        return Restoration(
            *(self.id.partition, self.stores, topology.changelogs, topology.sources, self.context.wall_ms),
            positions,
        )

    def complete_restoration(self, committed: Mapping[TopicPartition, str] | None = None) -> None:
        """Initialize the processors. `committed`: the metadata of the committed offsets."""
        self._move(TaskState.RUNNING)
        times = self._use_metadata(committed or {})
        self._nodes = Nodes(self.topology, self.context, self.collector, self.config.processing_handler)
        self.group = PartitionGroup(map(self._queue, self._partitions), self.config.max_task_idle_ms)
        group = self.group
        self.context.stream_time = lambda: group.stream_time
        for partition, partition_time in times.items():
            group.set_partition_time(partition, partition_time)

    def _use_metadata(self, committed: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """The partition times in the metadata of committed offsets; the numbers of processors are kept."""
        metadata = {partition: commit_metadata.decode(text) for partition, text in committed.items()}
        for _, numbers in metadata.values():
            for name, number in numbers.items():
                self.context.metadata[name] = max(number, self.context.metadata.get(name, number))
        return {partition: partition_time for partition, (partition_time, _) in metadata.items()}

    def use_partitions(
        self, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, str] | None = None
    ) -> None:
        """Go on with other input partitions, because topics that match a pattern came or went. Records of
        those that are gone are dropped. `committed` as for `complete_restoration`."""
        self._partitions = tuple(partitions)
        if self.state is not TaskState.RUNNING:
            return  # `complete_restoration` makes the queues
        self.group.use_partitions(self._partitions, self._queue)
        self.columns.keep(self._partitions)
        for partition, partition_time in self._use_metadata(committed or {}).items():
            self.group.set_partition_time(partition, partition_time)
        self.commit_needed = self.context.metadata_changed = True

    def _queue(self, partition: TopicPartition) -> RecordQueue:
        source = self.topology.reader_of(partition.topic)
        if source is None or self._nodes is None:
            raise StreamsError(f"topic {partition.topic} is not an input of task {self.id}")
        defaults = {"key": self.config.key_serde, "value": self.config.value_serde}
        serdes = [resolve(source.key, "key", **defaults), resolve(source.value, "value", **defaults)]
        if None in serdes:
            raise StreamsError(f"source {source.name} has no serde, and the application has no default")
        node = self.context.traced(self._nodes.by_name[source.name])
        return RecordQueue(
            *(partition, node.process, serdes[0], serdes[1]),
            source.timestamp or self.config.timestamp_extractor,
            lambda record, error: self._not_read(source.name, record, error),
            self.context.dropped,
            lambda: self.context.wall_ms,
            node.process_run,
        )

    # records

    def add_records(self, partition: TopicPartition, records: Iterable[InputRecord]) -> bool:
        """Buffer input records. True if the partition has enough and its consumer should be paused."""
        if self.context.measures is not None and (source := self.topology.source_of(partition.topic)):
            records = self.context.measures.take(source.name, partition.topic, records)
        return self.group.add(partition, records) > self.config.buffered_records

    def is_ready(self, wall_ms: int) -> bool:
        """Whether `process` has a record to process now."""
        if self.calls.holds:
            return False
        return self.columns.rows > 0 or self.group.is_ready(wall_ms)

    def add_columns(self, partition: TopicPartition, batch: Any) -> bool:
        """As `add_records`, for an Arrow batch in the layout of ARROW_SCHEMA."""
        self.columns.add(partition, batch)
        return self.buffered(partition) > self.config.buffered_records

    def buffered(self, partition: TopicPartition) -> int:
        """Records of a partition that wait; with those of Arrow batches of all partitions."""
        return len(self.group.queues[partition]) + self.columns.rows

    def process(self, wall_ms: int) -> bool:
        """Process the next record. False if there is none, or if records of other partitions or calls of
        async functions are waited for."""
        if self.calls.holds or not self.group.is_ready(wall_ms):
            return self.columns.rows > 0 and self._process_columns(wall_ms)
        self.context.wall_ms = wall_ms
        taken = self.group.take()
        if taken is None:
            return False
        queue, raw, key, value, timestamp, is_skipped = taken
        if not is_skipped:
            current = self.context.current
            current.start(raw, timestamp)
            try:
                queue.process(key, value, timestamp, raw.headers)
            except Exception as error:  # noqa: BLE001  # of the user's function; the cause is kept
                self._fail(error, raw)
            current.finish()
        queue.consumed = raw.offset
        self.commit_needed = True
        return True

    def process_run(self, wall_ms: int, most: int) -> int:
        """Process up to `most` records, and after each the punctuators that are due at stream time. The
        number of records; below `most`, the task has no more."""
        done = 0
        while done < most:
            count = 0
            if not self.calls.holds and self.group.is_ready(wall_ms):
                self.context.wall_ms, self.commit_needed = wall_ms, True
                count = process_next_run(self.group, self.context, most - done, self._fail)
            if not count:
                if not self.process(wall_ms):
                    break
                count = 1
            if self.context.stream_punctuators:
                self.punctuate_stream_time()
            done += count
        return done

    def _fail(self, error: Exception, raw: InputRecord) -> NoReturn:
        source = self.topology.source_of(raw.topic)
        where = RecordMetadata(raw.topic, raw.partition, raw.offset)
        self._raise(error, source.name if source is not None else raw.topic, where)

    def _process_columns(self, wall_ms: int) -> bool:
        """Process the next Arrow batch; as records, if it cannot be processed by column."""
        if self.calls.holds or self.group.buffered():
            return False  # records of an earlier batch come first
        self.context.wall_ms = wall_ms
        while any(self.context.sections):  # rows of an earlier batch, too
            self._flush_sections(self.context.sections)
        partition, batch = self.columns.take()
        io = self.columns.io
        assert io is not None
        result = self.columns.run(partition, batch)
        if result is None:
            self._flush_sections(self.context.runs)  # rows of earlier batches are older
            return self.group.add(partition, io.records_of(batch)) > 0
        self.group.observe(partition, result.latest_ms)
        (last,) = io.records_of(batch.slice(batch.num_rows - 1))
        path = self.columns.paths[partition.topic]
        if result.rows is not None and path.sink_topic:
            io.produce(path.sink_topic, result.rows)
        elif result.rows is not None:
            self._forward_rows(path.last_section, result, last)
        self.group.queues[partition].consumed = last.offset
        self.commit_needed = True
        return True

    def _forward_rows(self, section: str, result: Any, last: InputRecord) -> None:
        assert self._nodes is not None
        processor: Any = self._nodes.by_name[section].processor
        self.context.current.start(last, last.timestamp)
        try:
            processor.forward_rows(result.rows, result.latest_ms)
        except Exception as error:  # noqa: BLE001  # of the user's function; the cause is kept
            self._raise(error, section, RecordMetadata(last.topic, last.partition, last.offset))
        self.context.current.finish()

    def _raise(self, error: Exception, node: str, where: RecordMetadata | None) -> NoReturn:
        assert self._nodes is not None
        raise_failure(self.id, self._nodes, error, node, self.context.position_of(error, where))

    def forward_results(self, wall_ms: int) -> bool:
        """Forward the results of async functions that have ended; True if there were any."""
        self.context.wall_ms = wall_ms
        forwarded = False
        for call in self.calls.take():
            self._forward_result(call)
            forwarded = self.commit_needed = True
        return forwarded

    def _forward_result(self, call: AsyncCall) -> None:
        assert self._nodes is not None
        current, queue = self.context.current, call.queue
        current.context = call.context
        if call.error is not None and not isinstance(call.error, Exception):
            raise call.error
        try:
            if call.error is None:
                queue.forward(call.key, call.result, call.timestamp, call.headers)
            else:
                record = Record(call.key, call.value, call.timestamp, call.headers)
                self._nodes.failed(queue.node, record, call.error)
        except Exception as error:  # noqa: BLE001  # of the user's function; the cause is kept
            current.context = call.context
            self._raise(error, queue.node, current.metadata)
        current.finish()

    def _not_read(self, source: str, raw: InputRecord, error: Exception) -> None:
        current = self.context.current
        before = current.context
        current.start(raw, raw.timestamp)
        try:
            where = self.collector.error_context(source)
            handler = self.config.deserialization_handler
            response = answer(source, lambda: handler.handle(where, raw, error), error)
            self.collector.send_dead_letters(response)
        finally:
            current.context = before
        if response.decision is not Decision.CONTINUE:
            raise StreamsError(
                f"source {source} of task {self.id} cannot read offset {raw.offset} of"
                f" {raw.topic}-{raw.partition}:"
                f" {type(error).__name__}: {error}"
            ) from error
        self.context.dropped("not readable")

    # time

    def punctuate_stream_time(self) -> bool:
        """Call the punctuators that are due at stream time; after each record or batch."""
        now = self.group.stream_time
        if now < 0 or not self.context.stream_punctuators.punctuate(now, self._punctuate):
            return False
        self.commit_needed = True
        return True

    def next_punctuation(self) -> int | None:
        """The time on the wall clock at which a punctuator is due."""
        return None if self.calls.is_draining else self.context.wall_punctuators.next_due()

    def punctuate_wall_time(self, wall_ms: int) -> bool:
        """Call the punctuators that are due on the wall clock; not while a commit waits for calls."""
        if self.calls.is_draining:
            return False
        self.context.wall_ms = wall_ms
        if not self.context.wall_punctuators.punctuate(wall_ms, self._punctuate):
            return False
        self.commit_needed = True
        return True

    def _punctuate(self, schedule: Schedule, timestamp: int) -> None:
        assert self._nodes is not None
        current = self.context.current
        current.start_without_record(timestamp)
        try:
            schedule.callback(timestamp)
        except ProcessorFailedError as error:
            if error.offsets is not None:
                self._raise(error, schedule.node, None)
            raise self._punctuator_failure(schedule) from cause_of(error)
        except DamagedStoreError as error:
            raise TaskCorruptedError(f"task {self.id}: {error}", self.id) from error
        except (TaskMigratedError, TaskRetryError, StateStoreError):
            raise
        except Exception as error:  # noqa: BLE001  # of the user's function; the handler decides
            try:
                self._nodes.failed(schedule.node, None, error, self.config.processing_handler)
            except ProcessorFailedError as failure:
                raise self._punctuator_failure(schedule) from cause_of(failure)
        finally:
            current.finish()

    def _punctuator_failure(self, schedule: Schedule) -> StreamsError:
        return StreamsError(f"a punctuator of processor {schedule.node} of task {self.id} failed")

    # commit

    @property
    def has_unfinished(self) -> bool:
        """Whether calls of async functions or Arrow sections have records that are not done."""
        return self.calls.pending > 0 or any(self.context.sections)

    @property
    def commit_requested(self) -> bool:
        """A processor has asked for a commit."""
        return self.context.commit_requested

    def drain(self) -> bool:
        """Whether the task can commit now: no call of an async function is left. Until `post_commit` the task
        takes no input record; flushed caches may cause further calls."""
        if self.state is not TaskState.RUNNING:
            return True
        self.calls.drain()
        is_waiting = self.calls.is_draining or any(self.context.runs) or any(self.context.sections)
        if is_waiting and not self.calls.pending:
            self._flush()
        return not self.calls.pending

    def _flush(self) -> None:
        """Runs of records, caches and Arrow sections; flushing one may fill another one, also an earlier one.
        Errors: StreamsError if that does not end."""
        context = self.context
        for _ in range(FLUSH_ROUNDS):
            self._flush_sections(context.runs)
            for store in context.stores.values():
                try:
                    store.flush()
                except Exception as error:  # noqa: BLE001  # of the user's function; the cause is kept
                    self._raise(error, f"behind store {store.name}", None)
            if any(context.runs) or any(store.has_unflushed for store in context.stores.values()):
                continue
            if not any(context.sections):
                return
            self._flush_sections(context.sections)
        raise endless_flush(self.id, context.stores)

    def _flush_sections(self, sections: Iterable[Section]) -> None:
        for section in sections:
            if not section:
                continue
            try:
                section.flush()
            except Exception as error:  # noqa: BLE001  # of the user's function; the cause is kept
                self._raise(error, "behind a batch of records", self.context.current.metadata)

    def prepare_commit(self) -> dict[TopicPartition, CommitOffset]:
        """Flush caches, which forwards and logs; then the offsets to commit. Empty if nothing happened.

        A task with async functions is drained before.
        """
        if not self.commit_needed:
            return {}
        self._flush()
        if self.calls.pending:
            raise StreamsError(f"task {self.id} cannot commit: {self.calls.pending} calls have not ended")
        self.collector.check()
        if self.state not in (TaskState.RUNNING, TaskState.SUSPENDED):
            return {}
        offsets = {}
        for partition, queue in self.group.queues.items():
            if queue.consumed < 0 and not self.context.metadata_changed:
                continue
            offset = queue.next_offset()
            if offset is not None:
                text = commit_metadata.encode(queue.partition_time, self.context.metadata)
                offsets[partition] = CommitOffset(offset, text)
        return offsets

    def post_commit(self, changelog_offsets: Mapping[str, int] | None = None) -> None:
        """The offsets are committed: make the stores durable. `changelog_offsets`: next offset by store
        name."""
        self.calls.resume()
        known = changelog_offsets or {}
        for name, store in self.context.stores.items():
            store.commit(known.get(name))
        self.commit_needed = self.context.commit_requested = self.context.metadata_changed = False

    # end

    def suspend(self) -> None:
        """Close the processors, cancel calls of async functions. A commit may follow, then `close`."""
        was_running = self.state is TaskState.RUNNING
        self._move(TaskState.SUSPENDED)
        self.calls.cancel()
        if was_running and self._nodes is not None:
            self._nodes.close()

    def recycle(self, positions: Mapping[str, int]) -> Restoration:
        """Keep the stores of a suspended task, which is committed, open: they are restored further from
        these offsets of their changelogs, by store name."""
        self._move(TaskState.RESTORING)
        self._nodes = None
        self.group = PartitionGroup((), self.config.max_task_idle_ms)
        self.columns.clear()
        self.context.forget_processing()
        self.calls = self.context.calls
        return self._restoration(positions)

    def lose(self) -> None:
        """As a crash of the process: processors of users are not closed, and operators keep nothing."""
        self.calls.cancel()
        if self._nodes is not None:
            self._nodes.close(users_too=False)

    def close(self) -> None:
        """Close the stores; what was not committed is dropped."""
        self._move(TaskState.CLOSED)
        self.group.clear()
        self.columns.clear()
        for store in self.context.stores.values():
            store.close()
