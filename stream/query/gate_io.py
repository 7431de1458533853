"""The gate between the readers of a task's stores and the stream thread that closes them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from .errors import StoreMigratedError

if TYPE_CHECKING:
    from types import TracebackType


class QueryGate:
    """A context manager that a reader enters while it uses a store. `close` waits until all readers have
    left, and rejects later ones. Readers stay for one point read or some rows, never for a whole iterator."""

    __slots__ = ("_changed", "_is_closed", "_lock", "_readers", "readers")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._readers = 0
        self._is_closed = False
        self.readers: dict[Any, Any] = {}
        """Of the stores of the task, for the next query."""

    def __enter__(self) -> None:
        """Errors: StoreMigratedError after `close`."""
        with self._lock:
            if self._is_closed:
                raise StoreMigratedError("the task of the store was closed: retry the query")
            self._readers += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._readers -= 1
            if self._is_closed and not self._readers:
                self._changed.notify_all()

    def close(self) -> None:
        """Idempotent. Called before the stores are closed."""
        with self._lock:
            self._is_closed = True
            self._changed.wait_for(lambda: not self._readers)
        self.readers.clear()
