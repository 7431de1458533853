"""What the core of a simulated node asks for, performed, each after a while; see sim_node.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.protocol.errors import KafkaError, KafkaStorageError, NetworkError
from headrace.protocol.messages import registry
from headrace.protocol.model import NO_NODE
from headrace.storage_node.effects import (
    AdvisePages,
    AskPeer,
    CheckpointStarts,
    CopyLog,
    DeleteLog,
    EndNode,
    EndTurn,
    FlushLog,
    LookUpOffsets,
    Note,
    ProposeIsr,
    ReadCold,
    ReadCoordinatorLog,
    Recompress,
    RemoveFiles,
    SendFetch,
    TellController,
    WakeAt,
)
from headrace.storage_node.links import membership as m

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.storage_node.replica.partition import Partition

SILENCE_MS = 3_000  # after which a connection counts as lost


class NodeEffects:
    """What `SimNode` inherits; the attributes are the node's."""

    def _perform(self) -> None:
        while self.core is not None and (effects := self.core.take_effects()):
            for effect in effects:
                if self.core is None:
                    return
                self._perform_one(effect)

    def _perform_one(self, effect: Any) -> None:
        core = self.running
        match effect:
            case FlushLog(partition):
                self._flush(partition)
            case DeleteLog() | RemoveFiles():
                self.later(self._delay(self.flush_ms), "delete", effect.run)
            case CheckpointStarts():
                self.later(0, "write starts", lambda: self._checkpoint(only_starts=True))
            case TellController():
                self._submit(m.ReportChanged())
            case WakeAt(deadline_ms):
                self._set_timer("core", deadline_ms, lambda: core.expire(self.world.now_ms))
            case Note(_, text):
                self.notes.append(text)
            case SendFetch():
                self._send_fetch(effect)
            case ProposeIsr(request):
                self._propose(request)
            case AskPeer():
                self._ask_peer(effect)
            case EndNode(_):
                self.die(power=True)
            case _:
                self._start_work(effect)

    def _start_work(self, effect: Any) -> None:
        core = self.running
        match effect:
            case LookUpOffsets(lookup):
                self._off_loop(
                    self.read_ms, "look up", lookup.run, lambda: core.looked_up(lookup, self.world.now_ms)
                )
            case ReadCold(read):
                self.cluster.rules.marks["cold read"] += 1
                done = lambda: core.cold_read(read, self.world.now_ms)  # noqa: E731
                self._off_loop(self.read_ms, "read", read.run, done)
            case ReadCoordinatorLog(read):
                self._off_loop(
                    self.read_ms, "read", read.run, lambda: core.coordinator_log_read(read, self.world.now_ms)
                )
            case AdvisePages(advice):
                advice.run()
            case Recompress(item):
                self.cluster.rules.marks["recompressed batch"] += 1
                done = lambda: core.recompressed(item, self.world.now_ms, self.wall_ms)  # noqa: E731
                self._off_loop(self.read_ms, "recompress", item.run, done)
            case CopyLog(key, move):
                self._off_loop(
                    self.read_ms, "copy", move.run, lambda: core.copied(key, move, self.world.now_ms)
                )
            case EndTurn():
                self.later(0, "end of turn", lambda: core.end_turn(self.world.now_ms, self.wall_ms))
            case _:
                raise AssertionError(f"the simulated node does not perform {effect}")

    def _delay(self, mean_ms: int) -> int:
        return int(self.random.expovariate(1 / mean_ms))

    def _off_loop(self, mean_ms: int, label: str, run: Callable[[], None], done: Callable[[], None]) -> None:
        """On a thread: it sees the disk as it is some time later."""

        self.busy += 1

        def happen() -> None:
            self.busy -= 1
            run()
            done()

        self.later(self._delay(mean_ms), label, happen)

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

    def _send_fetch(self, effect: SendFetch) -> None:
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
        """The connection to another node, or to itself."""
        link = self._followed.get(node_id)
        if link is None or not link.is_usable:
            link = self._followed[node_id] = self.cluster.transport.open(self, f"n{node_id}")
        return link

    def _ask_peer(self, effect: AskPeer) -> None:
        def done(outcome: Any, _frames: Any = ()) -> None:
            if isinstance(outcome, NetworkError) and effect.node_id != NO_NODE and link is not None:
                link.close()
            effect.answered(outcome, self.world.now_ms, self.wall_ms)

        is_known = effect.node_id == NO_NODE or self.running.endpoint_of(effect.node_id) is not None
        link = self._link if effect.node_id == NO_NODE else self._link_to(effect.node_id)
        if link is None or not link.is_usable or not is_known:
            self.later(1, "cannot ask", lambda: done(NetworkError("nobody is there")))
        else:
            link.ask(effect.api, effect.body, (), min(effect.timeout_ms, SILENCE_MS), done)

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

    def _checkpoint(self, *, only_starts: bool = False) -> None:
        """One at a time, and not while metadata is followed."""
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
