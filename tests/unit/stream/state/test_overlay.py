"""Uncommitted writes over the files of a store."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.stream.state.engines import StoreFullError
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.overlay import Overlay


class FullEngine(MemoryEngine):
    """Memory whose disk is full for a while."""

    is_full = True

    def write(self, *arguments: Any, **options: Any) -> None:
        if self.is_full:
            raise StoreFullError("no space left")
        super().write(*arguments, **options)


def test_a_crash_leaves_the_last_commit() -> None:
    """Values, deletes, dropped key spaces and the offset are written together, by the commit alone."""
    engine = MemoryEngine()
    overlay = Overlay(engine)
    overlay.put("1", b"a", b"1")
    overlay.put("2", b"b", b"2")
    overlay.commit(10)
    overlay.put("1", b"a", None)
    overlay.drop("2")
    overlay.put("3", b"c", b"3")
    assert (overlay.get("1", b"a"), overlay.get("2", b"b"), overlay.spaces()) == (None, None, {"1", "3"})
    crashed = Overlay(engine)
    assert (crashed.get("1", b"a"), crashed.get("2", b"b"), crashed.committed_offset()) == (b"1", b"2", 10)
    overlay.commit(11)
    reopened = Overlay(engine)
    assert (reopened.get("1", b"a"), reopened.get("3", b"c")) == (None, b"3")
    assert (reopened.spaces(), reopened.committed_offset()) == ({"1", "3"}, 11)
    assert overlay.uncommitted_bytes == 0


def test_a_failed_commit_is_repeated() -> None:
    """All reads see the writes meanwhile."""
    engine = FullEngine()
    overlay = Overlay(engine)
    overlay.put("1", b"a", b"1")
    with pytest.raises(StoreFullError):
        overlay.commit(5)
    assert overlay.get("1", b"a") == b"1"
    overlay.put("1", b"b", b"2")
    engine.is_full = False
    overlay.commit(6)
    assert list(Overlay(engine).rows("1")) == [(b"a", b"1"), (b"b", b"2")]


def test_an_iterator_has_the_entries_from_before_it_was_made() -> None:
    """Committed and uncommitted ones, in both directions."""
    overlay = Overlay(MemoryEngine())
    for key in (b"a", b"c"):
        overlay.put("1", key, b"1")
    overlay.commit(None)
    overlay.put("1", b"b", b"2")
    overlay.put("1", b"c", None)
    rows, backwards = overlay.rows("1"), overlay.rows("1", b"a", b"c", forward=False)
    overlay.put("1", b"b", b"3")
    overlay.put("1", b"d", b"4")
    assert list(rows) == [(b"a", b"1"), (b"b", b"2")]
    assert list(backwards) == [(b"b", b"2"), (b"a", b"1")]
    assert overlay.approximate_count("1") == 5
    overlay.close()
