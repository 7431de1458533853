"""What typed window and session stores have in common: opening, serdes, iterators, commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...clients.serdes import BAD_DATA
from .formats.timestamped import timestamped
from .iterators import OpenIterators
from .serdes import bad_value, bind_serde, kept_types

if TYPE_CHECKING:
    from ..processing import FlushListener
    from .stores import ChangelogRecord, StoreContext, StoreIterator

Rows = Iterator[tuple[bytes, bytes]]


class TypedStore:
    """A store of typed keys and values over `inner`, a store of bytes."""

    logs_headers = False
    """Changelog records have the headers of the record that caused them."""

    def __init__(
        self,
        name: str,
        inner: Any,
        serdes: tuple[Any, Any],
        is_timestamped: bool = False,
        is_logged: bool = True,
    ) -> None:
        self.name = name
        self.is_open = False
        self._inner = inner
        self._serdes = serdes
        self._is_timestamped = is_timestamped
        self._is_logged = is_logged
        self._iterators = OpenIterators(name)

    @property
    def persistent(self) -> bool:
        persistent: bool = self._inner.persistent
        return persistent

    @property
    def uncommitted_bytes(self) -> int:
        """An estimate; see Overlay."""
        return getattr(self._inner, "uncommitted_bytes", 0)

    @property
    def num_open_iterators(self) -> int:
        return self._iterators.count

    def init(self, context: StoreContext) -> None:
        """Errors: TypeError without serdes; StateStoreError if the files cannot be opened."""
        key = bind_serde(self._serdes[0], "key", self.name, context)
        value = bind_serde(self._serdes[1], "value", self.name, context)
        self._kept_types = kept_types(value)
        if self._is_timestamped:
            value = timestamped(value)
        self._dumps_key, self._loads_key = key.dumps, key.loads
        self._dumps, self._loads = value.dumps, value.loads
        self._context = context
        self._inner.open(context, self.name)
        self.is_open = True

    def _bytes_of(self, key: Any, value: Any) -> tuple[bytes, bytes | None]:
        """Errors: SerializationError, which names the store."""
        field, failed = "key", key
        try:
            key_bytes = self._dumps_key(key)
            field, failed = "value", value
            return key_bytes, None if value is None else self._dumps(value)
        except BAD_DATA as error:
            raise bad_value(self.name, field, failed, error) from error

    def _key_bytes(self, key: Any) -> bytes | None:
        return None if key is None else self._dumps_key(key)

    def _iterate(self, rows: Rows, key_of: Callable[[bytes], Any]) -> StoreIterator[Any]:
        loads = self._loads
        return self._iterators.open((key_of(key), loads(value)) for key, value in rows)

    def _log(self, key: bytes, value: bytes | None) -> None:
        """Send a written entry to the changelog, with the timestamp of its value or of the record."""
        context = self._context
        record = context.record_context
        assert record is not None
        timestamp = record.timestamp
        if self._is_timestamped and value is not None:
            timestamp, value = int.from_bytes(value[:8], "big", signed=True), value[8:]
        context.log_change(self.name, key, value, timestamp, record.headers if self.logs_headers else ())

    def set_flush_listener(self, listener: FlushListener, send_old_values: bool) -> bool:
        return False

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        put, is_timestamped = self._inner.restore, self._is_timestamped
        for record in records:
            value = record.value
            if is_timestamped and value is not None:
                value = record.timestamp.to_bytes(8, "big", signed=True) + value
            put(record.key, value)

    def flush(self) -> None:
        """Nothing is held back."""

    def commit(self, changelog_offset: int | None) -> None:
        self._inner.commit(changelog_offset)

    def committed_offset(self) -> int | None:
        offset: int | None = self._inner.committed_offset()
        return offset

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._inner.close()
            self._iterators.warn_of_leaks()
