"""A context that records what one processor does, without a topology. Source: MockProcessorContext."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..processing import PunctuationType
from ..records import RecordContext, RecordMetadata, TaskId
from ..state.engines import StateStoreError
from ..state.memory_engine import MemoryEngine
from ..state.thread_cache import ThreadCache
from ..task.punctuation import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...clients.records import Headers
    from ..records import Record
    from ..state.engines import Engine


class CapturedForward(NamedTuple):
    """A record that was forwarded; `child` None: to all."""

    record: Record[Any, Any]
    child: str | None = None


class CapturedPunctuator(NamedTuple):
    """A scheduled punctuator: call `schedule.callback(timestamp)` to run it."""

    kind: PunctuationType
    schedule: Schedule


class MockProcessorContext:
    """Pass it to `init` of a processor. The times and the position of the input record are attributes to
    set."""

    def __init__(
        self,
        *,
        application_id: str = "mock",
        task_id: TaskId = TaskId(0, 0),  # noqa: B008  # immutable
        config: Any = None,
        key_serde: Any = None,
        value_serde: Any = None,
    ) -> None:
        self.application_id = application_id
        self.task_id = task_id
        self.config = config
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.record_metadata: RecordMetadata | None = None
        self.stream_time_ms = -1
        self.system_time_ms = 0
        self.forwarded: list[CapturedForward] = []
        self.punctuators: list[CapturedPunctuator] = []
        self.is_committed = False
        self.dropped_records: list[str] = []
        self.record_context: RecordContext | None = RecordContext(0, -1, "", -1)
        self.cache = ThreadCache(0)
        self._stores: dict[str, Any] = {}

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        self.forwarded.append(CapturedForward(record, child))

    def forwarded_to(self, child: str) -> list[Record[Any, Any]]:
        """The records that this child gets."""
        return [record for record, to in self.forwarded if to is None or to == child]

    def schedule(
        self,
        interval: int | timedelta,
        kind: PunctuationType | str,
        callback: Callable[[int], None],
        start_ms: int | None = None,
    ) -> Schedule:
        interval_ms = interval // timedelta(milliseconds=1) if isinstance(interval, timedelta) else interval
        schedule = Schedule("mock", interval_ms, callback)
        self.punctuators.append(CapturedPunctuator(PunctuationType(kind), schedule))
        return schedule

    def commit(self) -> None:
        self.is_committed = True

    def current_stream_time_ms(self) -> int:
        return self.stream_time_ms

    def current_system_time_ms(self) -> int:
        return self.system_time_ms

    def add_store(self, store: Any) -> None:
        """Open a store of the processor: what its builder builds, without cache and changelog."""
        store.init(self)
        self._stores[store.name] = store

    def state_store(self, name: str) -> Any:
        """Errors: KeyError for a store that was not added."""
        return self._stores[name]

    # for stores

    def changelog_for(self, store_name: str) -> str | None:
        return None

    def log_change(
        self, store_name: str, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers
    ) -> None:
        """There is no changelog."""

    def log_rows(
        self, store_name: str, keys: list[bytes], values: list[bytes | None], timestamps: list[int]
    ) -> None:
        """There is no changelog."""

    def dropped(self, reason: str) -> None:
        self.dropped_records.append(reason)

    def open_engine(self, store_name: str) -> Engine:
        return MemoryEngine()

    def store_folder(self, store_name: str) -> Path:
        """Errors: StateStoreError, the context has none."""
        raise StateStoreError(f"store {store_name} has no folder here: use a TestDriver with state_dir=")
