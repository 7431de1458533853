"""What typed window and session stores have in common: opening, serdes, iterators, commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

from ...clients.serdes import BAD_DATA
from .deferred import DeferredWrites
from .formats.timestamped import pack_long
from .iterators import OpenIterators
from .serdes import always_written, bad_value, bind_serde, kept_types
from .value_formats import PLAIN, TIMESTAMPED, ValueFormat

if TYPE_CHECKING:
    from typing import Self

    from ...clients.serdes import Serde
    from ..column_rows import ProcessRows
    from ..processing import FlushListener
    from .deferred import EntryOf
    from .flushing import WriteRows
    from .stores import ChangelogRecord, StoreContext, StoreIterator
    from .thread_cache import NamedCache

Rows = Iterator[tuple[bytes, bytes]]


class TypedStore:
    """A store of typed keys and values over `inner`, a store of bytes."""

    is_cached = False
    logs_headers: bool
    """Changelog records have the headers of the record that caused them."""

    def __init__(
        self,
        name: str,
        inner: Any,
        serdes: tuple[Any, Any],
        values: ValueFormat = PLAIN,
        is_logged: bool = True,
    ) -> None:
        self.name = name
        self.is_open = False
        self._inner = inner
        self._serdes = serdes
        self._format = values
        self._is_timestamped = values is TIMESTAMPED
        self._is_logged = is_logged
        self._iterators = OpenIterators(name)

        self.logs_headers = values.has_headers

    @property
    def has_headers(self) -> bool:
        """Values have the headers of a record."""
        return self._format.has_headers

    def for_operators(self) -> Self:
        """The store as operators use it: without headers. What they write has none."""
        convert = self._format.for_operators
        if convert is None:
            return self
        serde, same = convert(self._plain_serde), copy(self)
        same._dumps, same._loads = serde.dumps, serde.loads  # noqa: SLF001  # a copy of this store
        return same

    def of_values(self, serde: Serde[Any], _can_wait: Callable[[Any], bool]) -> Self:
        """The store for operators, with another serde of values. It reads and writes the same bytes.
        `_can_wait`: which plain values may wait in front of a cache."""
        same = copy(self)
        values = (self._format.for_operators or self._format.typed)(serde)
        same._dumps, same._loads = values.dumps, values.loads  # noqa: SLF001  # a copy of this store
        return same

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
        self._key_serde, self._plain_serde, value = key, value, self._format.typed(value)
        self._dumps_key, self._loads_key = key.dumps, key.loads
        self._dumps, self._loads = value.dumps, value.loads
        self._context = context
        self._inner.open(context, self.name)
        self.is_open = True

    def _defer(self, cache: NamedCache, entry_of: EntryOf) -> DeferredWrites:
        """What a store with a cache keeps in front of it."""
        is_known = self._is_timestamped or self._format is PLAIN
        fits = always_written(self._plain_serde) if is_known else None
        return DeferredWrites(
            *(self._context, fits, cache.put, entry_of),
            is_timestamped=self._is_timestamped,
            encode=self._dumps,
        )

    def _bytes_of(self, key: Any, value: Any) -> tuple[bytes, bytes | None]:
        """Errors: SerializationError, which names the store."""
        field, failed = "key", key
        try:
            key_bytes = self._dumps_key(key)
            field, failed = "value", value
            return key_bytes, None if value is None else self._dumps(value)
        except BAD_DATA as error:
            raise bad_value(self.name, field, failed, error) from error

    def bytes_of_key(self, key: Any) -> bytes:
        """Errors: SerializationError, which names the store."""
        return self._bytes_of(key, None)[0]

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
        timestamp: int | None = None
        headers = record.headers if self.logs_headers else ()
        if value is not None and self._format is not PLAIN:
            value, timestamp, own_headers = self._format.logged(value)
            headers = own_headers if self.has_headers else headers
        context.log_change(
            self.name, key, value, record.timestamp if timestamp is None else timestamp, headers
        )

    def _rows_writer(
        self, context: StoreContext, put_rows: Callable[[list[bytes], list[bytes | None]], None]
    ) -> WriteRows:
        """Writes entries without headers by column, to the store of bytes and the changelog, whose keys are
        those of the store."""
        name, log_rows = self.name, context.log_rows

        def write_logged(
            keys: list[bytes], values: list[bytes | None], plain: list[bytes | None], timestamps: list[int]
        ) -> None:
            put_rows(keys, values)
            log_rows(name, keys, plain, timestamps)

        def write(
            keys: list[bytes], values: list[bytes | None], _plain: list[bytes | None], _timestamps: list[int]
        ) -> None:
            put_rows(keys, values)

        return write_logged if self._is_logged else write

    def set_flush_listener(
        self, listener: FlushListener, send_old_values: bool, forward_rows: ProcessRows | None = None
    ) -> bool:
        return False

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        is_timestamped, is_plain = self._is_timestamped, self._format is PLAIN
        restored = self._format.restored
        keys: list[bytes] = []
        values: list[bytes | None] = []
        for record in records:
            value = record.value
            if value is not None:
                if is_timestamped:  # inlined from the format: a call for each record
                    value = pack_long(record.timestamp) + value
                elif not is_plain:
                    value = restored(value, record.timestamp, record.headers)
            keys.append(record.key)
            values.append(value)
        restore_rows = getattr(self._inner, "restore_rows", None)
        if restore_rows is not None:
            restore_rows(keys, values)
            return
        restore = self._inner.restore
        for key, value in zip(keys, values, strict=True):
            restore(key, value)

    def flush(self) -> None:
        """Nothing is held back."""

    @property
    def has_unflushed(self) -> bool:
        return False

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
