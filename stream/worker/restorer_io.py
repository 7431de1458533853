"""Restores the stores of the tasks of one thread from their changelogs, with one consumer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...clients.admin.admin_types import LATEST
from ..errors import TaskCorruptedError
from ..state.engines import DamagedStoreError
from ..task.restored_writes import to_commit
from .listeners_io import RestoreNotices
from .partition_runs import partition_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...clients.sync.admin_io import Admin
    from ...protocol.model import TopicPartition
    from ..records import TaskId
    from ..task.restoration import ChangelogRestore, Restoration
    from .clients_io import Clients
    from .listeners_io import RestoreListener

log = logging.getLogger("headrace.stream")

_SUMMARY_MS = 10_000


class Restorer:
    """Reads changelogs from the offset of each store to the end that they had when the task was added.

    The end is the high watermark, also where committed records are read: the offsets of a transaction may be
    committed before its marker is in a changelog, and a store that is restored up to the last stable offset
    would lack its updates (KAFKA-10167). `committed` gives the committed offsets of input topics that serve
    as changelogs.
    """

    def __init__(
        self,
        clients: Clients,
        config: Mapping[str, Any],
        admin_config: Mapping[str, Any],
        committed: Callable[[list[TopicPartition]], Mapping[TopicPartition, int | None]],
        listener: RestoreListener | None = None,
    ) -> None:
        settings = {**config, "auto.offset.reset": "earliest"}  # retention may delete the start meanwhile
        self._consumer = clients.consumer(settings)
        self._clients, self._admin_config = clients, admin_config
        self._is_read_committed = config.get("isolation.level") == "read_committed"
        self._admin: Admin | None = None  # made when it is needed
        self._committed = committed
        self._listener = RestoreNotices(listener)
        self._restorations: dict[TaskId, Restoration] = {}
        self._changelogs: dict[TopicPartition, tuple[TaskId, ChangelogRestore]] = {}
        self._summary_at_ms = 0
        self._is_full = False
        self.restored = 0
        """Records that were read from changelogs."""

    @property
    def tasks(self) -> list[TaskId]:
        """The tasks whose stores are being restored."""
        return list(self._restorations)

    @property
    def is_busy(self) -> bool:
        return bool(self._restorations)

    def add(self, task_id: TaskId, restoration: Restoration) -> None:
        """Begin. Errors: TaskCorruptedError if a store is ahead of its changelog, or the records behind its
        offset were deleted: the store is to be deleted and restored from the start."""
        partitions = list(restoration.changelogs)
        if not partitions:
            self._restorations[task_id] = restoration
            return
        ends = self._high_watermarks(partitions)
        starts = self._consumer.beginning_offsets(*partitions)
        sources = [tp for tp, changelog in restoration.changelogs.items() if changelog.is_source]
        restoration.use_ends(ends, self._committed(sources) if sources else {})
        for partition, changelog in restoration.changelogs.items():
            begin, end = starts[partition], ends[partition]
            if changelog.position > end or 0 < changelog.position < begin:
                raise TaskCorruptedError(
                    f"task {task_id}: store {changelog.store_name} has offset {changelog.position}, its"
                    f" changelog {partition} has {begin} to {end}",
                    task_id,
                )
            restoration.use_start(partition, begin)
        self._restorations[task_id] = restoration
        for partition, changelog in restoration.changelogs.items():
            self._listener.on_restore_start(
                partition, changelog.store_name, changelog.position, changelog.end or 0
            )
            if changelog.is_done:
                self._listener.on_restore_end(partition, changelog.store_name, 0)
            else:
                self._changelogs[partition] = (task_id, changelog)
        self._assign()

    def position(self, changelog: TopicPartition) -> int | None:
        """The next offset of a changelog that is being restored, else None. From any thread."""
        found = self._changelogs.get(changelog)
        return None if found is None else found[1].position

    def _high_watermarks(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not self._is_read_committed:
            return self._consumer.end_offsets(*partitions)
        if self._admin is None:
            self._admin = self._clients.admin(self._admin_config)
        found = self._admin.list_offsets(dict.fromkeys(partitions, LATEST))
        return {partition: end.offset for partition, end in found.items()}

    def remove(self, task_id: TaskId) -> None:
        """Forget a task that is closed."""
        if self._restorations.pop(task_id, None) is None:
            return
        left = [tp for tp, (owner, _) in self._changelogs.items() if owner == task_id]
        for partition in left:
            changelog = self._changelogs[partition][1]
            self._listener.on_restore_suspended(partition, changelog.store_name, changelog.restored)
        self._drop(left)

    def step(self, timeout_s: float, now_ms: int) -> list[TaskId]:
        """Restore some records; the tasks that are complete.

        Errors: TaskCorruptedError, StateStoreError. After StoreFullError nothing is read until the stores
        have written what they hold.
        """
        if self._is_full:
            self._advance()
        if self._changelogs:
            records = self._consumer.poll(timeout_s)
            for partition, run in partition_runs(records):
                if partition in self._changelogs:
                    self._apply(partition, run)
            self._advance()
        finished = [task_id for task_id, restoration in self._restorations.items() if restoration.is_done]
        for task_id in finished:
            del self._restorations[task_id]
        if self._restorations and now_ms >= self._summary_at_ms:
            self._summary_at_ms = now_ms + _SUMMARY_MS
            self._log_progress(now_ms)
        return finished

    def _apply(self, partition: TopicPartition, records: list[Any]) -> None:
        task_id, changelog = self._changelogs[partition]
        self.restored += len(records)
        before = changelog.restored
        try:
            self._restorations[task_id].apply(partition, records, 0)
        except DamagedStoreError as error:
            raise TaskCorruptedError(f"task {task_id}: {error}", task_id) from error
        if changelog.restored > before:
            last = records[-1].offset if changelog.end is None else min(records[-1].offset, changelog.end - 1)
            self._listener.on_batch_restored(
                partition, changelog.store_name, last, changelog.restored - before
            )

    def _advance(self) -> None:
        """Positions move over markers, gaps and a deleted start without a record; what is restored becomes
        durable, in large batches."""
        for partition, (task_id, _) in self._changelogs.items():
            self._restorations[task_id].apply(partition, [], self._consumer.position(partition))
        for changelog in to_commit([changelog for _, changelog in self._changelogs.values()]):
            self._is_full = True
            changelog.store.commit(changelog.position)
            self._is_full = False
        done = [partition for partition, (_, changelog) in self._changelogs.items() if changelog.is_done]
        for partition in done:
            changelog = self._changelogs[partition][1]
            self._listener.on_restore_end(partition, changelog.store_name, changelog.restored)
        if done:
            self._drop(done)

    def _assign(self) -> None:
        """Positions are those of the changelogs: an assignment forgets the others."""
        self._consumer.assign(list(self._changelogs))
        for partition, (_, changelog) in self._changelogs.items():
            self._consumer.seek(partition, changelog.position)

    def _drop(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            del self._changelogs[partition]
        self._assign()

    def _log_progress(self, now_ms: int) -> None:
        for task_id, restoration in self._restorations.items():
            eta_ms = restoration.eta_ms(now_ms)
            left = "" if eta_ms is None else f", about {eta_ms / 1000:.0f} s"
            log.info("task %s restores its stores: %d offsets left%s", task_id, restoration.remaining, left)

    def close(self) -> None:
        """Close the clients."""
        self._consumer.close()
        if self._admin is not None:
            self._admin.close()
