"""Key-value stores of bytes: in memory, least recently used, persistent, lists of values.

Ranges are half-open: `from_key` <= key < `to_key`; None: no bound.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from .formats.lists import appended, list_from
from .headers_files import open_files
from .overlay import Overlay
from .sorted_keys import SortedKeys

if TYPE_CHECKING:
    from .stores import StoreContext

Rows = Iterator[tuple[bytes, bytes]]

VALUES = "values"  # the key space of a key-value store


class KeyValueBytes(Protocol):
    """Below the typed store, the cache and the changelog."""

    @property
    def persistent(self) -> bool: ...

    def open(self, context: StoreContext, name: str) -> None: ...

    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """None deletes."""

    def rows(self, from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows: ...

    def approximate_num_entries(self) -> int: ...

    def restore(self, key: bytes, value: bytes | None) -> None: ...

    def commit(self, changelog_offset: int | None) -> None: ...

    def committed_offset(self) -> int | None: ...

    def close(self) -> None: ...


class InMemoryKeyValueBytes:
    """A dict. An iterator has the keys that exist when it is made, without those that are removed later."""

    persistent = False

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._keys: SortedKeys | None = None  # from the first range on
        self.get = self._values.get

    def open(self, context: StoreContext, name: str) -> None:
        """Nothing to open."""

    def put(self, key: bytes, value: bytes | None) -> None:
        values = self._values
        if value is None:
            if values.pop(key, None) is not None and self._keys is not None:
                self._keys.discard(key)
            return
        if self._keys is not None and key not in values:
            self._keys.add(key)
        values[key] = value

    restore = put

    def put_rows(self, keys: list[bytes], values: list[bytes | None]) -> None:
        if self._keys is None and None not in values:
            self._values.update(zip(keys, values, strict=True))  # type: ignore[arg-type]  # no None
            return
        for key, value in zip(keys, values, strict=True):
            self.put(key, value)

    restore_rows = put_rows

    def rows(self, from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows:
        if self._keys is None:
            self._keys = SortedKeys(self._values)
        keys = self._keys.between(from_key, to_key, to_inclusive=False)
        if not forward:
            keys.reverse()
        values = self._values
        return ((key, values[key]) for key in keys if key in values)

    def approximate_num_entries(self) -> int:
        return len(self._values)

    def commit(self, changelog_offset: int | None) -> None:
        """Nothing is durable."""

    def committed_offset(self) -> int | None:
        return None

    def close(self) -> None:
        self._values.clear()
        self._keys = None


class LruKeyValueBytes:
    """The `max_entries` entries that were used last. `on_evicted` gets the key of one that is removed."""

    persistent = False

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._values: OrderedDict[bytes, bytes] = OrderedDict()
        self.on_evicted: Callable[[bytes], None] | None = None

    def open(self, context: StoreContext, name: str) -> None:
        """Nothing to open."""

    def get(self, key: bytes) -> bytes | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        evicted = self._put(key, value)
        if evicted is not None and self.on_evicted is not None:
            self.on_evicted(evicted)

    def restore(self, key: bytes, value: bytes | None) -> None:
        """As `put`; what is evicted is not logged again."""
        self._put(key, value)

    def _put(self, key: bytes, value: bytes | None) -> bytes | None:
        if value is None:
            self._values.pop(key, None)
            return None
        self._values[key] = value
        self._values.move_to_end(key)
        return self._values.popitem(last=False)[0] if len(self._values) > self._max_entries else None

    def rows(self, from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows:
        """A snapshot; reading it does not make an entry more recent."""
        keys = SortedKeys(self._values).between(from_key, to_key, to_inclusive=False)
        if not forward:
            keys.reverse()
        values = self._values
        return iter([(key, values[key]) for key in keys])

    def approximate_num_entries(self) -> int:
        return len(self._values)

    def commit(self, changelog_offset: int | None) -> None:
        """Nothing is durable."""

    def committed_offset(self) -> int | None:
        return None

    def close(self) -> None:
        self._values.clear()


class PersistentKeyValueBytes:
    """Files, and an overlay for the writes since the last commit."""

    persistent = True
    _overlay: Overlay

    get: Callable[[bytes], bytes | None]
    put: Callable[[bytes, bytes | None], None]
    restore: Callable[[bytes, bytes | None], None]
    put_rows: Callable[[list[bytes], list[bytes | None]], None]
    """`put` of each."""
    restore_rows: Callable[[list[bytes], list[bytes | None]], None]
    """`restore` of each."""

    def __init__(self, has_headers: bool = False) -> None:
        self._has_headers = has_headers

    def open(self, context: StoreContext, name: str) -> None:
        files = open_files(context, name, has_headers=self._has_headers)
        self._overlay = Overlay(files, may_divide=True)
        self.get = partial(self._overlay.get, VALUES)
        self.put = self.restore = partial(self._overlay.put, VALUES)
        self.put_rows = self.restore_rows = partial(self._overlay.put_rows, VALUES)

    @property
    def uncommitted_bytes(self) -> int:
        return self._overlay.uncommitted_bytes

    def rows(self, from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows:
        return self._overlay.rows(VALUES, from_key, to_key, forward)

    def approximate_num_entries(self) -> int:
        return self._overlay.approximate_count(VALUES)

    def commit(self, changelog_offset: int | None) -> None:
        self._overlay.commit(changelog_offset)

    def committed_offset(self) -> int | None:
        return self._overlay.committed_offset()

    def close(self) -> None:
        self._overlay.close()


class ListValueBytes:
    """All values that were put for a key, in order; None deletes all. `get` gives the bytes of the list.

    The changelog has the whole list after each put. Source: ListValueStore.
    """

    def __init__(self, inner: KeyValueBytes) -> None:
        self._inner = inner
        self.persistent = inner.persistent
        self.approximate_num_entries = inner.approximate_num_entries
        self.commit = inner.commit
        self.committed_offset = inner.committed_offset
        self.close = inner.close

    def open(self, context: StoreContext, name: str) -> None:
        self._inner.open(context, name)
        self.get = self._inner.get
        self.restore = self._inner.restore

    @property
    def uncommitted_bytes(self) -> int:
        return getattr(self._inner, "uncommitted_bytes", 0)

    def put(self, key: bytes, value: bytes | None) -> None:
        self._inner.put(key, None if value is None else appended(self._inner.get(key), value))

    def rows(self, from_key: bytes | None, to_key: bytes | None, forward: bool) -> Rows:
        """One entry for each value, in the order in which they were put."""
        for key, data in self._inner.rows(from_key, to_key, forward):
            for value in list_from(data):
                assert value is not None
                yield key, value
