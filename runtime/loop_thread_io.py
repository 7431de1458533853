"""An event loop on a thread of its own, for programs without an event loop.

The owner of a `LoopThread` learns how it ended: a failure is passed to `on_end` and raised from `call`, so
that no thread fails silently.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from ..protocol.errors import ClosedError
from .loop_io import new_event_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class LoopThread:
    """Runs `main()` on a new event loop in a daemon thread until it returns or fails.

    `on_end` is called on that thread with the failure, or None after a return; the loop is closed before, so
    no callback runs afterwards.
    """

    def __init__(
        self,
        name: str,
        main: Callable[[], Coroutine[Any, Any, None]],
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self._main, self._on_end = main, on_end
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ended = threading.Event()

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """True once `main` has ended."""
        return self._ended.is_set()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the loop. Errors: ClosedError after the end of the loop."""
        if self._ended.is_set():
            work.close()
            raise ClosedError("the event loop of this host has ended")
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:  # the loop was closed between the check and the call
            work.close()
            raise ClosedError("the event loop of this host has ended") from error

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run a coroutine on the loop and wait for its result.

        Errors: its own; TimeoutError after `timeout_s` (the coroutine is cancelled); ClosedError.
        """
        assert threading.current_thread() is not self._thread, (
            "a call from the loop's own thread would deadlock"
        )
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except concurrent.futures.CancelledError as error:
            raise ClosedError("the event loop of this host has ended") from error
        except TimeoutError:
            future.cancel()
            raise

    def wake(self, callback: Callable[[], object]) -> None:
        """Run a callback on the loop; ignored after the end of the loop."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; True if it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        failure: BaseException | None = None
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        except BaseException as error:  # noqa: BLE001 - the shell ends here; the owner decides
            failure = error
        finally:
            self._finish()
            self._ended.set()
            self._on_end(failure)

    def _finish(self) -> None:
        """Cancel remaining tasks, so that every waiting `call` returns, and close the loop."""
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        self._loop.close()
