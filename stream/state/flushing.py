"""What a cached store does with flushed entries: read the old value, write to store and changelog, forward.

Order: the write comes before the listener, which may read the store. Where the layers below and the listener
can, the entries are written and forwarded by column. Source: CachingKeyValueStore.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from ..column_rows import Column, Rows

if TYPE_CHECKING:
    from ...clients.serdes import Serde
    from ..column_rows import ProcessRows
    from ..processing import FlushListener
    from ..records import RecordContext
    from .stores import StoreContext
    from .thread_cache import CacheEntry

_LONG = Struct(">q")

WriteRows = Callable[[list[bytes], list[bytes | None], list[bytes | None], list[int]], None]
"""Keys of the cache, stored values, the values of the changelog, timestamps in ms."""


class Flusher:
    """`key_of` gives the typed key; `get` and `write` take keys of the cache. `write_rows` writes entries of
    a timestamped store by column; None: they are written one by one. `serdes`: of the cache's keys, where
    these are serialized keys, and of the values without timestamps."""

    def __init__(
        self,
        context: StoreContext,
        key_of: Callable[[bytes], Any],
        get: Callable[[bytes], bytes | None],
        write: Callable[[bytes, bytes | None], None],
        write_rows: WriteRows | None = None,
        serdes: tuple[Serde[Any] | None, Serde[Any] | None] = (None, None),
    ) -> None:
        self._context = context
        self._key_of = key_of
        self._get = get
        self._write = write
        self._write_rows = write_rows
        self._serdes = serdes
        self._listener: FlushListener | None = None
        self._forward_rows: ProcessRows | None = None
        self._loads: Callable[[bytes], Any] = bytes
        self._send_old_values = False

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
            if self._write_rows is not None:
                self._flush_rows(entries, self._write_rows)
            else:
                self._flush_each(entries)
        finally:
            self._context.record_context = current

    def _flush_each(self, entries: list[tuple[bytes, CacheEntry]]) -> None:
        for key, (value, written_by, _, new) in entries:
            assert written_by is not None
            old = self._old(key, value)
            if value is None and old is None and self._listener is not None:
                continue
            self._context.record_context = written_by
            self._write(key, value)
            if self._listener is not None:
                self._forward(key, value, old, written_by, new)

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

    def _flush_rows(self, entries: list[tuple[bytes, CacheEntry]], write_rows: WriteRows) -> None:
        entries, olds = self._changes(entries)
        if not entries:
            return
        keys: list[Any] = [key for key, _ in entries]
        values = [entry[0] for _, entry in entries]
        contexts: Any = [entry[1] for _, entry in entries]
        long_of = _LONG.unpack_from
        plain = [None if value is None else value[8:] for value in values]
        timestamps = [
            where[0] if value is None else long_of(value)[0]
            for value, where in zip(values, contexts, strict=True)
        ]
        write_rows(keys, values, plain, timestamps)
        if self._listener is None:
            return
        if self._forward_rows is None or any(where[4] for where in contexts):
            self._forward_each(entries, olds)
            return
        self._forward_rows(
            Rows(
                Column(make=lambda: list(map(self._key_of, keys)), data=keys, serde=self._serdes[0]),
                Column(make=lambda: self._new_values(entries), data=plain, serde=self._serdes[1]),
                timestamps,
                contexts,
            )
        )

    def _changes(
        self, entries: list[tuple[bytes, CacheEntry]]
    ) -> tuple[list[tuple[bytes, CacheEntry]], list[bytes | None]]:
        """The entries to write, and their old values if these are needed."""
        if self._listener is None:
            return entries, []
        if not self._send_old_values and all(entry[0] is not None for _, entry in entries):
            return entries, []
        found = [(entry, self._old(entry[0], entry[1][0])) for entry in entries]
        kept = [(entry, old) for entry, old in found if entry[1][0] is not None or old is not None]
        return [entry for entry, _ in kept], [old for _, old in kept]

    def _new_values(self, entries: list[tuple[bytes, CacheEntry]]) -> list[Any]:
        loads = self._loads
        return [
            new[0] if new is not None else None if value is None else loads(value)[0]
            for _, (value, _, _, new) in entries
        ]

    def _forward_each(self, entries: list[tuple[bytes, CacheEntry]], olds: list[bytes | None]) -> None:
        for place, (key, (value, written_by, _, new)) in enumerate(entries):
            assert written_by is not None
            self._context.record_context = written_by
            self._forward(key, value, olds[place] if olds else None, written_by, new)
