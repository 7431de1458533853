"""What users hear of an instance: changes of its state, and how stores are restored."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import StreamsError
from .states import InstanceState

if TYPE_CHECKING:
    from ...protocol.model import TopicPartition

log = logging.getLogger("headrace.stream")

StateListener = Callable[[InstanceState, InstanceState], object]
"""Called with the new and the old state. It must not close the instance, nor wait for a state."""


class RestoreListener:
    """Hears how each store is restored from its changelog, in the thread that restores it. A subclass
    overrides what it needs. An exception ends the thread, but for that of `on_restore_suspended`.

    Source: Kafka StateRestoreListener.java.
    """

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        """`start`: the first offset to read; `end`: the one behind the last. Also if there are none."""

    def on_batch_restored(self, partition: TopicPartition, store: str, last: int, count: int) -> None:
        """`count` records up to offset `last` are in the store."""

    def on_restore_end(self, partition: TopicPartition, store: str, count: int) -> None:
        """The store is complete, after `count` records."""

    def on_restore_suspended(self, partition: TopicPartition, store: str, count: int) -> None:
        """The task was closed after `count` records, before the store was complete."""


class RestoreNotices(RestoreListener):
    """Calls the listener of the user. Errors: StreamsError, which names store and partition."""

    def __init__(self, listener: RestoreListener | None = None) -> None:
        self._listener = listener or RestoreListener()

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        self._call(self._listener.on_restore_start, partition, store, start, end)

    def on_batch_restored(self, partition: TopicPartition, store: str, last: int, count: int) -> None:
        self._call(self._listener.on_batch_restored, partition, store, last, count)

    def on_restore_end(self, partition: TopicPartition, store: str, count: int) -> None:
        self._call(self._listener.on_restore_end, partition, store, count)

    def on_restore_suspended(self, partition: TopicPartition, store: str, count: int) -> None:
        """An error is logged: the task has to be closed."""
        try:
            self._call(self._listener.on_restore_suspended, partition, store, count)
        except StreamsError:
            log.warning("the restore listener failed for a task that is closed", exc_info=True)

    @staticmethod
    def _call(function: Callable[..., object], partition: TopicPartition, store: str, *numbers: int) -> None:
        try:
            function(partition, store, *numbers)
        except Exception as error:
            raise StreamsError(
                f"the restore listener failed for store {store}, partition {partition}:"
                f" {type(error).__name__}: {error}"
            ) from error


class StateNotices:
    """Calls a listener with each change of state, one after the other, in their order. Thread-safe."""

    def __init__(self, listener: StateListener | None) -> None:
        self._listener = listener
        self._waiting: deque[tuple[InstanceState, InstanceState]] = deque()
        self._calls = threading.Lock()

    def add(self, new: InstanceState, old: InstanceState) -> None:
        """Note a change, under the lock of the state; `send` calls the listener."""
        if self._listener is not None:
            self._waiting.append((new, old))

    def send(self) -> None:
        """Call the listener, without the lock of the state. A thread that finds another one calling leaves
        its changes to it. An error is logged."""
        while self._waiting and self._calls.acquire(blocking=False):
            try:
                while self._waiting:
                    new, old = self._waiting.popleft()
                    assert self._listener is not None
                    self._listener(new, old)
            except Exception:
                log.exception("the state listener failed")
            finally:
                self._calls.release()
