"""Performs the effects of a simulated node's core, each after a delay; see sim_node.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.protocol.errors import KafkaError, KafkaStorageError, NetworkError
from headrace.protocol.messages import registry
from headrace.protocol.model import NO_NODE
from headrace.runtime.effect_performer import EffectPerformer, ignore, on
from headrace.storage_node import effects as e
from headrace.storage_node.links import membership as m

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.storage_node.replica.partition import Partition

SILENCE_MS = 3_000  # time without a response after which a connection counts as lost


class NodeEffects:
    """The part of `SimNode` that performs effects; the attributes belong to the node."""

    performer: EffectPerformer  # of this process

    def _new_performer(self) -> EffectPerformer:
        core = self.running
        return EffectPerformer(
            e.Effect,
            on(e.FlushLog, lambda effect: self._flush(effect.partition)),
            on(e.DeleteLog, self._delete),
            on(e.RemoveFiles, self._delete),
            on(e.CheckpointStarts, lambda _: self.later(0, "write starts", self._checkpoint_starts)),
            on(e.LookUpOffsets, lambda effect: self._off_loop("look up", effect.lookup, core.looked_up)),
            on(e.CountRecords, self._count_records),
            on(e.ReadCold, lambda effect: self._off_loop("cold read", effect.read, core.cold_read)),
            on(
                e.ReadCoordinatorLog,
                lambda effect: self._off_loop("read", effect.read, core.coordinator_log_read),
            ),
            on(e.Recompress, self._recompress),
            on(e.AdvisePages, lambda effect: effect.advice.run()),
            on(e.CopyLog, self._copy_log),
            on(e.SendFetch, self._send_fetch),
            on(e.ProposeIsr, lambda effect: self._propose(effect.request)),
            on(e.AskPeer, self._ask_peer),
            on(e.EndTurn, lambda _: self.later(0, "end of turn", self._end_turn)),
            on(e.SendHeartbeat, lambda _: self._submit(m.ReportChanged())),
            on(e.WakeAt, lambda effect: self._set_timer("core", effect.deadline_ms, self._expire)),
            on(e.Note, lambda effect: self.notes.append(effect.text)),
            on(e.NoteSpan, ignore),
            on(e.EndNode, lambda _: self.die(power=True)),
        )

    def _perform(self) -> None:
        while self.core is not None and (effects := self.core.take_effects()):
            for effect in effects:
                if self.core is not None:
                    self.performer.perform(effect)

    def _expire(self) -> None:
        self.running.expire(self.world.now_ms)

    def _end_turn(self) -> None:
        self.running.end_turn(self.world.now_ms, self.wall_ms)

    def _delete(self, effect: e.DeleteLog | e.RemoveFiles) -> None:
        self.later(self._delay(self.flush_ms), "delete", effect.run)

    def _recompress(self, effect: e.Recompress) -> None:
        item, core = effect.item, self.running
        self._off_loop(
            "recompressed batch", item, lambda _, now_ms: core.recompressed(item, now_ms, self.wall_ms)
        )

    def _count_records(self, effect: e.CountRecords) -> None:
        work, core = effect.work, self.running
        self._off_loop("count records", work, lambda _, now_ms: core.counted(work, now_ms, self.wall_ms))

    def _copy_log(self, effect: e.CopyLog) -> None:
        key, move, core = effect.key, effect.move, self.running
        self._off_loop("copy", move, lambda _, now_ms: core.copied(key, move, now_ms))

    def _delay(self, mean_ms: int) -> int:
        return int(self.random.expovariate(1 / mean_ms))

    def _off_loop(self, label: str, work: Any, done: Callable[[Any, int], None]) -> None:
        """Call `work.run` after a delay, as on a thread, and then `done(work, now_ms)`."""
        self.busy += 1
        self.cluster.rules.marks[label] += 1

        def happen() -> None:
            self.busy -= 1
            work.run()
            done(work, self.world.now_ms)

        self.later(self._delay(self.read_ms), label, happen)

    def _flush(self, partition: Partition) -> None:
        core, log = self.running, partition.log
        assert log is not None
        flush = log.start_flush()
        if flush is None:
            core.flushed(partition, log.recovery_point, self.world.now_ms)
            return

        self.busy += 1

        def finish() -> None:
            self.busy -= 1
            try:
                flush.sync()
            except KafkaStorageError as error:
                core.flush_failed(partition, error, self.world.now_ms)
                return
            log.finish_flush(flush)
            core.flushed(partition, log.recovery_point, self.world.now_ms)

        self.later(self._delay(self.flush_ms), "flush", finish)

    def _send_fetch(self, effect: e.SendFetch) -> None:
        leader = effect.where[0]
        link = self._link_to(leader)

        def done(response: Any, frames: Any) -> None:
            core, now_ms = self.running, self.world.now_ms
            if isinstance(response, NetworkError):
                link.close()
            if isinstance(response, KafkaError):
                core.replica_fetch_failed(effect.where, effect.number, now_ms)
            else:
                core.replica_fetched(effect.where, effect.number, response, frames, now_ms, self.wall_ms)

        if self.running.endpoint_of(leader) is None:
            self.later(1, "cannot follow", lambda: done(NetworkError("not registered"), ()))
        else:
            link.ask(registry.FETCH, effect.request, (), SILENCE_MS, done)

    def _link_to(self, node_id: int) -> Any:
        """The connection to a node, which may be this one."""
        link = self._followed.get(node_id)
        if link is None or not link.is_usable:
            link = self._followed[node_id] = self.cluster.transport.open(self, f"n{node_id}")
        return link

    def _ask_peer(self, effect: e.AskPeer) -> None:
        def done(outcome: Any, _frames: Any = ()) -> None:
            if isinstance(outcome, NetworkError) and effect.node_id != NO_NODE and link is not None:
                link.close()
            effect.answered(outcome, self.world.now_ms, self.wall_ms)

        is_known = effect.node_id == NO_NODE or self.running.endpoint_of(effect.node_id) is not None
        link = self._link if effect.node_id == NO_NODE else self._link_to(effect.node_id)
        if link is None or not link.is_usable or not is_known:
            self.later(1, "cannot ask", lambda: done(NetworkError("connection refused")))
        else:
            link.ask(effect.api, effect.body, effect.frames, min(effect.timeout_ms, SILENCE_MS), done)

    def _propose(self, request: Any) -> None:
        core = self.running

        def done(response: Any) -> None:
            core.isr_answered(response, self.world.now_ms)

        def failed() -> None:
            core.isr_failed(self.world.now_ms)

        timeout_ms = self.config.controller_request_timeout_ms
        if not self._ask(registry.ALTER_PARTITION, request, timeout_ms, done, failed):
            self.later(1, "cannot propose", failed)

    def _set_timer(self, key: str, deadline_ms: int, action: Callable[[], None]) -> None:
        old = self._timers.pop(key, None)
        if old is not None:
            old.cancel()
        self._timers[key] = self.later(max(deadline_ms - self.world.now_ms, 0), key, action)

    def _checkpoint_starts(self) -> None:
        self._checkpoint(only_starts=True)

    def _checkpoint(self, *, only_starts: bool = False) -> None:
        """Write a checkpoint. Only one at a time, and none while FetchMetadata is in flight."""
        if self.is_closing:
            return
        if self._is_checkpointing:
            self.later(1, "write checkpoints later", lambda: self._checkpoint(only_starts=only_starts))
            return
        core = self.running
        tasks = core.checkpoints_begin(only_starts=only_starts)
        self._is_checkpointing = True
        self.busy += 1

        def write() -> None:
            self.busy -= 1
            self._is_checkpointing = False
            for task in tasks:
                task.run()
            core.checkpoints_end(tasks, self.world.now_ms)
            if not only_starts:
                core.flush_all()

        self.later(self._delay(self.flush_ms), "write checkpoints", write)
