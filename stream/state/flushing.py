"""What a cached store does with flushed entries: read the old value, write to store and changelog, forward.

Order: the write comes before the listener, which may read the store. Source: CachingKeyValueStore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..processing import FlushListener
    from .stores import StoreContext
    from .thread_cache import CacheEntry


class Flusher:
    """`key_of` gives the typed key; `get` and `write` take keys of the cache."""

    def __init__(
        self,
        context: StoreContext,
        key_of: Callable[[bytes], Any],
        get: Callable[[bytes], bytes | None],
        write: Callable[[bytes, bytes | None], None],
    ) -> None:
        self._context = context
        self._key_of = key_of
        self._get = get
        self._write = write
        self._listener: FlushListener | None = None
        self._loads: Callable[[bytes], Any] = bytes
        self._send_old_values = False

    def listen(self, listener: FlushListener, send_old_values: bool, loads: Callable[[bytes], Any]) -> bool:
        """Forward flushed entries to `listener`, with the values that `loads` reads; True."""
        self._listener = listener
        self._loads = loads
        self._send_old_values = send_old_values
        return True

    def flush(self, entries: list[tuple[bytes, CacheEntry]]) -> None:
        """Each entry has the context of the record that wrote it while it is written and forwarded.

        With a listener, deleting a key that the store does not have is neither written nor forwarded.
        """
        context, listener, send_old_values = self._context, self._listener, self._send_old_values
        get, write, loads, key_of = self._get, self._write, self._loads, self._key_of
        current = context.record_context
        try:
            for key, (value, written_by, _, new) in entries:
                assert written_by is not None
                if listener is None:
                    context.record_context = written_by
                    write(key, value)
                    continue
                old = get(key) if send_old_values or value is None else None
                if value is None and old is None:
                    continue
                context.record_context = written_by
                write(key, value)
                if new is None and value is not None:
                    new = loads(value)
                old_value = loads(old) if send_old_values and old is not None else None
                listener(key_of(key), new, old_value, written_by[0], written_by[4])
        finally:
            context.record_context = current
