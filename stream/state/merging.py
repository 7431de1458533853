"""Newer entries over older ones: those of a cache or an overlay over those of the store below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .thread_cache import NamedCache


def merged(
    over: Iterator[tuple[bytes, bytes | None]], under: Iterable[tuple[bytes, bytes]], forward: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Both are sorted in the direction. Of equal keys the value of `over`; nothing where that is None."""
    newer = next(over, None)
    for row in under:
        key = row[0]
        while newer is not None and newer[0] != key and (newer[0] < key) == forward:
            if newer[1] is not None:
                yield newer[0], newer[1]
            newer = next(over, None)
        if newer is None or newer[0] != key:
            yield row
            continue
        if newer[1] is not None:
            yield key, newer[1]
        newer = next(over, None)
    while newer is not None:
        if newer[1] is not None:
            yield newer[0], newer[1]
        newer = next(over, None)


def cached_rows(
    cache: NamedCache,
    keys: list[bytes],
    accepts: Callable[[bytes], bool] | None = None,
    is_behind: Callable[[bytes], bool] | None = None,
) -> Iterator[tuple[bytes, bytes | None]]:
    """Entries of a cache; those that have left it are skipped. Reading one makes it the most recently used,
    also if it is not accepted, as in Java. `is_behind`: no further entry is looked at."""
    for key in keys:
        entry = cache.get(key)
        if is_behind is not None and is_behind(key):
            return
        if entry is not None and (accepts is None or accepts(key)):
            yield key, entry[0]
