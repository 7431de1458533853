"""Loops over all entries of a cache, in a module that is not compiled: threads may switch in each round (see
runtime/switch_point.py). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Entry = TypeVar("Entry", bound=tuple[Any, ...])


def in_order_of_writes(waiting: Mapping[Any, tuple[Any, Any, Any, int]]) -> list[Any]:
    """The places of deferred writes (deferred.Waiting), by the numbers of the last ones."""
    numbers = {write[3]: place for place, write in waiting.items()}
    return [numbers[number] for number in sorted(numbers)]


def entries_of(
    keys: Iterable[bytes], entries: Mapping[bytes, Entry]
) -> tuple[list[tuple[bytes, Entry]], list[bytes]]:
    """Keys with their entries of a cache, and those of them that are deleted."""
    found, deleted = [], []
    for key in keys:
        entry = entries[key]
        found.append((key, entry))
        if entry[0] is None:
            deleted.append(key)
    return found, deleted
