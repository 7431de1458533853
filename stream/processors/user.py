"""Processors of users: the Processor API of Kafka Streams.

A processor is a class with `process(record)`, and `init(context)` and `close()` if it needs them; or a
function of a record, or of the context and a record, that yields the records to forward.
"""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from ..processing import PunctuationType
from ..records import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...clients.records import Headers
    from ..processing import Cancellable, Processor, ProcessorContext, ProcessorSupplier
    from ..records import RecordMetadata, TaskId

UserProcessor = Any
"""A class or function that makes a processor, a supplier, or a function of a record."""


class UserContext:
    """What a processor may use. Keep it from `init`; it is the same for all records of a task."""

    def __init__(self, context: ProcessorContext) -> None:
        self._context = context
        self._forward = context.forward_changed
        self.application_id: str = context.application_id
        self.task_id: TaskId = context.task_id
        self.config: Any = context.config
        self.key_serde: Any = context.key_serde
        self.value_serde: Any = context.value_serde

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Pass a record to all following processors in order, or to one of them."""
        if child is None:
            self._forward(*record)
        else:
            self._context.forward_to(child, *record)

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the input record; None in a punctuator."""
        return self._context.record_metadata

    def current_stream_time_ms(self) -> int:
        """The highest timestamp that the task has seen, -1 before the first record."""
        return self._context.current_stream_time_ms()

    def current_system_time_ms(self) -> int:
        """The wall clock at which the record or punctuator was started."""
        return self._context.current_system_time_ms()

    def state_store(self, name: str) -> Any:
        """A store that is connected to the processor, or a global one. Errors: LookupError."""
        return self._context.state_store(name)

    def schedule(
        self,
        interval: int | timedelta,
        kind: PunctuationType | str,
        callback: Callable[[int], None],
        start_ms: int | None = None,
    ) -> Cancellable:
        """Call `callback(timestamp)` every `interval` (int: ms) of stream time ("stream") or of the clock
        ("wall").

        The first time: when stream time is known, or after one interval of the clock; with `start_ms`, then.
        """
        interval_ms = interval // timedelta(milliseconds=1) if isinstance(interval, timedelta) else interval
        return self._context.schedule(interval_ms, PunctuationType(kind), callback, start_ms)

    def commit(self) -> None:
        """Ask for a commit as soon as possible."""
        self._context.commit()


_NO_KEY = object()


class FixedKeyContext(UserContext):
    """The context of a processor that must not change keys. Errors: ValueError for a record with another
    key."""

    key: Any = _NO_KEY

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        if record.key is not self.key and record.key != self.key:
            raise ValueError(f"process_values must not change keys: {record.key!r} for {self.key!r}")
        super().forward(record, child)


class UserProcessorAdapter:
    """Runs one processor of a user in a task."""

    is_of_user = True
    """Tasks initialize such processors in the order of the topology."""

    def __init__(self, processor: Any, fixed_key: bool) -> None:
        self._fixed_key = fixed_key
        self._process = processor if callable(processor) else processor.process
        self._init = getattr(processor, "init", None)
        self._close = getattr(processor, "close", None)
        self._is_function = callable(processor)

    def init(self, context: ProcessorContext) -> None:
        self._context = FixedKeyContext(context) if self._fixed_key else UserContext(context)
        if self._is_function:
            self._process = _bound(self._process, self._context)
        elif self._init is not None:
            self._init(self._context)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        record = Record(key, value, timestamp, headers)
        if not self._fixed_key:
            results = self._process(record)
            if results is not None and self._is_function:
                self._forward_all(results, record)
            return
        context = cast("FixedKeyContext", self._context)
        context.key = key
        try:
            results = self._process(record)
            if results is not None and self._is_function:
                self._forward_all(results, record)
        finally:
            context.key = _NO_KEY

    def _forward_all(self, results: Iterable[Any], record: Record[Any, Any]) -> None:
        forward = self._context.forward
        for result in results:
            if isinstance(result, Record):
                forward(result)
            elif self._fixed_key:
                forward(record._replace(value=result))
            else:
                raise TypeError(f"a processor function must yield Records, not {type(result).__name__}")

    def close(self) -> None:
        if self._close is not None and not self._is_function:
            self._close()


def _bound(function: Callable[..., Any], context: UserContext) -> Callable[[Record[Any, Any]], Any]:
    """A function of a record, from one of a record or of context and record."""
    if _required_parameters(function) < 2:
        return function
    return lambda record: function(context, record)


def _required_parameters(function: Callable[..., Any]) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(each.kind in kinds and each.default is each.empty for each in parameters)


class UserProcessorSupplier:
    """Adapts processors of users to the interface of tasks.

    `factory` makes one for each task; `stores` of it makes the builders of the stores that it brings.
    """

    def __init__(self, factory: UserProcessor, *, fixed_key: bool = False) -> None:
        self.factory = factory
        self.fixed_key = fixed_key
        stores = getattr(factory, "stores", None)
        self._stores = tuple(stores()) if callable(stores) else ()

    def create(self) -> Processor:
        """A processor of one task. Errors: TypeError if `factory` makes something else."""
        factory = self.factory
        if inspect.isroutine(factory) and _required_parameters(factory) > 0:
            return UserProcessorAdapter(factory, self.fixed_key)
        processor = factory.create() if hasattr(factory, "create") else factory()
        if not callable(getattr(processor, "process", None)):
            raise TypeError(f"{factory!r} must make objects with a method process(record), not {processor!r}")
        return UserProcessorAdapter(processor, self.fixed_key)

    def stores(self) -> tuple[Any, ...]:
        """The builders of stores that `factory` brings."""
        return self._stores


def user_supplier(processor: UserProcessor, *, fixed_key: bool = False) -> ProcessorSupplier:
    """A supplier for what a user passed. Suppliers of the package stay as they are."""
    if isinstance(processor, UserProcessorSupplier) or hasattr(processor, "bind"):
        return cast("ProcessorSupplier", processor)
    return UserProcessorSupplier(processor, fixed_key=fixed_key)
