"""The log cleaner threads of a simulated node: one step at a time, each after a random delay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cleaner_rig import FullSpeed
from headrace.protocol.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.storage_node.replica.log_cleaner import CleaningJob
    from sim_node import SimNode

CLEAN_MS = 300
STEP_MS = 20  # mean


class SimCleaner:
    """The log cleaner of one process of a node."""

    def __init__(self, node: SimNode) -> None:
        self._node = node

    def begin(self) -> None:
        """Begin to clean a log, if one is due."""
        node = self._node
        if node.is_closing or not node.cluster.plan.compacts:
            return
        # Not the node's wall clock, which may jump and would delete tombstones too early.
        job = node.running.cleaner.next_job(FullSpeed(), node.world.now_ms, node.world.wall_ms)
        if job is not None:
            self._on_thread(job, job.cleaning.index, lambda _: self._rewrite(job))

    def _rewrite(self, job: CleaningJob) -> None:
        self._on_thread(job, job.cleaning.rewrite, lambda is_written: self._install(job, is_written))

    def _install(self, job: CleaningJob, is_written: bool) -> None:
        node = self._node
        if not is_written:
            node.cluster.rules.marks["cleaned"] += 1
            node.running.cleaned(job, None, node.world.now_ms)
            return
        job.cleaning.install()

        def settled(old: Any) -> None:
            node.swaps += 1
            job.cleaning.log.delete_retired(old)
            self._rewrite(job)

        self._on_thread(job, job.cleaning.settle, settled)

    def _on_thread(self, job: CleaningJob, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        node = self._node
        node.busy += 1

        def happen() -> None:
            node.busy -= 1
            try:
                result = work()
            except HeadraceError as error:
                node.running.cleaned(job, error, node.world.now_ms)
                return
            then(result)

        node.later(int(node.random.expovariate(1 / STEP_MS)), "clean", happen)
