"""The buffer of suppress: changes of a table by time, in memory, with a changelog.

A newer change of a key replaces the buffered one and keeps its place. Keys that changed are logged when the
buffer is flushed, the last value of each. Source: InMemoryTimeOrderedKeyValueChangeBuffer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any

from ..records import Change, RecordContext
from ..topology import java_order
from .formats.buffers import (
    CHANGELOG_HEADERS,
    BufferValue,
    buffer_value_size,
    changelog_bytes,
    changelog_from,
)
from .formats.windows import MAX_TIME
from .serdes import bind_serde
from .stores import Eviction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .stores import ChangelogRecord, StoreContext


class SuppressBuffer:
    """Invariant: `_order` has exactly one (time, key) for each key of `_values`, sorted."""

    persistent = False

    def __init__(self, name: str, serdes: tuple[Any, Any], is_logged: bool = True) -> None:
        self.name = name
        self.is_open = False
        self.buffer_size = 0
        self._serdes = serdes
        self._is_logged = is_logged
        self._values: dict[bytes, tuple[int, BufferValue]] = {}
        self._order: list[tuple[int, bytes]] = []
        self._start = 0  # entries of `_order` before it have been evicted
        self._dirty: dict[bytes, None] = {}
        self._dirty_capacity = 16  # of Java's HashSet, whose order the changelog has; it does not shrink

    def init(self, context: StoreContext) -> None:
        """Errors: TypeError without serdes."""
        self._context = context
        self._key = bind_serde(self._serdes[0], "key", self.name, context)
        self._value = bind_serde(self._serdes[1], "value", self.name, context)
        self.is_open = True

    @property
    def num_records(self) -> int:
        return len(self._values)

    @property
    def min_timestamp(self) -> int:
        return self._order[self._start][0] if self._start < len(self._order) else MAX_TIME

    def put(self, time: int, key: Any, value: Any, context: RecordContext) -> bool:
        """`value` is a `Change`; always buffered. The limits are those of the caller."""
        dumps = self._value.dumps
        key_bytes = self._key.dumps(key)
        new = None if value[0] is None else dumps(value[0])
        old = None if value[1] is None else dumps(value[1])
        buffered = self._values.get(key_bytes)
        prior = old if buffered is None else buffered[1].prior
        self._put(time, key_bytes, BufferValue(prior, old, new, context))
        if self._is_logged:
            self._dirty[key_bytes] = None
        return True

    def _put(self, time: int, key: bytes, value: BufferValue) -> None:
        buffered = self._values.get(key)
        if buffered is None:
            insort(self._order, (time, key), lo=self._start)
            self.buffer_size += 8 + len(key) + buffer_value_size(value)
        else:
            time = buffered[0]
            self.buffer_size += buffer_value_size(value) - buffer_value_size(buffered[1])
        self._values[key] = time, value

    def evict_while(self, predicate: Callable[[], bool], callback: Callable[[Eviction], None]) -> None:
        """The predicate sees the buffer without what has been evicted before."""
        order, loads = self._order, self._value.loads
        while predicate() and self._start < len(order):
            key = order[self._start][1]
            value = self._values[key][1]
            new = None if value.new is None else loads(value.new)
            old = None if value.old is None else loads(value.old)
            callback(Eviction(self._key.loads(key), Change(new, old), value.context))
            del self._values[key]
            self._start += 1
            self.buffer_size -= 8 + len(key) + buffer_value_size(value)
            if self._is_logged:
                self._dirty[key] = None
        if self._start * 2 > len(order):
            del order[: self._start]
            self._start = 0

    def prior_value_for_buffered(self, key: Any) -> tuple[bool, Any]:
        buffered = self._values.get(self._key.dumps(key))
        if buffered is None:
            return False, None
        prior = buffered[1].prior
        return True, None if prior is None else self._value.loads(prior)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Records of all versions of the changelog."""
        topic = self._context.changelog_for(self.name) or self.name
        for record in records:
            key, buffered = record.key, self._values.get(record.key)
            if record.value is None:
                if buffered is not None:
                    del self._values[key]
                    del self._order[bisect_left(self._order, (buffered[0], key), lo=self._start)]
                    self.buffer_size -= 8 + len(key) + buffer_value_size(buffered[1])
                continue
            context = RecordContext(
                record.timestamp, record.offset, topic, self._context.task_id.partition, record.headers
            )
            prior = None if buffered is None else buffered[1].prior
            time, value = changelog_from(record.value, record.headers, context, prior)
            self._put(time, key, value)

    def flush(self) -> None:
        """Log the keys that changed; comes before the commit of the producer."""
        log = self._context.log_change
        while len(self._dirty) > self._dirty_capacity * 3 // 4:
            self._dirty_capacity *= 2
        for key in java_order.of_bytes(self._dirty, self._dirty_capacity):
            buffered = self._values.get(key)
            if buffered is None:
                log(self.name, key, None, None, ())
            else:
                log(self.name, key, changelog_bytes(buffered[1], buffered[0]), None, CHANGELOG_HEADERS)
        self._dirty.clear()

    @property
    def has_unflushed(self) -> bool:
        return bool(self._dirty)

    def commit(self, changelog_offset: int | None) -> None:
        """Nothing is durable but the changelog."""

    def committed_offset(self) -> int | None:
        return None

    def close(self) -> None:
        self.is_open = False
        self._values.clear()
        self._order.clear()
        self._dirty.clear()
        self._start = self.buffer_size = 0
