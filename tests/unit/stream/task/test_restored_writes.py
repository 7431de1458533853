"""When restored records are written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace.stream.task.restoration import ChangelogRestore
from headrace.stream.task.restored_writes import MOST_BYTES, to_commit


def changelog(name: str, held: int | None, *, is_done: bool = False) -> ChangelogRestore:
    """A store that holds that many bytes back; None: it does not say."""
    store: Any = SimpleNamespace() if held is None else SimpleNamespace(uncommitted_bytes=held)
    return ChangelogRestore(name, store, False, 0, 10, 10 if is_done else 20)


def names(*changelogs: ChangelogRestore) -> list[str]:
    return [found.store_name for found in to_commit(changelogs)]


def test_stores_are_committed_when_they_hold_too_much() -> None:
    """The one that holds most, until the others are within the bound."""
    third = MOST_BYTES // 3
    assert names(changelog("a", third), changelog("b", third), changelog("c", third)) == []
    assert names(changelog("a", third), changelog("b", third + 9), changelog("c", third)) == ["b"]
    assert names(changelog("a", MOST_BYTES), changelog("b", 9), changelog("c", 2 * MOST_BYTES)) == ["a", "c"]
    assert names(changelog("a", MOST_BYTES + 1)) == ["a"]


def test_complete_stores_are_committed() -> None:
    """However little they hold; it does not count for the others."""
    assert names(changelog("a", 5, is_done=True), changelog("b", MOST_BYTES)) == ["a"]
    assert names(changelog("a", MOST_BYTES, is_done=True), changelog("b", MOST_BYTES)) == ["a"]


def test_stores_that_hold_nothing_back_are_committed() -> None:
    """Only their positions change: they cost nothing, and a restart begins there."""
    assert names(changelog("a", 0), changelog("b", None), changelog("c", 5)) == ["a", "b"]
