"""The open iterators of a store: those that were not closed are found when the store is closed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from .stores import StoreIterator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..metrics.measures import StoreMeasures


class OpenIterators:
    """Counts the open iterators of one store."""

    __slots__ = ("count", "measures", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.measures: StoreMeasures | None = None  # with metrics.recording.level DEBUG or TRACE

    def open(self, rows: Iterator[Any]) -> StoreIterator[Any]:
        """An iterator that counts until it is closed."""
        self.count += 1
        closed = self._closed if self.measures is None else self.measures.iterator_opened(self._closed)
        return StoreIterator(rows, closed)

    def _closed(self) -> None:
        self.count -= 1

    def warn_of_leaks(self) -> None:
        """A ResourceWarning, an error in tests, if the store is closed while iterators are open."""
        if self.count:
            text = f"{self.count} iterators of store {self.name!r} were not closed: use a with statement"
            self.count = 0
            warnings.warn(text, ResourceWarning, stacklevel=2)
