"""A task's context for tests of stores: the changelog is a list, files are in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.stream.records import RecordContext, TaskId
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.stores import ChangelogRecord
from headrace.stream.state.thread_cache import ThreadCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.clients.records import Headers
    from headrace.stream.state.engines import Engine


class FakeStoreContext:
    """`engine_of` opens the files of a store; without it they are in memory, one engine per store name."""

    def __init__(self, cache_bytes: int = 10 << 20, engine_of: Callable[[str], Engine] | None = None) -> None:
        self.task_id = TaskId(0, 0)
        self.record_context: RecordContext | None = RecordContext(0, 0, "topic", 0)
        self.key_serde: Any = None
        self.value_serde: Any = None
        self.cache = ThreadCache(cache_bytes)
        self.changelog: list[ChangelogRecord] = []
        self.dropped_reasons: list[str] = []
        self.engines: dict[str, MemoryEngine] = {}
        self._engine_of = engine_of

    def at(self, timestamp: int, headers: Headers = ()) -> FakeStoreContext:
        """Set the timestamp of the record in process."""
        offset = 0 if self.record_context is None else self.record_context.offset + 1
        self.record_context = RecordContext(timestamp, offset, "topic", 0, headers)
        return self

    def changelog_for(self, store_name: str) -> str | None:
        return f"app-{store_name}-changelog"

    def log_change(
        self, store_name: str, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers
    ) -> None:
        stamp = -1 if timestamp is None else timestamp
        self.changelog.append(ChangelogRecord(key, value, stamp, len(self.changelog), headers))

    def log_rows(
        self, store_name: str, keys: list[bytes], values: list[bytes | None], timestamps: list[int]
    ) -> None:
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            self.log_change(store_name, key, value, timestamp, ())

    def note_failure(self, error: BaseException) -> None:
        """Tasks use it for the text of an error."""

    def dropped(self, reason: str) -> None:
        self.dropped_reasons.append(reason)

    def open_engine(self, store_name: str) -> Engine:
        if self._engine_of is not None:
            return self._engine_of(store_name)
        return self.engines.setdefault(store_name, MemoryEngine())
