"""What users hear of an instance: changes of its state, and how stores are restored."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from ..errors import StreamsError
from .states import InstanceState

if TYPE_CHECKING:
    from ...protocol.model import TopicPartition

log = logging.getLogger("headrace.stream")

StateListener = Callable[[InstanceState, InstanceState], object]
"""Called with the new and the old state. It must not close the instance, nor wait for a state."""


class SuspendReason(Enum):
    """Why a standby task has ended: it becomes the active task, or other members have the task."""

    PROMOTED = "promoted"
    MIGRATED = "migrated"


class RestoreListener:
    """Callbacks for the restore of each store from its changelog, in the thread that restores it, and for
    the updates of standby tasks. A subclass overrides the methods that it needs. An exception ends the
    thread, except in the methods whose name ends with `suspended`.

    Source: Kafka StateRestoreListener.java, StandbyUpdateListener.java.
    """

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        """`start`: the first offset to read; `end`: the one behind the last. Also if there are none."""

    def on_batch_restored(self, partition: TopicPartition, store: str, last: int, count: int) -> None:
        """`count` records up to offset `last` are in the store."""

    def on_restore_end(self, partition: TopicPartition, store: str, count: int) -> None:
        """The store is complete, after `count` records."""

    def on_restore_suspended(self, partition: TopicPartition, store: str, count: int) -> None:
        """The task was closed after `count` records, before the store was complete."""

    def on_update_start(self, partition: TopicPartition, store: str, start: int) -> None:
        """A standby task begins to read the changelog of a store at offset `start`."""

    def on_batch_loaded(self, partition: TopicPartition, store: str, last: int, count: int, end: int) -> None:
        """A standby task has loaded `count` records up to offset `last`; `end`: that of the changelog, as
        far as it is known."""

    def on_update_suspended(
        self, partition: TopicPartition, store: str, offset: int, end: int, reason: SuspendReason
    ) -> None:
        """The standby task ends; the store has the changelog before `offset`."""


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

    def on_update_start(self, partition: TopicPartition, store: str, start: int) -> None:
        self._call(self._listener.on_update_start, partition, store, start)

    def on_batch_loaded(self, partition: TopicPartition, store: str, last: int, count: int, end: int) -> None:
        self._call(self._listener.on_batch_loaded, partition, store, last, count, end)

    def on_update_suspended(
        self, partition: TopicPartition, store: str, offset: int, end: int, reason: SuspendReason
    ) -> None:
        """An error is logged: the standby task has to end."""
        try:
            self._call(self._listener.on_update_suspended, partition, store, offset, end, reason)
        except StreamsError:
            log.warning("the restore listener failed for a standby task that ends", exc_info=True)

    @staticmethod
    def _call(function: Callable[..., object], partition: TopicPartition, store: str, *numbers: Any) -> None:
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
