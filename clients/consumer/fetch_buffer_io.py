"""The fetcher behind the lock that event loop and application share. Source: Kafka FetchBuffer.java."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from ...protocol.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import HeadraceError
    from .fetcher import Fetcher


class FetchBuffer:
    """What is fetched and not yet taken by the application, and how the two sides wake each other.

    Invariant: `fetcher`, and the collector that takes from it, change under `lock` only.
    Invariant: after `failure` is set, no poll of the fetcher is scheduled.
    """

    def __init__(
        self, fetcher: Fetcher, call_on_loop: Callable[[Callable[[], None]], object], poll: Callable[[], None]
    ) -> None:
        """`poll` runs on the event loop, where `call_on_loop` brings it; it calls `poll_started` first."""
        self.fetcher = fetcher
        self.lock = threading.Lock()
        self.failure: HeadraceError | None = None  # closed the consumer
        self.is_waiting = False  # the application waits for records
        self.has_group_work = False  # the application must call `Membership.begin` before it takes records
        self._changed = threading.Condition(self.lock)
        self._changed_for_task = asyncio.Event()  # `_changed` for a task on the event loop
        self._wakeups: deque[None] = deque(maxlen=1)  # appended to without the lock: see `wakeup`
        self._call_on_loop, self._poll = call_on_loop, poll
        self._is_poll_scheduled = False

    # --- the application's side -----------------------------------------------------------------------------

    def wait(self, timeout_s: float | None) -> bool:
        """Block the application's thread until there are records, an error or group work; True after
        `wakeup`."""
        if timeout_s is not None and timeout_s <= 0:
            return self.take_wakeup()
        with self._changed:
            if self._must_wait():
                self.is_waiting = True
                self._changed.wait(timeout_s)
                self.is_waiting = False
        return self.take_wakeup()

    async def async_wait(self, timeout_s: float | None) -> bool:
        """`wait` in a task on the event loop; other tasks run at least once."""
        if (timeout_s is None or timeout_s > 0) and self._must_wait():
            self.is_waiting = True
            try:
                await self.async_wait_for_change(timeout_s)
            finally:
                self.is_waiting = False
        else:
            await asyncio.sleep(0)
        return self.take_wakeup()

    def wait_for_change(self, timeout_s: float) -> None:
        """Block the application's thread until the next response, at most `timeout_s`."""
        with self._changed:
            # Bound: a short wait, because the response may have come before it began.
            self._changed.wait(min(max(timeout_s, 0), 0.05))

    async def async_wait_for_change(self, timeout_s: float | None) -> None:
        """`wait_for_change` in a task on the event loop."""
        self._changed_for_task.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed_for_task.wait()
        except TimeoutError:
            return

    def wakeup(self) -> None:
        """End the current `wait`, or else the next one. Takes no lock: a signal handler may call it in a
        thread that holds the lock."""
        self._wakeups.append(None)
        with suppress(RuntimeError):  # the loop of a closed consumer has ended: no call waits
            self._call_on_loop(self.notify)

    def take_wakeup(self) -> bool:
        """Whether `wakeup` was called since the last call of this method."""
        try:
            self._wakeups.pop()
        except IndexError:
            return False
        return True

    def raise_if_closed(self) -> None:
        """Errors: the error that closed the consumer."""
        if self.failure is not None:
            raise self.failure

    def has_news(self) -> bool:
        """Whether the application has something to take: group work, records or an error of a partition."""
        return self.has_group_work or any(
            not state.is_paused if state.batches else state.error is not None
            for state in self.fetcher.states.values()
        )

    def forked(self) -> None:
        """In a forked child: the event loop stayed in the parent, and the lock may be held for ever."""
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self.failure = ClosedError("this consumer belongs to the parent process; make a new one after fork")

    def _must_wait(self) -> bool:
        return not self._wakeups and self.failure is None and not self.has_news()

    # --- the event loop's side ------------------------------------------------------------------------------

    def schedule_poll_if_needed(self) -> None:
        """Poll the fetcher on the event loop if a partition can be fetched again. Under the lock."""
        if self.fetcher.needs_poll:
            self.schedule_poll()

    def schedule_poll(self) -> None:
        """Poll the fetcher on the event loop, once. Under the lock."""
        if not self._is_poll_scheduled and self.failure is None:
            # Order: an interrupt in between schedules it twice; in the other order it would never run.
            self._call_on_loop(self._poll)
            self._is_poll_scheduled = True

    def poll_started(self) -> bool:
        """The scheduled poll runs now; False if the consumer is closed. Under the lock."""
        self._is_poll_scheduled = False
        return self.failure is None

    def notify(self) -> None:
        """Wake the application: there may be something to take."""
        self.notify_thread()
        self._changed_for_task.set()

    def notify_thread(self) -> None:
        """As `notify`, for a blocked thread only."""
        with self._changed:
            self._changed.notify_all()

    def set_group_work(self, has_group_work: bool) -> None:
        """Set `has_group_work`, and wake the application if it is set."""
        self.has_group_work = has_group_work
        if has_group_work:
            self.notify()

    def close(self, failure: HeadraceError) -> bool:
        """Raise `failure` in every waiting and later call; False if the consumer was closed before."""
        with self.lock:
            if self.failure is not None:
                return False
            self.failure = failure
        self.notify()
        return True
