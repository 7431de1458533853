"""Moves of replicas between the log dirs of this node: copied in the background, swapped when caught up.
Pure.

A move is a sequence of steps (CopyLog effects), one in flight per move, within the throttle. When the copy is
close, and neither a flush, a cleaning nor a checkpoint uses the log, it replaces the log in one event. Until
then the replica is unchanged, and a move can be cancelled. A log that moves is not compacted.
Source: Kafka ReplicaManager.scala alterReplicaLogDirs, KIP-113.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError, KafkaStorageError
from ..effects import CopyLog, DeleteLog
from ..log.future_log import FutureLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..log.log import Log
    from ..log.log_dir import LogDir
    from ..log.log_manager import LogManager
    from .disk_failures import DiskFailures
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable
    from .step_output import StepOutput
    from .throttle import Throttle


class Moves:
    """All moves of one node.

    Invariant: each move has a step in flight, or is in `_idle`.
    """

    def __init__(
        self,
        table: PartitionTable,
        manager: LogManager,
        output: StepOutput,
        disks: DiskFailures,
        throttle: Throttle,
        take_log: Callable[[Partition, Log, int], None],
    ) -> None:
        """`take_log(partition, log, now_ms)` replaces the partition's log."""
        self._table = table
        self._manager = manager
        self._output = output
        self._disks = disks
        self._throttle = throttle
        self._take_log = take_log
        self._moves: dict[PartitionKey, FutureLog] = {}
        self._idle: dict[PartitionKey, None] = {}
        self.finished = 0

    def __len__(self) -> int:
        return len(self._moves)

    def of(self, key: PartitionKey) -> FutureLog | None:
        """The move of the partition, if any."""
        return self._moves.get(key)

    def begin(self, partition: Partition, target: LogDir, now_ms: int) -> None:
        """Move an online partition; another move of it is cancelled."""
        assert partition.log is not None, "only an online partition moves"
        move = self._moves.get(partition.key)
        if move is not None and move.target is target:
            return
        self.cancel(partition.key)
        self._moves[partition.key] = FutureLog(partition.log, target, self._manager.folder_id())
        self._idle[partition.key] = None
        partition.log.compaction.abort()
        self._note(partition, f"moves to {target.path}")
        self.go_on(now_ms)

    def cancel(self, key: PartitionKey) -> None:
        """Cancel the move, if any; the files of the copy are deleted when no step uses them."""
        move = self._moves.pop(key, None)
        if move is not None and key in self._idle:
            del self._idle[key]
            self._discard(move)

    def truncated(self, partition: Partition) -> None:
        """The partition's log was truncated."""
        move = self._moves.get(partition.key)
        if move is not None and partition.log is not None:
            move.source_truncated(partition.log.log_end_offset)

    def stepped(self, key: PartitionKey, move: FutureLog, now_ms: int) -> None:
        """A CopyLog effect is done."""
        if self._moves.get(key) is not move:
            self._discard(move)
            return
        self._idle[key] = None
        partition = self._table.partitions.get(key)
        if partition is None or partition.log is not move.source or not partition.is_online:
            self.cancel(key)
        elif move.error is not None:
            self._note(partition, f"move to {move.target.path} failed: {move.error}", logging.ERROR)
            self.cancel(key)
            self._disks.look_at_dirs(move.error)
        else:
            self._throttle.take(move.copied_bytes, now_ms)
            self.try_swap(partition, now_ms)
            self.go_on(now_ms)

    def go_on(self, now_ms: int) -> None:
        """Request the next step of the idle moves. Throttled ones continue with the next tick."""
        for key in list(self._idle):
            move = self._moves[key]
            if not self._throttle.has_room(now_ms):
                return
            if move.can_copy and (move.log is None or not move.is_close):
                del self._idle[key]
                move.prepare()
                self._output.effects.append(CopyLog(key, move))

    def try_swap(self, partition: Partition, now_ms: int) -> None:
        """Replace the log by its copy if that is possible now."""
        key = partition.key
        move = self._moves.get(key)
        if move is None or key not in self._idle or not move.is_close:
            return
        if partition.is_busy or self._table.is_checkpointing or not move.can_copy:
            return  # retried at the end of that
        try:
            log = move.complete()
            old = self._manager.replace(log, move.target)
        except (KafkaStorageError, CorruptMessageError) as error:
            self._note(partition, f"move to {move.target.path} failed: {error}", logging.ERROR)
            self.cancel(key)
            self._disks.look_at_dirs(error)
            return
        del self._moves[key], self._idle[key]
        self.finished += 1
        self._take_log(partition, log, now_ms)
        self._note(partition, f"has moved to {move.target.path}")
        self._output.effects.append(DeleteLog(old))

    def try_all_swaps(self, now_ms: int) -> None:
        """As `try_swap`, for all; called at the end of checkpoints, and about each second."""
        for key in list(self._idle):
            partition = self._table.partitions.get(key)
            if partition is not None:
                self.try_swap(partition, now_ms)
        self.go_on(now_ms)

    def _discard(self, move: FutureLog) -> None:
        log: Log | None = move.log
        if log is not None and not log.is_offline:
            self._output.effects.append(DeleteLog(log))

    def _note(self, partition: Partition, text: str, level: int = logging.INFO) -> None:
        self._output.note(level, f"{partition.topic_partition}: {text}")

    def check(self) -> None:
        """Assert the invariants."""
        assert self._idle.keys() <= self._moves.keys()
        for move in self._moves.values():
            assert move.log is None or move.log is not move.source
