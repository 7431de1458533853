"""Performs the effects of the node core: slow work on threads, the timer, requests to other servers, logging.

The result of slow work is a call of the core on the event loop, after which the new effects are performed.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ...runtime.clock_io import monotonic_ms, wall_ms
from ...runtime.effect_performer import EffectPerformer, ignore, on
from .. import effects as e
from ..links.replication_io import Replication
from .checkpoints_io import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import KafkaStorageError
    from ...runtime.shell_io import TaskOwner
    from ..links.controller_link_io import ControllerLink
    from ..node import StorageNode
    from .spans_io import NodeSpans
    from .workers_io import Workers


class NodeEffects:
    """Call `perform` after each call of the core.

    `is_ending` is true from the start of a stop: no read and no removal of files begins any more.
    `is_closed` is true from the release of the node's resources: nothing is appended any more.
    """

    def __init__(
        self,
        core: StorageNode,
        workers: Workers,
        link: ControllerLink,
        tasks: TaskOwner,
        *,
        is_ending: Callable[[], bool],
        is_closed: Callable[[], bool],
        log: Callable[[e.Note], None],
        spans: NodeSpans | None = None,
    ) -> None:
        self._core, self._workers, self._tasks = core, workers, tasks
        self._is_ending, self._is_closed = is_ending, is_closed
        self._timer: asyncio.TimerHandle | None = None
        self.metadata_or_checkpoint = asyncio.Lock()  # one at a time
        self.checkpoints = Checkpoints(
            core, workers, self.metadata_or_checkpoint, is_ending=is_ending, perform=self.perform
        )
        self.replication = Replication(core, link, tasks, self.perform)
        self._performer = EffectPerformer(
            e.Effect,
            on(e.FlushLog, self._start_flush),
            on(e.DeleteLog, lambda effect: self.start_purge(effect.run)),
            on(e.RemoveFiles, lambda effect: self.start_purge(effect.run)),
            on(e.CheckpointStarts, lambda _: self.checkpoints.start_writing_starts(tasks)),
            on(e.LookUpOffsets, self._look_up),
            on(e.CountRecords, self._count_records),
            on(e.ReadCold, self._read_cold),
            on(e.Recompress, self._recompress),
            on(e.ReadCoordinatorLog, self._read_coordinator_log),
            on(e.AdvisePages, self._advise_pages),
            on(e.CopyLog, self._copy_log),
            on(e.SendFetch, self.replication.send_fetch),
            on(e.ProposeIsr, self.replication.propose_isr),
            on(e.AskPeer, self.replication.ask_peer),
            on(e.EndTurn, lambda _: self.replication.end_turn_soon()),
            on(e.SendHeartbeat, lambda _: link.heartbeat_now()),
            on(e.WakeAt, lambda effect: self._set_timer(effect.deadline_ms)),
            on(e.Note, log),
            on(e.NoteSpan, ignore if spans is None else spans.record),
            on(e.EndNode, lambda effect: tasks.fail(effect.error)),
        )

    def perform(self) -> None:
        """Perform the core's effects until there are no more."""
        take_effects, perform_all = self._core.take_effects, self._performer.perform_all
        while effects := take_effects():
            perform_all(effects)

    def close(self) -> None:
        """Cancel the timer and close the connections to other nodes."""
        if self._timer is not None:
            self._timer.cancel()
        self.replication.close()

    # --- work on threads ---------------------------------------------------------------------------------

    def _start_flush(self, effect: e.FlushLog) -> None:
        """Start here, sync on a thread, finish here: appends go on meanwhile and are flushed by the next
        one."""
        partition, core = effect.partition, self._core
        log = partition.log
        assert log is not None, "only an online partition is flushed"
        flush = log.start_flush()
        if flush is None:
            core.flushed(partition, log.recovery_point, monotonic_ms())
            return

        took_ms = 0.0

        def sync() -> None:
            nonlocal took_ms
            began_s = time.perf_counter()
            flush.sync()
            took_ms = (time.perf_counter() - began_s) * 1000

        def done(error: KafkaStorageError | None) -> None:
            if error is None:
                core.counters.flush_times.record(took_ms)
                log.finish_flush(flush)
                core.flushed(partition, log.recovery_point, monotonic_ms())
            else:
                core.flush_failed(partition, error, monotonic_ms())
            self.perform()

        self._workers.start(sync, done, is_awaited=effect.is_awaited)

    def start_purge(self, remove: Callable[[], None]) -> None:
        """Remove files on a thread. A removal that has not started when the node stops is left to the next
        start, so that a stop after the deletion of thousands of partitions is fast."""

        def unless_stopping() -> None:
            if not self._is_ending():
                remove()

        self._workers.purge(unless_stopping)

    def _look_up(self, effect: e.LookUpOffsets) -> None:
        lookup = effect.lookup
        self._workers.look_up(lookup.run, self._then(lambda now_ms: self._core.looked_up(lookup, now_ms)))

    def _count_records(self, effect: e.CountRecords) -> None:
        """Each step queues behind the lookups that came meanwhile."""
        work = effect.work
        if not self._is_ending():
            done = self._then(lambda now_ms: self._core.counted(work, now_ms, wall_ms()))
            self._workers.look_up(work.run, done)

    def _read_cold(self, effect: e.ReadCold) -> None:
        read = effect.read
        if not self._is_ending():
            done = self._then(lambda now_ms: self._core.cold_read(read, now_ms))
            self._workers.read_cold(read.run, done)

    def _recompress(self, effect: e.Recompress) -> None:
        item = effect.item

        def recompressed(now_ms: int) -> None:
            if not self._is_closed():
                self._core.recompressed(item, now_ms, wall_ms())

        self._workers.recompress(item.run, self._then(recompressed))

    def _read_coordinator_log(self, effect: e.ReadCoordinatorLog) -> None:
        read = effect.read
        if not self._is_ending():
            self._workers.start(
                read.run, self._then(lambda now_ms: self._core.coordinator_log_read(read, now_ms))
            )

    def _advise_pages(self, effect: e.AdvisePages) -> None:
        if not self._is_ending():
            self._workers.read_cold(effect.advice.run)

    def _copy_log(self, effect: e.CopyLog) -> None:
        key, move = effect.key, effect.move
        self._workers.start(move.run, self._then(lambda now_ms: self._core.copied(key, move, now_ms)))

    def _then(self, report: Callable[[int], None]) -> Callable[[KafkaStorageError | None], None]:
        """The callback for work that keeps its own error: call `report` and perform the new effects."""

        def done(_error: KafkaStorageError | None) -> None:
            report(monotonic_ms())
            self.perform()

        return done

    # --- the timer ---------------------------------------------------------------------------------------

    def _set_timer(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(deadline_ms - monotonic_ms(), 0) / 1000
        on_timer = self._tasks.guarded(self._on_timer)
        self._timer = asyncio.get_running_loop().call_later(delay_s, on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._core.expire(monotonic_ms())
        self.perform()
