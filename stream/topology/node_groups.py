"""Which nodes share a sub-topology: nodes connected by an edge or by a store. Source: QuickUnion."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class NodeGroups:
    """Disjoint sets of node names."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def add(self, name: str) -> None:
        """A new group of one node."""
        self._parents[name] = name

    def unite(self, name: str, others: Iterable[str]) -> None:
        """Merge the groups of `others` into that of `name`."""
        for other in others:
            self._parents[self._root(name)] = self._root(other)

    def numbered(self) -> dict[int, list[str]]:
        """Node names by sub-topology id. Ids count groups in the order of their first nodes."""
        by_root: dict[str, list[str]] = {}
        for name in self._parents:
            by_root.setdefault(self._root(name), []).append(name)
        return dict(enumerate(by_root.values()))

    def _root(self, name: str) -> str:
        while (parent := self._parents[name]) != name:
            self._parents[name] = self._parents[parent]
            name = parent
        return name
