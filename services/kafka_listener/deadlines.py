"""Deadlines of connections that are not authenticated yet. Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """By connection, in the order in which they were set, which is the order in which they expire as long as
    the timeout does not change."""

    def __init__(self) -> None:
        self._deadlines: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._deadlines)

    def set(self, owner: T, deadline_ms: int) -> None:
        """The connection has until then."""
        self._deadlines[owner] = deadline_ms

    def remove(self, owner: T) -> None:
        """The connection is authenticated, or closed."""
        self._deadlines.pop(owner, None)

    def expired(self, now_ms: int) -> list[T]:
        """Remove and return the connections whose deadline has passed."""
        found = [owner for owner, deadline_ms in self._deadlines.items() if deadline_ms <= now_ms]
        for owner in found:
            del self._deadlines[owner]
        return found
