"""Makes the processors of a sub-topology and binds each to those that follow it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...clients.producer.partitioner import murmur2_sticky
from ...clients.serdes import Serde, serializer
from ..errors import ProcessorFailedError, StreamsError, TaskMigratedError, TaskRetryError
from ..processors.late_records import side_outputs
from ..records import Record, RecordContext
from ..state.engines import StateStoreError
from ..state.formats.windows import WindowedSerde
from ..topology.serdes import resolve
from ..topology.specs import ProcessorSpec, SinkSpec, SourceSpec, WindowedKeyPartitioner
from .collector import answer
from .context import NodeContext, to_all
from .handlers import Decision, LogAndFail
from .run_rows import run_by_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType, FrameType, TracebackType

    from ...clients.records import Headers
    from ..column_rows import ProcessRows, Rows
    from ..metrics.measures import NodeMeasures, TaskMeasures
    from ..processing import Forward, Processor, ProcessRun
    from ..topology.specs import NodeSpec
    from ..topology.sub_topology import SubTopology
    from .collector import RecordCollector, Serialize
    from .context import TaskContext
    from .handlers import ProcessingHandler


class Node(NamedTuple):
    """A node of a running task. `processor` is None for sources and sinks."""

    name: str
    process: Forward
    processor: Processor | None
    process_rows: ProcessRows | None = None
    process_run: ProcessRun | None = None


class Nodes:
    """The nodes of a task, by name."""

    def __init__(
        self,
        topology: SubTopology,
        context: TaskContext,
        collector: RecordCollector | None,
        handler: ProcessingHandler | None,
    ) -> None:
        """`handler` None: exceptions of processors leave the task without an error handler."""
        self._context = context
        context.fail, context.nodes = self.failed, self
        self._collector = collector
        self._handler = None if _only_fails(handler) else handler
        self.by_name: dict[str, Node] = {}
        self._specs = {spec.name: spec for spec in topology.nodes}
        later: list[tuple[Any, NodeContext]] = []
        # Children before their parents, so that each is bound to their `process`. Processors of users get
        # their `init` afterwards, in the order of the topology, as in Java.
        for spec in reversed(topology.nodes):
            children = {name: self.by_name[name].process for name in topology.children[spec.name]}
            if isinstance(spec, SinkSpec):
                process = self._sink(spec)
                self.by_name[spec.name] = Node(spec.name, process, None, self._sink_rows(spec, process))
            elif isinstance(spec, ProcessorSpec):
                processor = spec.supplier.create()
                sides = side_outputs(spec.supplier)
                rows = self._rows_of([each for each in children if each not in sides])
                node_context = NodeContext(context, spec.name, spec.stores, children, sides, rows)
                if context.measures is not None and getattr(spec.supplier, "keeps_records_back", False):
                    measures = self._measures_of(spec, context.measures, is_end=not children)
                    node_context.forward = measures.counting_output(node_context.forward)
                if getattr(processor, "is_of_user", False):
                    later.append((processor, node_context))
                else:
                    self._init(processor, node_context)
                process = processor.process
                process_rows = getattr(processor, "process_rows", None)
                process_run = getattr(processor, "process_run", None)
                if self._handler is not None:
                    process = self._guarded(spec.name, process, self._handler)
                    process_rows = process_run = None  # the handler may drop a record
                self.by_name[spec.name] = Node(spec.name, process, processor, process_rows, process_run)
            else:
                process = to_all(tuple(children.values()))
                self.by_name[spec.name] = Node(spec.name, process, None, None, self._run_of(tuple(children)))
            if context.measures is not None:
                self._measure(spec, context.measures, is_end=isinstance(spec, SourceSpec) or not children)
        for processor, node_context in reversed(later):
            self._init(processor, node_context)

    def _measure(self, spec: NodeSpec, measures: TaskMeasures, *, is_end: bool) -> None:
        """Count what the node gets."""
        found, node = self._measures_of(spec, measures, is_end=is_end), self.by_name[spec.name]
        self.by_name[spec.name] = node._replace(
            process=found.counting(node.process),
            process_rows=found.counting_rows(node.process_rows),
            process_run=found.counting_run(node.process_run),
        )

    def _measures_of(self, spec: NodeSpec, measures: TaskMeasures, *, is_end: bool) -> NodeMeasures:
        return measures.node(spec.name, is_end=is_end, has_stores=bool(getattr(spec, "stores", ())))

    def _rows_of(self, children: Sequence[str]) -> ProcessRows | None:
        """That of the only child, without those that get late records alone."""
        return self.by_name[children[0]].process_rows if len(children) == 1 else None

    def _run_of(self, children: Sequence[str]) -> ProcessRun | None:
        """That of the only child of a source."""
        if len(children) != 1:
            return None
        child = self.by_name[children[0]]
        if child.process_run is not None or child.process_rows is None:
            return child.process_run
        return run_by_rows(child.process, child.process_rows, self._context.current)

    def _init(self, processor: Processor, context: NodeContext) -> None:
        current = self._context.current
        current.start_without_record(self._context.wall_ms)
        try:
            processor.init(context)
        except Exception as error:
            raise StreamsError(f"processor {context.name} failed to initialize") from error
        finally:
            current.finish()

    def close(self, *, users_too: bool = True) -> None:
        """Close all processors; the last error is raised when all have been closed. `users_too` False: those
        of users are lost, as in a crash."""
        failed: Exception | None = None
        for node in reversed(self.by_name.values()):
            if node.processor is None or (getattr(node.processor, "is_of_user", False) and not users_too):
                continue
            try:
                node.processor.close()
            except Exception as error:  # noqa: BLE001  # the others are to be closed first
                failed = error
                failed.add_note(f"raised while processor {node.name} was closed")
        if failed is not None:
            raise failed

    # sinks

    def _sink(self, spec: SinkSpec) -> Forward:
        context, collector = self._context, self._collector
        name, partitioner = spec.name, spec.partitioner
        if collector is None:
            raise StreamsError(f"sink {name} cannot be part of the topology of a global store")
        serialize_key = self._serializer(spec.key, "key", name)
        serialize_value = self._serializer(spec.value, "value", name)
        if isinstance(partitioner, WindowedKeyPartitioner):
            partitioner = _by_key_of_window(self._serializer(partitioner.inner, "key", name))
        send = collector.send
        if isinstance(spec.topic, str):
            topic = spec.topic

            def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                send(name, topic, key, value, timestamp, headers, serialize_key, serialize_value, partitioner)

            return process
        extract = spec.topic

        def process_dynamic(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            now = context.record_context
            if now is None:
                now = RecordContext(timestamp, -1, "", -1, headers)
            topic = extract(key, value, now._replace(timestamp=timestamp, headers=headers))
            if not isinstance(topic, str):
                raise TypeError(f"the function of the topic must return its name, not {topic!r}")
            send(name, topic, key, value, timestamp, headers, serialize_key, serialize_value, partitioner)

        return process_dynamic

    def _sink_rows(self, spec: SinkSpec, process: Forward) -> ProcessRows | None:
        """None where the topic or the partition depends on the record, or a serde on the topic."""
        key, value = (self._serde(spec.key, "key", spec.name), self._serde(spec.value, "value", spec.name))
        collector, context = self._collector, self._context
        is_plain = isinstance(key, Serde) and isinstance(value, Serde)
        if not is_plain or not isinstance(spec.topic, str):
            return None
        assert collector is not None
        send, topic, has_windows = collector.send_rows, spec.topic, False
        if isinstance(spec.partitioner, WindowedKeyPartitioner):
            inner = self._serde(spec.partitioner.inner, "key", spec.name)
            if not isinstance(key, WindowedSerde) or key.inner is not inner:
                return None
            send, has_windows = partial(collector.send_windows, times_bytes=key.times_bytes), True
        elif spec.partitioner is not None:
            return None

        def process_rows(rows: Rows) -> None:
            try:
                keys, values = rows.keys.dumps(key), rows.values.dumps(value)
            except Exception:  # noqa: BLE001  # of the user's serde; it is raised again for its record
                each(rows)
                return
            if has_windows and None in keys:  # no window: the partitioner of its record fails
                each(rows)
                return
            send(topic, keys, values, rows.timestamps)
            if context.measures is not None:
                context.measures.sent_rows(spec.name, topic, keys, values)

        def each(rows: Rows) -> None:
            columns = rows.keys.items, rows.values.items, rows.timestamps, rows.contexts.items
            for one_key, one_value, timestamp, where in zip(*columns, strict=True):
                context.record_context = where
                process(one_key, one_value, timestamp, ())

        return process_rows

    def _serde(self, serde: Any, field: str, node: str) -> Any:
        found = resolve(serde, field, key=self._context.key_serde, value=self._context.value_serde)
        if found is None:
            raise StreamsError(f"node {node} has no {field} serde, and the application has no default")
        return found

    def _serializer(self, serde: Any, field: str, node: str) -> Serialize:
        found = self._serde(serde, field, node)
        if isinstance(found, Serde):
            dumps = found.dumps
            return lambda _topic, value, _headers: None if value is None else dumps(value)
        return serializer(found, field)

    # failures

    def _guarded(self, name: str, process: Forward, handler: ProcessingHandler) -> Forward:
        """`process` with a handler that may drop the record."""

        def guarded(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            try:
                process(key, value, timestamp, headers)
            except (ProcessorFailedError, TaskMigratedError, TaskRetryError, StateStoreError):
                raise  # no failure of the user's function: the record is processed again
            except Exception as error:  # noqa: BLE001  # of the user's function; the handler decides
                self.failed(name, Record(key, value, timestamp, headers), error, handler)

        return guarded

    def failed(
        self,
        name: str,
        record: Record[Any, Any] | None,
        error: Exception,
        handler: ProcessingHandler | None = None,
    ) -> None:
        """Ask the handler about an exception; raise unless it decides to continue."""
        asked = handler or self._handler
        if asked is None:
            raise ProcessorFailedError(name) from error
        where = self._context.current.error_context(name, self._context.task_id)
        response = answer(name, lambda: asked.handle(where, record, error), error)
        if self._collector is not None:  # global stores send no dead letters
            self._collector.send_dead_letters(response)
        if response.decision is not Decision.CONTINUE:
            raise ProcessorFailedError(name) from error
        self._context.dropped("processing failed")

    def name_of_failed(self, error: BaseException, source: str) -> str:
        """The innermost processor or sink that was running; without one, the source.

        No processor announces itself: the frames of the traceback are compared with their functions, so that
        a record that does not fail costs nothing.
        """
        if isinstance(error, ProcessorFailedError):
            return error.processor
        by_code = self._by_code(list(self.by_name.values()))
        name = source
        trace: TracebackType | None = error.__traceback__
        while trace is not None:
            name = _node_of(by_code, trace.tb_frame) or name
            trace = trace.tb_next
        return name

    def name_of_running(self, frame: FrameType) -> str | None:
        """The innermost node, sinks included, in the calls of a frame, which may be of another thread."""
        by_code = self._by_code(list(self.by_name.values()))
        found: FrameType | None = frame
        while found is not None:
            name = _node_of(by_code, found)
            if name is not None:
                return name
            found = found.f_back
        return None

    def _by_code(self, nodes: Sequence[Node]) -> dict[CodeType, list[Node]]:
        by_code: dict[CodeType, list[Node]] = {}
        for node in nodes:
            if isinstance(self._specs[node.name], SourceSpec):
                continue  # its function is that of its only child
            for function in (node.process, node.process_rows, node.process_run):
                if function is not None:
                    code = getattr(function, "__func__", function).__code__
                    by_code.setdefault(code, []).append(node)
        return by_code


def _only_fails(handler: ProcessingHandler | None) -> bool:
    return handler is None or (type(handler) is LogAndFail and handler.dead_letter_topic is None)


def _node_of(by_code: Mapping[CodeType, list[Node]], frame: FrameType) -> str | None:
    for node in by_code.get(frame.f_code, ()):
        if any(_is_call_of(each, frame) for each in (node.process, node.process_rows, node.process_run)):
            return node.name
    return None


def _is_call_of(process: Any, frame: FrameType) -> bool:
    if process is None or getattr(process, "__func__", process).__code__ is not frame.f_code:
        return False
    values = frame.f_locals
    owner = getattr(process, "__self__", None)
    if owner is not None:
        return values.get("self") is owner
    cells = getattr(process, "__closure__", None) or ()
    names = process.__code__.co_freevars
    return all(values.get(name) is cell.cell_contents for name, cell in zip(names, cells, strict=True))


def _by_key_of_window(serialize: Serialize) -> Callable[[str, Any, Any, int], int | None]:
    """A partitioner of windowed keys: all windows of a key are in its partition."""

    def choose(topic: str, windowed: Any, _value: Any, count: int) -> int | None:
        return murmur2_sticky(topic, serialize(topic, windowed.key, ()), count)

    return choose
