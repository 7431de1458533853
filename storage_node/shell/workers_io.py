"""Threads for slow work, and the way back to the loop. A log handed to a job is not closed under it."""

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

# Searches decompress and decode, which mostly takes turns with the loop: more threads would slow it down.
SEARCH_THREADS = 1
# Bound: threads that compact logs; log.cleaner.threads says how many are used.
CLEANER_THREADS = 64


class Workers:
    """Runs jobs on threads and their ends on the loop.

    fsyncs that producers wait for have threads of their own, and so have searches and deletions: thousands of
    files to be removed delay neither an answer nor the logs of new partitions. A disk's error is a result;
    any other is a bug and ends the node through `tasks`.
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
        """Run `work` on a thread, then `done` on the loop, unless everything was closed meanwhile."""
        self._start(self._sync if is_awaited else self._spare, work, done)

    def look_up(self, work: Callable[[], None], done: Done) -> None:
        """As `start`, for a search that a client waits for; it raises nothing."""
        self._start(self._search, work, done)

    def read_cold(self, work: Callable[[], None], done: Done | None = None) -> None:
        """As `start`, for a read from a disk that a client waits for, or advice on one; it raises nothing."""
        self._start(self._cold, work, done)

    def recompress(self, work: Callable[[], None], done: Done) -> None:
        """As `start`, for a batch that a producer waits for; it raises nothing."""
        self._start(self._recompress, work, done)

    def purge(self, work: Callable[[], None]) -> None:
        """Free space that nobody waits for."""
        self._start(self._purge, work, None)

    def resize(self, sync_threads: int) -> None:
        """Another number of threads for fsyncs; what has been handed in is still done by those before."""
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
        """Run `work` on a thread and wait for it; also who gives up waiting leaves it to `finish`."""
        return await self._run(self._spare, work)

    async def clean(self, work: Callable[[], T]) -> T:
        """As `run`, for a step of compaction."""
        return await self._run(self._clean, work)

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        job = asyncio.get_running_loop().run_in_executor(threads, work)
        self._jobs.add(job)
        job.add_done_callback(self._ended)
        return await asyncio.shield(job)

    def _ended(self, job: asyncio.Future[Any]) -> None:
        self._jobs.discard(job)
        if not job.cancelled():
            job.exception()  # seen: whoever gave up waiting does not want it

    async def finish(self) -> None:
        """Wait until no job runs any more."""
        while self._jobs:
            await asyncio.wait(self._jobs)

    def close(self) -> None:
        """Let the threads go; results that are still to come are dropped."""
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
