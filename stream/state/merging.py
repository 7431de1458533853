"""Entries of a cache over those of the store below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .key_value_bytes import Rows
    from .thread_cache import NamedCache


def merged_with_cache(cache: NamedCache, keys: list[bytes], under: Rows, forward: bool) -> Rows:
    """`keys` of the cache and rows of the store in the same direction; entries that left the cache meanwhile
    are skipped. Reading makes an entry the most recently used, as in Java."""
    get = cache.get
    position, count = 0, len(keys)
    for row in under:
        key = row[0]
        is_cached = False
        while position < count:
            cached = keys[position]
            if cached != key and (cached < key) != forward:
                break
            position += 1
            entry = get(cached)
            if cached == key:
                is_cached = entry is not None
            if entry is not None and entry[0] is not None:
                yield cached, entry[0]
            if cached == key:
                break
        if not is_cached:
            yield row
    for cached in keys[position:]:
        entry = get(cached)
        if entry is not None and entry[0] is not None:
            yield cached, entry[0]
