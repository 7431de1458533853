"""Cycles of dependencies between the operations of a history.

An operation precedes each one that reads its values (wr), and, with `with_ww`, each one that wrote the next
value of a key (ww). A cycle of ww edges alone is G0, which transactions without write isolation allow; a
cycle with a wr edge is G1c: an operation has read an uncommitted value. Source: RELIABILITY 1.1, anomaly 11;
Adya; Tarjan, "Depth-first search and linear graph algorithms" (1972).
"""

from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Generic, TypeVar

N = TypeVar("N", bound="Hashable")


class _Search(Generic[N]):
    """Strongly connected components, without recursion because histories are long."""

    def __init__(self, after: Mapping[N, Collection[N]]) -> None:
        self._after = after
        self._number: dict[N, int] = {}
        self._low: dict[N, int] = {}
        self._open: list[N] = []
        self._is_open: set[N] = set()

    def components(self) -> Iterator[list[N]]:
        """All components with more than one node."""
        for node in self._after:
            if node not in self._number:
                yield from self._visit(node)

    def _visit(self, root: N) -> Iterator[list[N]]:
        self._enter(root)
        path = [(root, iter(self._after[root]))]
        while path:
            node, targets = path[-1]
            for target in targets:
                if target not in self._number:
                    self._enter(target)
                    path.append((target, iter(self._after.get(target, ()))))
                    break
                if target in self._is_open:
                    self._low[node] = min(self._low[node], self._number[target])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    self._low[above] = min(self._low[above], self._low[node])
                if self._low[node] == self._number[node]:
                    found = self._close(node)
                    if len(found) > 1:
                        yield found

    def _enter(self, node: N) -> None:
        self._number[node] = self._low[node] = len(self._number)
        self._open.append(node)
        self._is_open.add(node)

    def _close(self, node: N) -> list[N]:
        found: list[N] = []
        while not found or found[-1] is not node:
            found.append(self._open.pop())
            self._is_open.discard(found[-1])
        return found


def cycles(after: Mapping[N, Collection[N]]) -> Iterator[list[N]]:
    """One of the shortest cycles of each strongly connected component, as a list of its nodes."""
    for component in _Search(after).components():
        inside, shortest = set(component), list[N]()
        for node in component:
            shortest = _way_back(after, node, inside, len(shortest)) or shortest
        yield shortest


def _way_back(after: Mapping[N, Collection[N]], start: N, inside: set[N], limit: int) -> list[N]:
    """The shortest way from a node of a component back to it, below `limit` steps. 0: no limit."""
    before: dict[N, N] = {}
    steps = {start: 1}  # of the cycle that would end behind a node
    queue = deque([start])
    while True:
        node = queue.popleft()
        if limit and steps[node] >= limit:
            return []
        for target in after.get(node, ()):
            if target == start:
                way = [node]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way[::-1]
            if target in inside and target not in before:
                before[target], steps[target] = node, steps[node] + 1
                queue.append(target)
