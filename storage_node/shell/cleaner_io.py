"""Threads that compact logs: they run the cleaner's jobs, under its throttle, and end with the node.

The segments that a log serves are replaced on the event loop alone, between two steps of a job.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from ...protocol.errors import HeadraceError
from ...runtime.clock_io import monotonic_ms, wall_ms
from ...runtime.config import MAX_LONG
from ..replica.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.shell_io import TaskOwner
    from ..node import StorageNode
    from ..replica.log_cleaner import CleaningJob
    from .workers_io import Workers


class _Pace:
    """The throttle of all cleaner threads together; see log.cleaner.work.Pace."""

    def __init__(self) -> None:
        self._throttle = Throttle()
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def limit(self, bytes_per_second: float) -> None:
        """Set the rate."""
        with self._lock:
            self._throttle.limit(MAX_LONG if bytes_per_second >= MAX_LONG else int(bytes_per_second))

    def take(self, size_bytes: int) -> None:
        """See log.cleaner.work.Pace."""
        with self._lock:
            self._throttle.take(size_bytes, monotonic_ms())
        while not self._ended.is_set():
            with self._lock:
                now_ms = monotonic_ms()
                if self._throttle.has_room(now_ms):
                    return
                until_ms = self._throttle.room_ms(now_ms)
            self._ended.wait((until_ms - now_ms) / 1000)

    def end(self) -> None:
        """Stop throttling."""
        self._ended.set()


class CleanerThreads:
    """Starts jobs while there are any, up to log.cleaner.threads."""

    def __init__(
        self, core: StorageNode, workers: Workers, tasks: TaskOwner, perform: Callable[[], None]
    ) -> None:
        self._cleaner = core.cleaner
        self._core = core
        self._workers = workers
        self._tasks = tasks
        self._perform = perform
        self._pace = _Pace()
        self._running: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        tasks.spawn(self._look(), "log cleaner")

    async def _look(self) -> None:
        """Look for jobs periodically, log.cleaner.backoff.ms after there was none."""
        while not self._is_stopping:
            self._start()
            await asyncio.sleep(max(self._cleaner.config.log_cleaner_backoff_ms, 1) / 1000)

    async def stop(self) -> None:
        """Abort all jobs and wait until no thread uses a log."""
        self._is_stopping = True
        self._cleaner.stop()
        self._pace.end()
        if self._running:
            await asyncio.wait(self._running)

    def _start(self) -> None:
        """Start the jobs that may run now."""
        if self._is_stopping or self._tasks.is_stopping:
            return
        self._pace.limit(self._cleaner.config.log_cleaner_io_max_bytes_per_second)
        while (job := self._cleaner.next_job(self._pace, monotonic_ms(), wall_ms())) is not None:
            task = self._tasks.spawn(self._run(job), f"cleaning {job.partition.topic_partition}")
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, job: CleaningJob) -> None:
        cleaning, error = job.cleaning, None
        try:
            await self._workers.clean(cleaning.index)
            while await self._workers.clean(cleaning.rewrite):
                cleaning.install()
                cleaning.log.delete_retired(await self._workers.clean(cleaning.settle))
        except HeadraceError as found:
            error = found
        self._core.cleaned(job, error, monotonic_ms())
        self._perform()
        self._start()
