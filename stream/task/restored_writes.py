"""When restored records are written to the files of their stores: in batches that are large enough for files
of their own (`rocksdict_io.LARGE_BYTES`), within a bound of memory. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .restoration import ChangelogRestore

MOST_BYTES = 64 << 20
"""Of all stores that a thread restores, as they estimate it: Python's objects are most of it."""


def to_commit(changelogs: Sequence[ChangelogRestore]) -> list[ChangelogRestore]:
    """Those whose stores are to be committed: complete ones, those that hold nothing back, and while all
    together hold too much, the one that holds most."""
    held = [
        (getattr(changelog.store, "uncommitted_bytes", 0), place)
        for place, changelog in enumerate(changelogs)
    ]
    chosen = {place for size, place in held if changelogs[place].is_done or not size}
    total = sum(size for size, place in held if place not in chosen)
    for size, place in sorted(held, reverse=True):
        if total > MOST_BYTES and place not in chosen:
            chosen.add(place)
            total -= size
    return [changelogs[place] for place in sorted(chosen)]
