"""Failed, full and corrupt disks, and their effect on the partitions of a node. Pure.

A failed disk takes its log dir offline until the restart, with all its partitions: the controller is notified
at once, elects other leaders and removes this node from their ISRs. A full disk takes nothing offline: its
partitions are read, are led unless another replica can take writes, and accept records again when there is
space; the controller is notified of it, too (ADR 19).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import KafkaStorageError
from ...runtime.files.file_layer import DiskFullError
from ..effects import EndNode, SendHeartbeat
from .partition import PartitionState

if TYPE_CHECKING:
    from ...protocol.errors import CorruptMessageError
    from ..log.log_manager import LogManager
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable
    from .step_output import StepOutput


class DiskReport(NamedTuple):
    """The state of a node's disks for the controller."""

    offline_dirs: tuple[bytes, ...] = ()  # ids of the log dirs that failed
    offline: tuple[PartitionKey, ...] = ()  # assigned to this node, cannot be served
    full: tuple[PartitionKey, ...] = ()  # served, but without space for records
    cordoned_dirs: tuple[bytes, ...] = ()  # ids of the log dirs that get no new replicas


class OfflineListener(Protocol):
    """What follows when a disk takes a partition offline."""

    def went_offline(self, key: PartitionKey) -> None:
        """Neither fetch nor move the partition any more."""

    def ended_use(self, partition: Partition, now_ms: int) -> None:
        """No flush uses its log any more: if the partition was removed, the removal may end."""


class DiskFailures:
    """See the module's docstring."""

    def __init__(
        self, table: PartitionTable, manager: LogManager, output: StepOutput, listener: OfflineListener
    ) -> None:
        self._table = table
        self._manager = manager
        self._output = output
        self._listener = listener
        self._known_offline: list[str] = []
        self._known_full: set[str] = set()
        self._without_log: dict[
            PartitionKey, bool
        ] = {}  # not created on a full disk; value: whether it is new

    def report(self) -> DiskReport:
        """The present state of the disks."""
        partitions = self._table.partitions
        offline = tuple(key for key, partition in partitions.items() if not partition.is_online)
        manager = self._manager
        return DiskReport(
            manager.dirs.offline_ids, offline, self._full_keys(), manager.placement.cordoned_ids
        )

    def _full_keys(self) -> tuple[PartitionKey, ...]:
        if not any(log_dir.room.full for log_dir in self._manager.dirs.online):
            return ()
        return tuple(
            key
            for key, partition in self._table.partitions.items()
            if partition.is_online and partition.log is not None and partition.log.full is not None
        )

    # --- disks that fail -----------------------------------------------------------------------------------

    def failed(self, partition: Partition, error: KafkaStorageError, now_ms: int) -> None:
        """An operation on a partition's log raised `error`. On a failed disk the whole log dir is offline
        before anything else is acknowledged (KAFKA-10778): what else it has lost is unknown."""
        if isinstance(error, DiskFullError):
            self.note_full()
            return
        partition.is_flushing = False
        if partition.log is not None:
            partition.log.fail(error)
        self._take_offline(partition)
        self._output.changed.append(partition.key)
        self.lost_dirs(error)
        self._listener.ended_use(partition, now_ms)

    def lost_dirs(self, error: KafkaStorageError) -> None:
        """Take the partitions of offline log dirs offline; without any log dir left the node ends."""
        here = self._table.partitions.values()
        lost = [p for p in here if p.is_online and p.log is not None and p.log.is_offline]
        for partition in lost:
            self._take_offline(partition)
            self._output.changed.append(partition.key)
        offline = [log_dir.path for log_dir in self._manager.dirs if not log_dir.is_online]
        if offline != self._known_offline:
            self._known_offline = offline
            paths = ", ".join(offline)
            self._output.note(
                logging.ERROR, f"log dirs offline: {paths}; partitions lost: {len(lost)}; {error}"
            )
            self._output.effects.append(
                SendHeartbeat() if self._manager.dirs.online else EndNode(KafkaStorageError(str(error)))
            )

    def look_at_dirs(self, error: Exception) -> None:
        """An operation on another file raised `error`: find the log dirs that have failed or are full."""
        self.note_full()
        self.lost_dirs(KafkaStorageError(str(error)))

    def found_damage(self, partition: Partition, error: CorruptMessageError) -> None:
        """Stored records are corrupt. They are never served; intact ones still are."""
        if not partition.is_damaged:
            partition.is_damaged = True
            text = f"{partition.topic_partition} has corrupt records: {error}"
            self._output.note(logging.ERROR, text)

    def _take_offline(self, partition: Partition) -> None:
        if self._table.partitions.get(partition.key) is partition:
            self._listener.went_offline(partition.key)
        partition.go_offline()

    # --- disks that are full -------------------------------------------------------------------------------

    def note_full(self) -> None:
        """Report the log dirs that are full since the last call."""
        for log_dir in self._manager.dirs.online:
            if log_dir.room.full is not None and log_dir.path not in self._known_full:
                self._known_full.add(log_dir.path)
                text = f"{log_dir.room.full}; no records are appended there until there is free space"
                self._output.note(logging.ERROR, text)
                self._output.effects.append(SendHeartbeat())

    def flush_refused(self, partition: Partition) -> None:
        """A flush failed on a full disk: the next tick requests it again."""
        assert partition.log is not None, "only an online partition is flushed"
        partition.is_flushing = False
        partition.log.flusher.abandon()
        self.note_full()

    def has_no_log(self, key: PartitionKey, *, is_new: bool) -> None:
        """The log of a partition could not be created on a full disk: retry when there is space."""
        self._without_log[key] = is_new
        self.note_full()

    def look_for_room(self) -> list[tuple[PartitionKey, bool]]:
        """Find the disks that have space again; called about each second. Returns the partitions without a
        log to reopen, and whether they are new."""
        self.note_full()
        reopened: list[tuple[PartitionKey, bool]] = []
        for log_dir in self._manager.dirs.online:
            if log_dir.look_for_room():
                self._known_full.discard(log_dir.path)
                self._output.note(logging.WARNING, f"{log_dir.path} has free space again")
                self._output.effects.append(SendHeartbeat())
                reopened += self._without_log_now()
        return reopened

    def _without_log_now(self) -> list[tuple[PartitionKey, bool]]:
        """The partitions whose logs could not be created, or not be recovered at the start."""
        loaded = set(self._manager.loader.retry_without_room())
        here = self._table.partitions.values()
        waiting = {partition.key: False for partition in here if partition.topic_partition in loaded}
        waiting |= self._without_log
        self._without_log = {}
        return [(key, is_new) for key, is_new in waiting.items() if self._lacks_log(key)]

    def _lacks_log(self, key: PartitionKey) -> bool:
        partition = self._table.partitions.get(key)
        return partition is not None and partition.state is PartitionState.OFFLINE and partition.log is None
