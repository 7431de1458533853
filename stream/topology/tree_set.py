"""Java's TreeSet, for comparators that change while elements are inside.

Then the order depends on the shape of the tree, so insertion and rebalancing are those of a red-black tree as
in java.util.TreeMap. Elements are never removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


class _Entry(Generic[T]):
    __slots__ = ("is_black", "item", "left", "parent", "right")

    def __init__(self, item: T, parent: _Entry[T] | None) -> None:
        self.item = item
        self.parent = parent
        self.left: _Entry[T] | None = None
        self.right: _Entry[T] | None = None
        self.is_black = True


class TreeSet(Generic[T]):
    """Distinct elements, each inserted where `is_before(new, existing)` leads at that moment."""

    def __init__(self, is_before: Callable[[T, T], bool]) -> None:
        self._is_before = is_before
        self._root: _Entry[T] | None = None

    def __iter__(self) -> Iterator[T]:
        path: list[_Entry[T]] = []
        entry = self._root
        while path or entry is not None:
            while entry is not None:
                path.append(entry)
                entry = entry.left
            last = path.pop()
            yield last.item
            entry = last.right

    def add(self, item: T) -> None:
        """Insert `item` unless the search meets it."""
        parent, entry, goes_left = None, self._root, False
        while entry is not None:
            if entry.item is item:
                return
            parent, goes_left = entry, self._is_before(item, entry.item)
            entry = entry.left if goes_left else entry.right
        added = _Entry(item, parent)
        if parent is None:
            self._root = added
        elif goes_left:
            parent.left = added
        else:
            parent.right = added
        self._rebalance(added)

    def _rebalance(self, entry: _Entry[T]) -> None:
        entry.is_black = False
        while (parent := entry.parent) is not None and not parent.is_black:
            grandparent = parent.parent
            assert grandparent is not None, "a red entry has a parent"
            on_left = parent is grandparent.left
            uncle = grandparent.right if on_left else grandparent.left
            if uncle is not None and not uncle.is_black:
                parent.is_black = uncle.is_black = True
                grandparent.is_black = False
                entry = grandparent
                continue
            if entry is (parent.right if on_left else parent.left):
                entry = parent
                self._rotate(entry, to_left=on_left)
                assert entry.parent is not None
                parent = entry.parent
            parent.is_black = True
            grandparent.is_black = False
            self._rotate(grandparent, to_left=not on_left)
        assert self._root is not None
        self._root.is_black = True

    def _rotate(self, down: _Entry[T], *, to_left: bool) -> None:
        up = down.right if to_left else down.left
        assert up is not None
        inner = up.left if to_left else up.right
        if to_left:
            down.right, up.left = inner, down
        else:
            down.left, up.right = inner, down
        if inner is not None:
            inner.parent = down
        up.parent = down.parent
        if down.parent is None:
            self._root = up
        elif down.parent.left is down:
            down.parent.left = up
        else:
            down.parent.right = up
        down.parent = up
