"""Runs the async functions of users: one event loop for all tasks of an instance, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from ..task.run_call_io import run_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..task.async_calls import AsyncCall

log = logging.getLogger("headrace.stream")

_END_S = 5.0  # for functions that are cancelled, and do something before they end


class FunctionLoop:
    """The event loop, which the first call starts."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call `callback` on the loop, from any thread. Errors: RuntimeError after `close`."""
        loop = self._loop or self._start()
        loop.call_soon_threadsafe(callback)

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(loop,), name=self._name, daemon=True)
                self._thread.start()
                self._loop = loop
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=_END_S))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def close(self) -> None:
        """Cancel what is left, and end the loop. Tasks have been closed before."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        with suppress(RuntimeError):  # closed before
            loop.call_soon_threadsafe(loop.stop)
        thread.join(2 * _END_S)
        if thread.is_alive():
            log.warning("%s: an async function does not end when it is cancelled", self._name)


class ThreadCalls:
    """The calls of the tasks of one stream thread; wakes the thread when a call ends."""

    def __init__(self, loop: FunctionLoop, wake: Callable[[], None]) -> None:
        """`wake` ends the wait of the thread for records."""
        self._loop = loop
        self._wake = wake
        self._is_waiting = False
        self._ended = threading.Event()

    def for_task(self) -> RunningCalls:
        """Runs the calls of one task."""
        return RunningCalls(self._loop, self._notify)

    def _notify(self) -> None:
        self._ended.set()
        if self._is_waiting:
            self._is_waiting = False
            self._wake()

    def begin_wait(self) -> bool:
        """The thread is about to wait for records, until `end_wait`. False if a call has ended: it must not
        wait."""
        self._is_waiting = True
        return not self._ended.is_set()

    def end_wait(self) -> None:
        """The thread is about to take the results."""
        self._is_waiting = False
        self._ended.clear()

    def wait(self, timeout_s: float) -> bool:
        """Wait until a call has ended. False after `timeout_s`."""
        ended = self._ended.wait(timeout_s)
        self._ended.clear()
        return ended


class RunningCalls:
    """The calls of one task. It is a CallExecutor."""

    def __init__(self, loop: FunctionLoop, notify: Callable[[], None]) -> None:
        self._loop = loop
        self._notify = notify
        self._to_start: deque[AsyncCall] = deque()
        self._starts = False
        self._running: dict[asyncio.Task[None], AsyncCall] = {}
        self._ended: deque[AsyncCall] = deque()
        self._is_cancelled = False

    # by the stream thread

    def submit(self, call: AsyncCall) -> None:
        self._to_start.append(call)
        if not self._starts:  # one message to the loop for many calls
            self._starts = True
            self._loop.call_soon(self._start)

    def ended(self) -> Iterator[AsyncCall]:
        while self._ended:
            yield self._ended.popleft()

    def cancel(self) -> None:
        self._is_cancelled = True
        self._ended.clear()
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon(self._cancel)

    # on the loop

    def _start(self) -> None:
        self._starts = False  # before the calls are taken: one that comes later sends a message
        while self._to_start:
            call = self._to_start.popleft()
            if not self._is_cancelled:
                task = asyncio.get_running_loop().create_task(run_call(call))
                self._running[task] = call
                task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        call = self._running.pop(task)
        if not self._is_cancelled:
            self._ended.append(call)
            self._notify()

    def _cancel(self) -> None:
        for task in self._running:
            task.cancel()
