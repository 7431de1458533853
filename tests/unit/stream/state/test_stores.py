"""Iterators of stores."""

from __future__ import annotations

import pytest
from headrace.stream.state.stores import StoreIterator


def test_iterator_closes_itself_at_its_end_and_once() -> None:
    """The callback counts open iterators: it is called once."""
    closed: list[int] = []
    rows = StoreIterator(iter([(b"a", 1), (b"b", 2)]), lambda: closed.append(1))
    assert rows.peek_next_key() == b"a"
    assert list(rows) == [(b"a", 1), (b"b", 2)]
    rows.close()
    assert closed == [1]
    with pytest.raises(StopIteration):
        rows.peek_next_key()


def test_closed_iterator_has_no_more_rows() -> None:
    """A `with` statement closes it, and the generator below it."""
    states: list[str] = []

    def rows() -> object:
        try:
            yield b"a", 1
            yield b"b", 2
        finally:
            states.append("closed")

    with StoreIterator(rows()) as found:  # type: ignore[arg-type]
        assert next(found) == (b"a", 1)
    assert states == ["closed"]
    assert list(found) == []
