"""Writes the checkpoints of a node: all of them periodically, those of log start offsets soon after a
change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...runtime.clock_io import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...runtime.shell_io import TaskOwner
    from ..node import StorageNode
    from .workers_io import Workers


class Checkpoints:
    """Writes on threads, one checkpoint at a time.

    `one_at_a_time` is also held while metadata is applied, which removes partitions from the checkpoints;
    `perform` performs the core's new effects.
    """

    def __init__(
        self,
        core: StorageNode,
        workers: Workers,
        one_at_a_time: asyncio.Lock,
        *,
        is_ending: Callable[[], bool],
        perform: Callable[[], None],
    ) -> None:
        self._core = core
        self._workers = workers
        self._one_at_a_time = one_at_a_time
        self._is_ending = is_ending
        self._perform = perform

    async def write_all(self) -> None:
        """Write all checkpoints, and start the flushes that advance the recovery points of the next ones."""
        await self._write(only_starts=False)
        # Order: a stop waits for running jobs only, so that no flush may start after it.
        if not self._is_ending():
            self._core.flush_all()
            self._perform()

    def start_writing_starts(self, tasks: TaskOwner) -> None:
        """Write the log start offsets soon; changes until then are included."""
        if not (self._is_ending() or tasks.is_stopping):
            tasks.spawn(self._write(only_starts=True), "where logs start")

    async def _write(self, *, only_starts: bool) -> None:
        async with self._one_at_a_time:
            if self._is_ending():
                return  # the shutdown writes them
            tasks = self._core.checkpoints_begin(only_starts=only_starts)
            try:
                await asyncio.gather(*(self._workers.run(task.run) for task in tasks))
            finally:
                self._core.checkpoints_end(tasks, monotonic_ms())
        if not self._is_ending():
            self._perform()
