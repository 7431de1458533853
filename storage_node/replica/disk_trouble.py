"""What happens to the partitions of a node when a disk fails, is full, or holds what was not written. Pure.

A disk that fails takes its log dir offline for good, with all partitions in it: the controller is told at
once, gives their leadership to others in sync and takes this node out of their ISRs. A full disk takes
nothing: its partitions are still read, still led while nobody else can take writes, and go on by
themselves when there is room; the controller is told of it, too (ADR 19).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...protocol.errors import KafkaStorageError
from ...runtime.files.file_layer import DiskFullError
from ..effects import EndNode, TellController
from .partition import PartitionState

if TYPE_CHECKING:
    from ...protocol.errors import CorruptMessageError
    from ..log.log_manager import LogManager
    from .partition import Partition, PartitionKey
    from .partition_table import PartitionTable
    from .step_output import StepOutput


class DiskNews(NamedTuple):
    """What the controller is told of a node's disks: (topic id, partition) each."""

    offline_dirs: tuple[bytes, ...] = ()  # ids of the log dirs that failed
    offline: tuple[PartitionKey, ...] = ()  # here, and cannot be served
    full: tuple[PartitionKey, ...] = ()  # served, but without room for records
    cordoned_dirs: tuple[bytes, ...] = ()  # ids of the log dirs that get no new replicas


class OfflineListener(Protocol):
    """What follows when a disk takes a partition offline."""

    def went_offline(self, key: PartitionKey) -> None:
        """Neither fetch nor move the partition any more."""

    def ended_use(self, partition: Partition, now_ms: int) -> None:
        """No flush uses its log any more: if the partition was removed, the removal may end."""


class DiskTrouble:
    """The disks of one node as its partitions see them."""

    def __init__(
        self, table: PartitionTable, manager: LogManager, output: StepOutput, listener: OfflineListener
    ) -> None:
        self._table = table
        self._manager = manager
        self._output = output
        self._listener = listener
        self._known_offline: list[str] = []
        self._known_full: set[str] = set()
        self._without_log: dict[PartitionKey, bool] = {}  # for want of room; whether they are new

    def news(self) -> DiskNews:
        """How the disks are now, for the controller."""
        partitions = self._table.partitions
        offline = tuple(key for key, partition in partitions.items() if not partition.is_online)
        manager = self._manager
        return DiskNews(manager.dirs.offline_ids, offline, self._full_keys(), manager.placement.cordoned_ids)

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
        """An operation on one partition's log met `error`. If the disk is bad its whole log dir is offline,
        before anything else is acknowledged (KAFKA-10778): nobody knows what else that disk has lost."""
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
        """Take the partitions on offline dirs offline; with no dir left the node ends."""
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
                TellController() if self._manager.dirs.online else EndNode(KafkaStorageError(str(error)))
            )

    def look_at_dirs(self, error: Exception) -> None:
        """Something other than a partition's own log met `error`: see which dirs failed or ran full."""
        self.note_full()
        self.lost_dirs(KafkaStorageError(str(error)))

    def found_damage(self, partition: Partition, error: CorruptMessageError) -> None:
        """Stored bytes are not what was written. They are never served; what is whole still is."""
        if not partition.is_damaged:
            partition.is_damaged = True
            text = f"{partition.topic_partition} is damaged: {error}"
            self._output.note(logging.ERROR, text)

    def _take_offline(self, partition: Partition) -> None:
        if self._table.partitions.get(partition.key) is partition:
            self._listener.went_offline(partition.key)
        partition.go_offline()

    # --- disks that are full -------------------------------------------------------------------------------

    def note_full(self) -> None:
        """Tell of the dirs that have run full since the last call."""
        for log_dir in self._manager.dirs.online:
            if log_dir.room.full is not None and log_dir.path not in self._known_full:
                self._known_full.add(log_dir.path)
                text = f"{log_dir.room.full}; nothing is appended there until there is room"
                self._output.note(logging.ERROR, text)
                self._output.effects.append(TellController())

    def flush_refused(self, partition: Partition) -> None:
        """A flush found no room for what it had to write: it is asked for again by the next tick."""
        assert partition.log is not None, "only an online partition is flushed"
        partition.is_flushing = False
        partition.log.flusher.abandon()
        self.note_full()

    def has_no_log(self, key: PartitionKey, *, is_new: bool) -> None:
        """There was no room to make the log of a partition: it is made when there is."""
        self._without_log[key] = is_new
        self.note_full()

    def look_for_room(self) -> list[tuple[PartitionKey, bool]]:
        """See which disks have room again; called about each second. The partitions without a log that may
        get one now, and whether they are new."""
        self.note_full()
        reopened: list[tuple[PartitionKey, bool]] = []
        for log_dir in self._manager.dirs.online:
            if log_dir.look_for_room():
                self._known_full.discard(log_dir.path)
                self._output.note(logging.WARNING, f"{log_dir.path} has room again")
                self._output.effects.append(TellController())
                reopened += self._without_log_now()
        return reopened

    def _without_log_now(self) -> list[tuple[PartitionKey, bool]]:
        """Those whose logs could not be created, or not be recovered at the start."""
        loaded = set(self._manager.loader.retry_without_room())
        here = self._table.partitions.values()
        waiting = {partition.key: False for partition in here if partition.topic_partition in loaded}
        waiting |= self._without_log
        self._without_log = {}
        return [(key, is_new) for key, is_new in waiting.items() if self._lacks_log(key)]

    def _lacks_log(self, key: PartitionKey) -> bool:
        partition = self._table.partitions.get(key)
        return partition is not None and partition.state is PartitionState.OFFLINE and partition.log is None
