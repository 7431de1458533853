"""The interfaces between the processors of a topology and the task that runs them.

A processor receives key, value, timestamp and headers as plain arguments: no object is made per record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from ..clients.records import Headers
    from .column_rows import ProcessRows
    from .records import Record, RecordContext, RecordMetadata, TaskId, ValueAndTimestamp, Window
    from .task.settings import TaskSettings

Forward = Callable[[Any, Any, int, "Headers"], None]
"""Key, value, timestamp in ms, headers."""


class InputRun(Protocol):
    """Consecutive records of one input partition, by column; `raws` may have more."""

    @property
    def raws(self) -> list[Any]: ...
    @property
    def keys(self) -> list[Any]: ...
    @property
    def values(self) -> list[Any]: ...
    @property
    def timestamps(self) -> list[int]: ...
    @property
    def count(self) -> int:
        """The records that have been begun."""

    @property
    def serdes(self) -> tuple[Any, Any]:
        """That have read keys and values."""

    def has_headers(self) -> bool:
        """Whether any record has."""

    def begin(self, place: int) -> Headers:
        """The record at `place` is the one that is processed from here on; those before are done. Its
        headers."""

    def is_interrupted(self) -> bool:
        """Whether the run has to end behind this record."""


ProcessRun = Callable[[InputRun], None]
"""`process` of each record, in order, until the run is interrupted. The last one that it begins is the last
one that was processed, or the one that failed."""

FlushListener = Callable[[Any, Any, Any, int, "Headers"], None]
"""Key, new and old value as the store returns them (ValueAndTimestamp, or the aggregate of a session store;
None: absent), timestamp and headers of the write. `old` is None unless the listener asked for old values."""


class Takes(Enum):
    """The arguments of a user's function."""

    VALUE = "value"
    KEY_VALUE = "key and value"
    RECORD = "record"


class CallPolicy(NamedTuple):
    """How a task calls an async function. `timeout_ms` covers one record with all attempts; `delays_ms`: the
    pause before each further attempt after an error that is one of `retry_on`."""

    concurrency: int
    ordered: bool
    timeout_ms: int
    delays_ms: tuple[int, ...] = ()
    retry_on: tuple[type[Exception], ...] = (Exception,)


AddCall = Callable[[Callable[..., Any], tuple[Any, ...], Any, Any, int, "Headers"], None]
"""An async function and its arguments; key, value, timestamp and headers of the record."""


class PunctuationType(Enum):
    """The clock of a punctuator."""

    STREAM_TIME = "stream"
    WALL_CLOCK_TIME = "wall"


class Cancellable(Protocol):
    """A scheduled punctuator."""

    def cancel(self) -> None: ...


class ProcessorContext(Protocol):
    """What a task offers to one of its processors."""

    @property
    def name(self) -> str:
        """The name of the processor."""

    @property
    def application_id(self) -> str: ...

    @property
    def task_id(self) -> TaskId: ...

    @property
    def config(self) -> TaskSettings: ...

    @property
    def key_serde(self) -> Any:
        """The default serde of the application; None without one."""

    @property
    def value_serde(self) -> Any: ...

    @property
    def forward(self) -> Forward:
        """To all children in order. With one child it is the `process` of the child: bind it once, in
        `init`."""

    @property
    def forward_changed(self) -> Forward:
        """As `forward`, for records whose timestamp or headers may differ from those that came in."""

    @property
    def forward_rows(self) -> ProcessRows | None:
        """Forwards several records to the one child, those of a table with their new values; None if there
        are several children, or the child takes no rows."""

    record_context: RecordContext | None
    """The record that is being processed. A cache sets that of each entry while it is flushed."""

    @property
    def record_metadata(self) -> RecordMetadata | None: ...

    def forward_of(self, child: str) -> Forward:
        """To the child of this name alone. Errors: ValueError if there is no such child."""

    def forward_to(self, child: str, key: Any, value: Any, timestamp: int, headers: Headers) -> None: ...

    def current_stream_time_ms(self) -> int: ...

    def current_system_time_ms(self) -> int: ...

    def resolve(self, serde: Any, field: str) -> Any:
        """The serde to use for a field, "key" or "value": the default where it is None."""

    def state_store(self, name: str) -> Any:
        """A connected or global store. Errors: LookupError for a store that is not connected."""

    def schedule(
        self,
        interval_ms: int,
        kind: PunctuationType,
        callback: Callable[[int], None],
        start_ms: int | None = None,
    ) -> Cancellable: ...

    def commit(self) -> None:
        """Ask for a commit as soon as possible."""

    def open_calls(self, policy: CallPolicy) -> AddCall:
        """Calls an async function for records; the result is forwarded as the new value of its record."""

    def flush_before_commit(self, section: Section) -> None:
        """The processor keeps records that are not done: they are flushed before each commit."""

    def flush_before_stores(self, section: Section) -> None:
        """The processor keeps records that go into a store: it is flushed before the caches of stores are."""

    def fail(self, record: Record[Any, Any], error: Exception) -> None:
        """Ask the processing handler about the record of `record_context`; returns if the record is dropped.
        Errors: ProcessorFailedError."""

    def dropped(self, reason: str) -> None:
        """Count a record that is skipped, as Kafka's dropped-records metric does."""

    def keep(self, name: str, number: int) -> None:
        """Keep a number with the committed offsets."""

    def kept(self, name: str) -> int | None:
        """A number that `keep` kept, also before the task moved here."""


class Processor(Protocol):
    """One processor of one task."""

    def init(self, context: ProcessorContext) -> None: ...

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None: ...

    # process_rows: ProcessRows, of processors that have it: `process` of each record, which has no headers
    # process_run: ProcessRun, of processors that have it

    def close(self) -> None: ...


class ProcessorSupplier(Protocol):
    """Makes the processor of each task, and names the stores that it brings."""

    def create(self) -> Processor: ...

    def stores(self) -> tuple[Any, ...]:
        """The builders of stores that are added with the processor."""


class Section(Protocol):
    """A processor that keeps records for a batch."""

    def __bool__(self) -> bool:
        """Whether it has any."""

    def flush(self) -> None:
        """Process them."""


class ValueGetter(Protocol):
    """Reads a table at the place of a downstream join."""

    @property
    def is_versioned(self) -> bool:
        """True if `get_as_of` works. Known after `init`."""

    def init(self, context: ProcessorContext) -> None: ...

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None: ...

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None: ...

    def close(self) -> None: ...


class ValueGetterSupplier(Protocol):
    """Makes the value getter of each task."""

    def create(self) -> ValueGetter: ...

    def store_names(self) -> tuple[str, ...]: ...


class TableProcessorSupplier(ProcessorSupplier, Protocol):
    """Makes the processors of a KTable, which receive `Change` values."""

    def view(self) -> ValueGetterSupplier: ...

    def enable_sending_old_values(self, force_materialization: bool) -> bool: ...


class Table(Protocol):
    """What a KTable of the DSL offers to the processors of the tables that are derived from it."""

    def value_getter_supplier(self) -> ValueGetterSupplier: ...

    def enable_sending_old_values(self, force_materialization: bool) -> bool: ...


class TimeWindowDefinition(Protocol):
    """Time windows of a fixed size. `grace_ms` counts from the end of a window."""

    @property
    def size_ms(self) -> int: ...
    @property
    def grace_ms(self) -> int: ...

    def windows_for(self, timestamp: int) -> Sequence[Window]:
        """The windows that contain `timestamp`, by their start."""

    def starts_for(self, timestamp: int) -> Sequence[int]:
        """Their starts alone."""


class SlidingWindowDefinition(Protocol):
    """Windows that are defined by the records: two records at most `time_difference_ms` apart share one."""

    @property
    def time_difference_ms(self) -> int: ...
    @property
    def grace_ms(self) -> int: ...


class SessionWindowDefinition(Protocol):
    """Windows that end when `inactivity_gap_ms` passes without a record."""

    @property
    def inactivity_gap_ms(self) -> int: ...
    @property
    def grace_ms(self) -> int: ...


class CountWindowDefinition(Protocol):
    """Windows of `size` records of a key; a new one starts every `advance` records."""

    @property
    def size(self) -> int: ...
    @property
    def advance(self) -> int: ...

    def first_open(self, count: int) -> int:
        """The start of the oldest window that is not full after `count` records."""


class JoinWindowDefinition(Protocol):
    """A record joins records of the other stream from `before_ms` earlier to `after_ms` later, both
    included."""

    @property
    def before_ms(self) -> int: ...
    @property
    def after_ms(self) -> int: ...
    @property
    def grace_ms(self) -> int: ...
