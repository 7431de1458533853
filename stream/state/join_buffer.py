"""The buffer of a stream-table join with grace: records of the stream by time, persistent, with a changelog.

Source: RocksDBTimeOrderedKeyValueBuffer; KIP-923.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .formats.buffers import (
    BufferValue,
    buffer_value_bytes,
    buffer_value_from,
    buffer_value_size,
    changelog_bytes,
)
from .formats.windows import MAX_SEQNUM, MAX_TIME, split_time_first_key, time_first_key
from .overlay import Overlay
from .serdes import bind_serde
from .stores import Eviction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..records import RecordContext
    from .stores import ChangelogRecord, StoreContext

_RECORDS = "records"


class JoinBuffer:
    """Stream time is that of the buffered records; those more than `grace_ms` older are refused."""

    persistent = True

    def __init__(self, name: str, serdes: tuple[Any, Any], grace_ms: int, is_logged: bool = True) -> None:
        self.name = name
        self.is_open = False
        self.num_records = 0
        self.buffer_size = 0
        self.min_timestamp = MAX_TIME
        self._serdes = serdes
        self._grace_ms = grace_ms
        self._is_logged = is_logged
        self._stream_time = -1
        self._seqnum = 0

    def init(self, context: StoreContext) -> None:
        """Errors: TypeError without serdes; StateStoreError if the files cannot be opened."""
        self._context = context
        self._key = bind_serde(self._serdes[0], "key", self.name, context)
        self._value = bind_serde(self._serdes[1], "value", self.name, context)
        self._overlay = Overlay(context.open_engine(self.name))
        self._stream_time = self._overlay.stream_time()
        for key, data in self._overlay.rows(_RECORDS):
            self._count(key, buffer_value_from(data)[0])
        self.is_open = True

    @property
    def uncommitted_bytes(self) -> int:
        return self._overlay.uncommitted_bytes

    def advance(self, stream_time: int) -> None:
        """Stream time of another stream as well."""
        self._stream_time = max(self._stream_time, stream_time)

    def put(self, time: int, key: Any, value: Any, context: RecordContext) -> bool:
        """`time` is the timestamp of the record. False if it is too late."""
        key_bytes = self._key.dumps(key)  # a null key fails, also a late one, and uses no number
        if self._stream_time - self._grace_ms > time:
            return False
        self._seqnum = (self._seqnum + 1) & MAX_SEQNUM
        store_key = time_first_key(key_bytes, time, self._seqnum)
        buffered = BufferValue(None, None, self._value.dumps(value), context)
        self._overlay.put(_RECORDS, store_key, buffer_value_bytes(buffered))
        if self._is_logged:
            self._context.log_change(self.name, store_key, changelog_bytes(buffered, 0), None, ())
        self._count(store_key, buffered)
        return True

    def _count(self, key: bytes, value: BufferValue) -> None:
        _, time, seqnum = split_time_first_key(key)
        self._stream_time = max(self._stream_time, time)
        self._seqnum = max(self._seqnum, seqnum)
        self.buffer_size += len(key) + buffer_value_size(value)
        self.num_records += 1
        self.min_timestamp = min(self.min_timestamp, time)

    def evict_while(self, predicate: Callable[[], bool], callback: Callable[[Eviction], None]) -> None:
        """Only records that are older than stream time by the grace period are passed on."""
        if not predicate():
            return
        end = time_first_key(b"", max(0, self._stream_time - self._grace_ms + 1))[:9]
        for key, data in self._overlay.rows(_RECORDS, None, end):
            if not predicate():
                break
            value, _ = buffer_value_from(data)
            assert value.new is not None
            typed_key = self._key.loads(split_time_first_key(key)[0])
            callback(Eviction(typed_key, self._value.loads(value.new), value.context))
            self._overlay.put(_RECORDS, key, None)
            if self._is_logged:
                self._context.log_change(self.name, key, None, None, ())
            self.num_records -= 1
            self.buffer_size -= len(key) + buffer_value_size(value)
        later = self._stream_time - self._grace_ms + 1
        self.min_timestamp = later if self.num_records else MAX_TIME

    def prior_value_for_buffered(self, key: Any) -> tuple[bool, Any]:
        """A stream has no prior values."""
        return False, None

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        for record in records:
            old = self._overlay.get(_RECORDS, record.key)
            if old is not None:
                self.num_records -= 1
                self.buffer_size -= len(record.key) + buffer_value_size(buffer_value_from(old)[0])
            if record.value is None:
                self._overlay.put(_RECORDS, record.key, None)
                continue
            value, end = buffer_value_from(record.value)
            self._overlay.put(_RECORDS, record.key, record.value[:end])
            self._count(record.key, value)
        if not self.num_records:
            self.min_timestamp = MAX_TIME

    def flush(self) -> None:
        """Each write is logged at once."""

    @property
    def has_unflushed(self) -> bool:
        return False

    def commit(self, changelog_offset: int | None) -> None:
        self._overlay.commit(changelog_offset, self._stream_time)

    def committed_offset(self) -> int | None:
        return self._overlay.committed_offset()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._overlay.close()
