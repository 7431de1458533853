"""Threads for slow work, whose results are reported on the event loop.

A log is not closed while a job uses it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import KafkaStorageError
from ..replica.recompressor import RECOMPRESSION_THREADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.shell_io import TaskOwner

    Done = Callable[[KafkaStorageError | None], None]

T = TypeVar("T")

# Lookups decompress and decode under the GIL: more threads would slow the loop down.
SEARCH_THREADS = 1
# Bound: cleaner threads; log.cleaner.threads limits how many are used.
CLEANER_THREADS = 64


class Workers:
    """Runs jobs on threads and their callbacks on the loop.

    Flushes that producers wait for have threads of their own, and so have lookups and removals of files: the
    removal of thousands of files delays neither responses nor the creation of logs. A disk error is a result;
    any other exception is a bug and ends the node through `tasks`.
    """

    def __init__(
        self, tasks: TaskOwner, *, sync_threads: int, spare_threads: int, cold_threads: int = 1
    ) -> None:
        self._tasks = tasks
        self._cold = ThreadPoolExecutor(cold_threads, thread_name_prefix="headrace-cold")
        self._sync = ThreadPoolExecutor(sync_threads, thread_name_prefix="headrace-sync")
        self._search = ThreadPoolExecutor(SEARCH_THREADS, thread_name_prefix="headrace-search")
        self._recompress = ThreadPoolExecutor(RECOMPRESSION_THREADS, thread_name_prefix="headrace-recompress")
        self._purge = ThreadPoolExecutor(1, thread_name_prefix="headrace-purge")
        self._clean = ThreadPoolExecutor(CLEANER_THREADS, thread_name_prefix="headrace-clean")
        self._spare = ThreadPoolExecutor(spare_threads, thread_name_prefix="headrace-spare")
        self._jobs: set[asyncio.Future[Any]] = set()
        self._is_closed = False

    def start(
        self,
        work: Callable[[], None],
        done: Done | None = None,
        *,
        is_awaited: bool = False,
    ) -> None:
        """Run `work` on a thread, then `done` on the loop, unless the threads are closed meanwhile."""
        self._start(self._sync if is_awaited else self._spare, work, done)

    def look_up(self, work: Callable[[], None], done: Done) -> None:
        """As `start`, for a lookup that a client waits for; `work` raises nothing."""
        self._start(self._search, work, done)

    def read_cold(self, work: Callable[[], None], done: Done | None = None) -> None:
        """As `start`, for a read from a disk that a client waits for, or for page advice; `work` raises
        nothing."""
        self._start(self._cold, work, done)

    def recompress(self, work: Callable[[], None], done: Done) -> None:
        """As `start`, for a batch that a producer waits for; `work` raises nothing."""
        self._start(self._recompress, work, done)

    def purge(self, work: Callable[[], None]) -> None:
        """Remove files, with low priority."""
        self._start(self._purge, work, None)

    def resize(self, sync_threads: int) -> None:
        """Replace the flush threads; jobs that were submitted are still run by the old ones."""
        before, self._sync = self._sync, ThreadPoolExecutor(sync_threads, thread_name_prefix="headrace-sync")
        before.shutdown(wait=False)

    def _start(
        self,
        threads: ThreadPoolExecutor,
        work: Callable[[], None],
        done: Done | None,
    ) -> None:
        job = asyncio.get_running_loop().run_in_executor(threads, work)
        self._jobs.add(job)

        def finished(future: asyncio.Future[None]) -> None:
            self._jobs.discard(future)
            error = None if future.cancelled() else future.exception()
            if error is not None and not isinstance(error, KafkaStorageError):
                self._tasks.fail(error)
            elif done is not None and not self._is_closed:
                done(error)

        job.add_done_callback(self._tasks.guarded(finished))

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` on a thread and return its result. After a cancellation `work` goes on, and `finish`
        waits for it."""
        return await self._run(self._spare, work)

    async def clean(self, work: Callable[[], T]) -> T:
        """As `run`, on the cleaner's threads."""
        return await self._run(self._clean, work)

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        job = asyncio.get_running_loop().run_in_executor(threads, work)
        self._jobs.add(job)
        job.add_done_callback(self._ended)
        return await asyncio.shield(job)

    def _ended(self, job: asyncio.Future[Any]) -> None:
        self._jobs.discard(job)
        if not job.cancelled():
            job.exception()  # mark it as retrieved: the caller was cancelled

    async def finish(self) -> None:
        """Wait until no job is running."""
        while self._jobs:
            await asyncio.wait(self._jobs)

    def close(self) -> None:
        """Shut the threads down; results that are still to come are dropped."""
        self._is_closed = True
        for threads in (
            self._sync,
            self._cold,
            self._search,
            self._recompress,
            self._purge,
            self._clean,
            self._spare,
        ):
            threads.shutdown(wait=False, cancel_futures=True)
