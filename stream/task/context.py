"""What a task offers to its stores (`TaskContext`) and to each of its processors (`NodeContext`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import StreamsError
from ..metrics.measured_stores import measure
from ..processing import PunctuationType
from ..state.engines import StateStoreError
from ..topology.serdes import resolve
from .async_calls import TaskCalls
from .current_record import CurrentRecord
from .punctuation import PunctuationQueue, Schedule, next_time
from .traced_node import traced

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from ...clients.records import Headers
    from ..column_rows import ProcessRows
    from ..metrics.measures import TaskMeasures
    from ..processing import AddCall, CallPolicy, Cancellable, Forward, Section
    from ..records import Record, RecordContext, RecordMetadata, TaskId
    from .collector import RecordCollector
    from .nodes import Node, Nodes
    from .settings import TaskSettings
    from .traced_node import AroundRecord


class TaskContext:
    """The part of the context that all nodes and stores of a task share."""

    def __init__(
        self,
        application_id: str,
        task_id: TaskId,
        config: TaskSettings,
        changelogs: Mapping[str, str],
        cache: Any,
        open_engine: Callable[[str], Any],
    ) -> None:
        """`open_engine` opens the files of a persistent store; `changelogs`: topic by store name."""
        self.application_id = application_id
        self.task_id = task_id
        self.config = config
        self.key_serde = config.key_serde
        self.value_serde = config.value_serde
        self.cache = cache
        self.open_engine = open_engine
        self.folder: Path | None = None
        """Of the task, for the stores of suppliers."""
        self.gate: Any = None
        """Where queries read the stores in other threads (`QueryGate`); closed before the stores are."""
        self.current = CurrentRecord()
        self.calls = TaskCalls(self.current)
        self.sections: list[Section] = []
        self.runs: list[Section] = []
        """Processors that keep records."""
        self.fail: Callable[[str, Record[Any, Any] | None, Exception], None] | None = None
        self.nodes: Nodes | None = None  # while they run
        self.around_record: AroundRecord | None = None  # with enable.tracing
        self.measures: TaskMeasures | None = None  # with metrics.recording.level DEBUG or TRACE
        self.engines: Mapping[str, Any] = {}  # of the stores with files
        self.stores: dict[str, Any] = {}
        self.global_stores: Mapping[str, Any] = {}
        self.wall_ms = 0
        self.stream_time: Callable[[], int] = lambda: -1
        self.commit_requested = False
        self.dropped_records: dict[str, int] = {}
        self.metadata: dict[str, int] = {}
        """Numbers that processors keep with the committed offsets."""
        self.metadata_changed = False
        self.stream_punctuators = PunctuationQueue()
        self.wall_punctuators = PunctuationQueue()
        self.collector: RecordCollector | None = None
        self._changelogs = changelogs
        self._failure: tuple[BaseException, RecordMetadata | None] | None = None

    def traced(self, node: Node) -> Node:
        """A source node, whose records are processed inside spans with enable.tracing."""
        around = self.around_record
        if around is None:
            return node
        process, process_run = traced(node.process, node.process_run, around, self.current)
        return node._replace(process=process, process_run=process_run)

    def open_stores(self) -> None:
        """Open the stores. Errors: StateStoreError."""
        for name, store in self.stores.items():
            store.init(self)
            if self.measures is not None:
                measure(store, self.measures.store(name))
        if self.collector is not None:
            self.collector.measures = self.measures

    def forget_processing(self) -> None:
        """The processors are closed and everything is committed; the stores stay open, and get their next
        values from their changelogs."""
        executor = self.calls.open_executor
        self.calls = TaskCalls(self.current)
        self.calls.open_executor = executor
        self.current.finish()
        self.sections, self.runs, self.fail, self.nodes = [], [], None, None
        self.stream_time = lambda: -1
        self.commit_requested = self.metadata_changed = False
        self.metadata = {}
        self.stream_punctuators, self.wall_punctuators = PunctuationQueue(), PunctuationQueue()
        self.forget_cached()

    def forget_cached(self) -> None:
        """The stores have got values from their changelogs: what was read before may have changed."""
        for name in self.stores:
            self.cache.forget(f"{self.task_id}-{name}")

    @property
    def record_context(self) -> RecordContext | None:
        return self.current.context

    @record_context.setter
    def record_context(self, context: RecordContext | None) -> None:
        self.current.context = context

    def note_failure(self, error: BaseException) -> None:
        """See StoreContext. The innermost cache comes first."""
        if self._failure is None or self._failure[0] is not error:
            self._failure = error, self.current.metadata

    def position_of(self, error: BaseException, where: RecordMetadata | None) -> RecordMetadata | None:
        """The record that caused an error; `where`, unless it was in a cache."""
        return self._failure[1] if self._failure is not None and self._failure[0] is error else where

    def changelog_for(self, store_name: str) -> str | None:
        return self._changelogs.get(store_name)

    def log_change(
        self, store_name: str, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers
    ) -> None:
        assert self.collector is not None
        partition = self.task_id.partition
        self.collector.produce(self._changelogs[store_name], partition, key, value, timestamp, headers)

    def log_rows(
        self, store_name: str, keys: list[bytes], values: list[bytes | None], timestamps: list[int]
    ) -> None:
        """Send records without headers to the changelog of a store, in order."""
        assert self.collector is not None
        partition = self.task_id.partition
        self.collector.produce_rows(self._changelogs[store_name], partition, keys, values, timestamps)

    def store_folder(self, store_name: str) -> Path:
        """See StoreContext."""
        if self.folder is None:
            raise StateStoreError(
                f"store {store_name} needs a folder for its files: give the TestDriver state_dir="
            )
        return self.folder / store_name

    def dropped(self, reason: str) -> None:
        self.dropped_records[reason] = self.dropped_records.get(reason, 0) + 1

    def keep(self, name: str, number: int) -> None:
        """Keep a number with the offsets of the next commit."""
        self.metadata[name] = number
        self.metadata_changed = True

    def schedule(
        self, node: str, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None],
        start_ms: int | None,
    ) -> Cancellable:  # fmt: skip
        if interval_ms < 1:
            raise ValueError(f"the interval of a punctuator must be at least 1 ms, not {interval_ms}")
        on_wall = kind is PunctuationType.WALL_CLOCK_TIME
        now = self.wall_ms if on_wall else self.stream_time()
        first = start_ms
        if first is None:
            first = now + interval_ms if on_wall else 0
        elif first < now:
            first = next_time(first, interval_ms, now)
        schedule = Schedule(node, interval_ms, callback)
        (self.wall_punctuators if on_wall else self.stream_punctuators).add(first, schedule)
        return schedule


class NodeContext:
    """The context of one node. `forward` is bound once: with one child it is the `process` of the child."""

    def __init__(
        self,
        task: TaskContext,
        name: str,
        stores: Sequence[str],
        children: Mapping[str, Forward],
        side_outputs: Collection[str] = (),
        forward_rows: ProcessRows | None = None,
    ) -> None:
        """`side_outputs`: children that `forward` leaves out. `forward_rows`: of the one child, if it takes
        rows."""
        self.task = task
        self.name = name
        self.application_id = task.application_id
        self.task_id = task.task_id
        self.config = task.config
        self.key_serde = task.key_serde
        self.value_serde = task.value_serde
        self.cache = task.cache
        self.dropped = task.dropped
        self.changelog_for = task.changelog_for
        self.log_change = task.log_change
        self.log_rows = task.log_rows
        self.open_engine = task.open_engine
        self.store_folder = task.store_folder
        self.keep = task.keep
        self._stores = frozenset(stores)
        self._children = children
        self.forward = to_all(
            tuple(process for child, process in children.items() if child not in side_outputs)
        )
        self.forward_changed = task.current.changing(self.forward)
        self.forward_rows = forward_rows

    @property
    def record_context(self) -> RecordContext | None:
        return self.task.current.context

    @record_context.setter
    def record_context(self, context: RecordContext | None) -> None:
        self.task.current.context = context

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return self.task.current.metadata

    def forward_of(self, child: str) -> Forward:
        if child not in self._children:
            known = ", ".join(self._children) or "no children"
            raise ValueError(f"processor {self.name} has no child {child}, but {known}")
        return self._children[child]

    def forward_to(self, child: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.task.current.changing(self.forward_of(child))(key, value, timestamp, headers)

    def kept(self, name: str) -> int | None:
        """A number that `keep` kept, also before the task moved here."""
        return self.task.metadata.get(name)

    def current_stream_time_ms(self) -> int:
        return self.task.stream_time()

    def current_system_time_ms(self) -> int:
        return self.task.wall_ms

    def resolve(self, serde: Any, field: str) -> Any:
        found = resolve(serde, field, key=self.key_serde, value=self.value_serde)
        if found is None:
            raise StreamsError(f"processor {self.name} has no {field} serde, and there is no default")
        return found

    def state_store(self, name: str) -> Any:
        """A connected or global store. Errors: LookupError for a store that is not connected."""
        found = self.task.global_stores.get(name)
        if found is not None:
            return found
        if name not in self._stores:
            raise LookupError(
                f"processor {self.name} is not connected to store {name}: name the store where it is added"
            )
        return self.task.stores[name]

    def schedule(
        self,
        interval_ms: int,
        kind: PunctuationType,
        callback: Callable[[int], None],
        start_ms: int | None = None,
    ) -> Cancellable:
        return self.task.schedule(self.name, interval_ms, kind, callback, start_ms)

    def open_calls(self, policy: CallPolicy) -> AddCall:
        return self.task.calls.open(self.name, policy, self.forward).add

    def flush_before_commit(self, section: Section) -> None:
        self.task.sections.append(section)

    def flush_before_stores(self, section: Section) -> None:
        self.task.runs.append(section)

    def fail(self, record: Record[Any, Any], error: Exception) -> None:
        assert self.task.fail is not None
        self.task.fail(self.name, record, error)

    def commit(self) -> None:
        self.task.commit_requested = True


def to_all(children: tuple[Forward, ...]) -> Forward:
    """Calls all children in order."""
    if len(children) == 1:
        return children[0]
    if len(children) == 2:
        first, second = children

        def to_two(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            first(key, value, timestamp, headers)
            second(key, value, timestamp, headers)

        return to_two

    def forward(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for child in children:
            child(key, value, timestamp, headers)

    return forward
