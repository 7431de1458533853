"""What a cached store does with flushed entries: read the old value, write to store and changelog, forward.

Order: all entries are written before the first one is forwarded. The listener may read and write the store,
and so evict entries of the cache, which count as written once they are flushed. Entries that are flushed
meanwhile are forwarded behind those before them: the last forwarded value of a key is that of the store.
Where the layers below and the listener can, entries are written and forwarded by column. Source:
CachingKeyValueStore, which writes and forwards entry by entry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any

from ...runtime.switch_point import switch_point
from ..column_rows import Column, Rows

if TYPE_CHECKING:
    from ...clients.serdes import Serde
    from ..column_rows import ProcessRows
    from ..processing import FlushListener
    from ..records import RecordContext
    from .stores import StoreContext
    from .thread_cache import CacheEntry

PART = 512  # entries that are written and forwarded without a point at which threads may switch

_LONG = Struct(">q")

WriteRows = Callable[[list[bytes], list[bytes | None], list[bytes | None], list[int]], None]
"""Keys of the store, stored values, the values of the changelog, timestamps in ms."""


_Columns = tuple[list[bytes], "list[bytes | None]", list[int]]
"""Keys of the store, plain values, timestamps in ms."""

_Written = tuple[list[tuple[bytes, "CacheEntry"]], list["bytes | None"], "_Columns | None"]
"""Entries that the store has, their old values if these are needed, and the entries by column if they were
written so."""


def _parts(items: list[Any]) -> list[list[Any]]:
    return [items[start : start + PART] for start in range(0, len(items), PART)]


def _same(keys: list[bytes]) -> list[bytes]:
    return keys


@dataclass(frozen=True, slots=True)
class FlushedRows:
    """How a store takes entries by column. `keys_of` gives its keys from those of the cache; `data_of` what
    the serde of the forwarded keys writes, from its keys; `times_of` the timestamps of forwarded records, if
    these are not those of the values. `keeps`: whether the entries of some keys (the second argument) can
    still be read when those of others (the first) are written; None: always."""

    write: WriteRows
    serdes: tuple[Serde[Any] | None, Serde[Any] | None]
    """Of the forwarded keys, and of the values without timestamps."""
    is_timestamped: bool = True
    keys_of: Callable[[list[bytes]], list[bytes]] = _same
    data_of: Callable[[list[bytes]], list[bytes]] = _same
    times_of: Callable[[list[bytes]], list[int]] | None = None
    keeps: Callable[[list[bytes], list[bytes]], bool] | None = None


class Flusher:
    """`key_of` gives the typed key; `get` and `write` take keys of the cache. `rows` None: entries are
    written one by one."""

    def __init__(
        self,
        context: StoreContext,
        key_of: Callable[[bytes], Any],
        get: Callable[[bytes], bytes | None],
        write: Callable[[bytes, bytes | None], None],
        rows: FlushedRows | None = None,
    ) -> None:
        self._context = context
        self._key_of = key_of
        self._get = get
        self._write = write
        self._rows = rows
        self._listener: FlushListener | None = None
        self._forward_rows: ProcessRows | None = None
        self._loads: Callable[[bytes], Any] = bytes
        self._send_old_values = False
        self._written: deque[_Written] = deque()
        self._is_forwarding = False

    def listen(
        self,
        listener: FlushListener,
        send_old_values: bool,
        loads: Callable[[bytes], Any],
        forward_rows: ProcessRows | None = None,
    ) -> bool:
        """Forward flushed entries to `listener`, with the values that `loads` reads; True. `forward_rows`
        takes the new values of entries without headers instead, where old values are not sent."""
        self._listener = listener
        self._forward_rows = None if send_old_values else forward_rows
        self._loads = loads
        self._send_old_values = send_old_values
        return True

    def flush(self, entries: list[tuple[bytes, CacheEntry]]) -> None:
        """Each entry has the context of the record that wrote it while it is written and forwarded.

        With a listener, deleting a key that the store does not have is neither written nor forwarded.
        """
        current = self._context.record_context
        try:
            rows = self._rows
            written = None if rows is None else self._write_rows(entries, rows)
            if written is None:
                written = self._write_each(entries)
            if self._listener is not None:
                self._written += written
                self._forward_written()
        except Exception as error:
            self._context.note_failure(error)
            raise
        finally:
            self._context.record_context = current

    def _forward_written(self) -> None:
        """In order. The listener may cause a further flush, whose entries wait here."""
        if self._is_forwarding:
            return
        self._is_forwarding = True
        try:
            while self._written:
                switch_point()
                entries, olds, columns = self._written.popleft()
                if columns is None or self._forward_rows is None or any(entry[1][4] for _, entry in entries):  # type: ignore[index]
                    self._forward_each(entries, olds)
                else:
                    self._forward_columns(entries, columns)
        finally:
            self._is_forwarding = False
            self._written.clear()  # after an error the task ends

    def _write_each(self, entries: list[tuple[bytes, CacheEntry]]) -> list[_Written]:
        """Each old value is read before its write and behind the earlier writes, which may expire it."""
        kept: list[tuple[bytes, CacheEntry]] = []
        olds: list[bytes | None] = []
        for number, item in enumerate(entries):
            if not number % PART:
                switch_point()
            key, (value, written_by, _, _) = item
            old = self._old(key, value)
            if value is None and old is None and self._listener is not None:
                continue
            self._context.record_context = written_by
            self._write(key, value)
            kept.append(item)
            olds.append(old)
        return [(part, old, None) for part, old in zip(_parts(kept), _parts(olds), strict=True)]

    def _old(self, key: bytes, value: bytes | None) -> bytes | None:
        if self._listener is not None and (self._send_old_values or value is None):
            return self._get(key)
        return None

    def _forward(
        self, key: bytes, value: bytes | None, old: bytes | None, written_by: RecordContext, new: Any
    ) -> None:
        loads = self._loads
        if new is None and value is not None:
            new = loads(value)
        old_value = loads(old) if self._send_old_values and old is not None else None
        assert self._listener is not None
        self._listener(self._key_of(key), new, old_value, written_by[0], written_by[4])

    def _write_rows(
        self, entries: list[tuple[bytes, CacheEntry]], rows: FlushedRows
    ) -> list[_Written] | None:
        """None: nothing was done, because a write would change what the read of an old value gives."""
        read = self._read_before(entries)
        if read and rows.keeps is not None:
            keys = rows.keys_of([key for key, _ in entries])
            if not rows.keeps(keys, rows.keys_of([key for key, _ in read])):
                return None
        entries, olds = self._changes(entries, has_reads=bool(read))
        parts = _parts(entries)
        old_parts = _parts(olds) if olds else [[] for _ in parts]
        return [(part, old, self._write_part(part, rows)) for part, old in zip(parts, old_parts, strict=True)]

    def _write_part(self, entries: list[tuple[bytes, CacheEntry]], rows: FlushedRows) -> _Columns:
        switch_point()
        keys = rows.keys_of([key for key, _ in entries])
        values = [entry[0] for _, entry in entries]
        plain: list[bytes | None] = values
        timestamps = [entry[1][0] for _, entry in entries]  # type: ignore[index]
        if rows.is_timestamped:
            long_of = _LONG.unpack_from
            plain = [None if value is None else value[8:] for value in values]
            timestamps = [
                time if value is None else long_of(value)[0]
                for value, time in zip(values, timestamps, strict=True)
            ]
        rows.write(keys, values, plain, timestamps)
        return keys, plain, timestamps

    def _forward_columns(self, entries: list[tuple[bytes, CacheEntry]], columns: _Columns) -> None:
        keys, plain, timestamps = columns
        rows = self._rows
        assert rows is not None
        assert self._forward_rows is not None
        times = timestamps if rows.times_of is None else rows.times_of(keys)
        key_serde, value_serde = rows.serdes
        key_data: list[bytes | None] = [*rows.data_of(keys)]
        key_column = Column(
            make=lambda: [self._key_of(key) for key, _ in entries], read=lambda: key_data, serde=key_serde
        )
        make_values = self._new_plain_values if rows.is_timestamped else self._new_values
        value_column = Column(make=lambda: make_values(entries), read=lambda: plain, serde=value_serde)
        contexts: Any = [entry[1] for _, entry in entries]
        self._forward_rows(Rows(key_column, value_column, times, Column(contexts)))

    def _read_before(self, entries: list[tuple[bytes, CacheEntry]]) -> list[tuple[bytes, CacheEntry]]:
        """The entries whose old values are needed."""
        if self._listener is None:
            return []
        if self._send_old_values:
            return entries
        return [entry for entry in entries if entry[1][0] is None]

    def _changes(
        self, entries: list[tuple[bytes, CacheEntry]], *, has_reads: bool
    ) -> tuple[list[tuple[bytes, CacheEntry]], list[bytes | None]]:
        """The entries to write, and their old values if these are needed."""
        if not has_reads:
            return entries, []
        found = [(entry, self._old(entry[0], entry[1][0])) for entry in entries]
        kept = [(entry, old) for entry, old in found if entry[1][0] is not None or old is not None]
        return [entry for entry, _ in kept], [old for _, old in kept]

    def _new_values(self, entries: list[tuple[bytes, CacheEntry]]) -> list[Any]:
        loads = self._loads
        return [
            new if new is not None else None if value is None else loads(value)
            for _, (value, _, _, new) in entries
        ]

    def _new_plain_values(self, entries: list[tuple[bytes, CacheEntry]]) -> list[Any]:
        return [None if new is None else new[0] for new in self._new_values(entries)]

    def _forward_each(self, entries: list[tuple[bytes, CacheEntry]], olds: list[bytes | None]) -> None:
        for place, (key, (value, written_by, _, new)) in enumerate(entries):
            assert written_by is not None
            self._context.record_context = written_by
            self._forward(key, value, olds[place] if olds else None, written_by, new)
