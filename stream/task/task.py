"""A task: processes the records of its input partitions, keeps its stores, and prepares commits.

Pure: the caller passes records, the wall clock and what the producer reports. Order of a commit:
`prepare_commit` flushes caches and returns the offsets; the caller waits for its producer and commits them;
`post_commit` makes the stores durable. Source: StreamTask.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.model import TopicPartition
from ..errors import (
    ProcessingError,
    ProcessorFailedError,
    StreamsError,
    TaskCorruptedError,
    TaskMigratedError,
)
from ..processing import TaskId
from ..state.engines import DamagedStoreError, StateStoreError
from ..topology.serdes import resolve
from ..topology.specs import SourceSpec
from . import commit_metadata
from .collector import RecordCollector, answer
from .context import TaskContext
from .handlers import Decision
from .nodes import Nodes
from .partition_group import PartitionGroup
from .record_queue import RecordQueue
from .restoration import Restoration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..topology.sub_topology import SubTopology
    from .collector import Produce
    from .partition_group import Taken
    from .punctuation import Schedule
    from .record_queue import InputRecord
    from .settings import TaskSettings


class TaskState(Enum):
    """The life of a task."""

    CREATED = "created"
    RESTORING = "restoring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CLOSED = "closed"


TRANSITIONS: Mapping[TaskState, tuple[TaskState, ...]] = {
    TaskState.CREATED: (TaskState.RESTORING, TaskState.SUSPENDED),
    TaskState.RESTORING: (TaskState.RUNNING, TaskState.SUSPENDED),
    TaskState.RUNNING: (TaskState.SUSPENDED,),
    TaskState.SUSPENDED: (TaskState.RESTORING, TaskState.CLOSED),
    TaskState.CLOSED: (),
}


class CommitOffset(NamedTuple):
    """The next offset of an input partition, with the metadata of Kafka Streams."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class TaskIo:
    """What a task needs from outside. `cache`: the ThreadCache of the worker."""

    produce: Produce
    partitions_of: Callable[[str], int]
    open_engine: Callable[[str], Any]
    cache: Any


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
        self.restoration: Restoration | None = None
        self.context = TaskContext(
            application_id, self.id, config, topology.changelogs, io.cache, io.open_engine
        )
        self.context.wall_ms = wall_ms
        self.context.global_stores = global_stores or {}
        self.context.stores = {builder.name: builder.build() for builder in topology.stores}
        self.collector = RecordCollector(
            self.id,
            self.context.current,
            io.produce,
            io.partitions_of,
            config.production_handler,
            self.context.dropped,
        )
        self.context.collector = self.collector
        self._partitions = tuple(TopicPartition(topic, partition) for topic in topics)
        self._consumed: dict[TopicPartition, int] = {}
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
        for store in self.context.stores.values():
            store.init(self.context)
        self.restoration = Restoration(
            self.id.partition,
            self.context.stores,
            self.topology.changelogs,
            self.topology.sources,
            self.context.wall_ms,
        )
        return self.restoration

    def complete_restoration(self, committed: Mapping[TopicPartition, str] | None = None) -> None:
        """Initialize the processors. `committed`: the metadata of the committed offsets."""
        self._move(TaskState.RUNNING)
        metadata = {partition: commit_metadata.decode(text) for partition, text in (committed or {}).items()}
        for _, numbers in metadata.values():
            for name, number in numbers.items():
                self.context.metadata[name] = max(number, self.context.metadata.get(name, number))
        self._nodes = Nodes(self.topology, self.context, self.collector, self.config.processing_handler)
        self.group = PartitionGroup(map(self._queue, self._partitions), self.config.max_task_idle_ms)
        group = self.group
        self.context.stream_time = lambda: group.stream_time
        for partition, (partition_time, _) in metadata.items():
            group.set_partition_time(partition, partition_time)

    def _queue(self, partition: TopicPartition) -> RecordQueue:
        source = self._source(partition.topic)
        if source is None or self._nodes is None:
            raise StreamsError(f"topic {partition.topic} is not an input of task {self.id}")
        defaults = {"key": self.config.key_serde, "value": self.config.value_serde}
        serdes = [resolve(source.key, "key", **defaults), resolve(source.value, "value", **defaults)]
        if None in serdes:
            raise StreamsError(f"source {source.name} has no serde, and the application has no default")
        return RecordQueue(
            partition,
            self._nodes.by_name[source.name].process,
            serdes[0],
            serdes[1],
            source.timestamp or self.config.timestamp_extractor,
            lambda record, error: self._not_read(source.name, record, error),
            self.context.dropped,
            lambda: self.context.wall_ms,
        )

    def _source(self, topic: str) -> SourceSpec | None:
        for node in self.topology.nodes:
            if isinstance(node, SourceSpec) and node.pattern is not None and node.pattern.pattern == topic:
                return node
        return self.topology.source_of(topic)

    # records

    def add_records(self, partition: TopicPartition, records: Iterable[InputRecord]) -> bool:
        """Buffer input records. True if the partition has enough and its consumer should be paused."""
        return self.group.add(partition, records) > self.config.buffered_records

    def process(self, wall_ms: int) -> bool:
        """Process the next record. False if there is none, or if records of other partitions are waited
        for."""
        if not self.group.is_ready(wall_ms):
            return False
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
            except DamagedStoreError as error:
                raise TaskCorruptedError(f"task {self.id}: {error}", self.id) from error
            except (TaskMigratedError, StateStoreError):
                raise  # no record causes it: the record is processed again
            except Exception as error:  # noqa: BLE001  # of the user's function; the cause is kept
                raise self._failure(taken, error) from _cause_of(error)
            current.finish()
        self._consumed[queue.partition] = raw.offset
        self.commit_needed = True
        return True

    def _failure(self, taken: Taken, error: Exception) -> StreamsError:
        raw = taken[1]
        assert self._nodes is not None
        source = self.topology.source_of(raw.topic)
        name = self._nodes.name_of_failed(error, source.name if source is not None else raw.topic)
        return ProcessingError(str(self.id), name, raw.topic, raw.partition, raw.offset)

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
                f"task {self.id} cannot read offset {raw.offset} of {raw.topic}-{raw.partition}:"
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

    def punctuate_wall_time(self, wall_ms: int) -> bool:
        """Call the punctuators that are due on the wall clock."""
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
            raise self._punctuator_failure(schedule) from _cause_of(error)
        except DamagedStoreError as error:
            raise TaskCorruptedError(f"task {self.id}: {error}", self.id) from error
        except (TaskMigratedError, StateStoreError):
            raise
        except Exception as error:  # noqa: BLE001  # of the user's function; the handler decides
            try:
                self._nodes.failed(schedule.node, None, error, self.config.processing_handler)
            except ProcessorFailedError as failure:
                raise self._punctuator_failure(schedule) from _cause_of(failure)
        finally:
            current.finish()

    def _punctuator_failure(self, schedule: Schedule) -> StreamsError:
        return StreamsError(f"a punctuator of processor {schedule.node} of task {self.id} failed")

    # commit

    @property
    def commit_requested(self) -> bool:
        """A processor has asked for a commit."""
        return self.context.commit_requested

    def prepare_commit(self) -> dict[TopicPartition, CommitOffset]:
        """Flush caches, which forwards and logs; then the offsets to commit. Empty if nothing happened."""
        if not self.commit_needed:
            return {}
        for store in self.context.stores.values():
            store.flush()
        self.collector.check()
        if self.state not in (TaskState.RUNNING, TaskState.SUSPENDED):
            return {}
        changed = self._partitions if self.context.metadata_changed else tuple(self._consumed)
        offsets = {}
        for partition in changed:
            offset = self.group.next_offset(partition)
            if offset is None and partition in self._consumed:
                offset = self._consumed[partition] + 1
            if offset is not None:
                time = self.group.queues[partition].partition_time
                text = commit_metadata.encode(time, self.context.metadata)
                offsets[partition] = CommitOffset(offset, text)
        return offsets

    def post_commit(self, changelog_offsets: Mapping[str, int] | None = None) -> None:
        """The offsets are committed: make the stores durable. `changelog_offsets`: next offset by store
        name."""
        known = changelog_offsets or {}
        for name, store in self.context.stores.items():
            store.commit(known.get(name))
        self.commit_needed = self.context.commit_requested = self.context.metadata_changed = False

    # end

    def suspend(self) -> None:
        """Close the processors. A commit may follow, then `close`."""
        was_running = self.state is TaskState.RUNNING
        self._move(TaskState.SUSPENDED)
        if was_running and self._nodes is not None:
            self._nodes.close()

    def close(self) -> None:
        """Close the stores; what was not committed is dropped."""
        self._move(TaskState.CLOSED)
        self.group.clear()
        for store in self.context.stores.values():
            store.close()


def _cause_of(error: BaseException) -> BaseException | None:
    return error.__cause__ if isinstance(error, ProcessorFailedError) else error
