"""Reads the changelogs of the standby tasks of one thread, with one consumer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError, LogTruncationError, NoOffsetError, OffsetOutOfRangeError
from ..errors import TaskCorruptedError
from ..state.engines import DamagedStoreError
from .listeners_io import RestoreNotices, SuspendReason
from .partition_runs import partition_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...clients.sync.consumer_io import Consumer
    from ...protocol.model import TopicPartition
    from ..records import TaskId
    from ..task.standby_task import StandbyTask
    from .clients_io import Clients
    from .listeners_io import RestoreListener

_REFRESH_S = 1.0  # positions move over markers without a record, and limits with the commits of others
_LOST = (LogTruncationError, NoOffsetError, OffsetOutOfRangeError)


class StandbyReader:
    """Invariant: each partition that the consumer reads belongs to one task. The consumer exists while there
    are standby tasks. Not thread-safe.

    `committed` gives the committed offsets of input topics that serve as changelogs.
    """

    def __init__(
        self,
        clients: Clients,
        config: Mapping[str, Any],
        committed: Callable[[list[TopicPartition]], Mapping[TopicPartition, int | None]],
        listener: RestoreListener | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock_s = clock_s
        # A position that the log does not have is an error: the store behind it is built again
        self._config = {**config, "auto.offset.reset": "none"}
        self._clients = clients
        self._committed = committed
        self._listener = RestoreNotices(listener)
        self._consumer: Consumer[bytes, bytes] | None = None
        self._owners: dict[TopicPartition, StandbyTask] = {}
        self._refresh_at_s = 0.0
        self._unwritten: list[StandbyTask] = []
        self.has_more = False
        """Whether the last turn has found records."""

    def add(self, standby: StandbyTask) -> None:
        """Begin to read the changelogs of a task."""
        for partition, changelog in standby.changelogs.items():
            self._owners[partition] = standby
            self._listener.on_update_start(partition, changelog.store_name, changelog.position)
        self._assign()
        self._refresh_at_s = 0.0

    def remove(self, standby: StandbyTask, reason: SuspendReason) -> None:
        """End that."""
        left = [partition for partition in standby.changelogs if self._owners.pop(partition, None)]
        self._unwritten = [each for each in self._unwritten if each is not standby]
        if left:
            self._assign()
        for partition in left:
            changelog = standby.changelogs[partition]
            self._listener.on_update_suspended(
                partition, changelog.store_name, changelog.position, standby.end(partition), reason
            )

    def _assign(self) -> None:
        """An assignment forgets positions and pauses."""
        if not self._owners:
            self.close()
            return
        if self._consumer is None:
            self._consumer = self._clients.consumer(self._config)
        self._consumer.assign(list(self._owners))
        for partition, standby in self._owners.items():
            changelog = standby.changelogs[partition]
            self._consumer.seek(partition, changelog.position)
            if changelog.is_done:
                self._consumer.pause(partition)

    def step(self, budget_s: float) -> None:
        """Read for about `budget_s`, and make it durable.

        Errors: TaskCorruptedError if the records at the position of a store are gone, or its files are
        damaged; StoreFullError, after which nothing is read until the stores have written what they hold;
        HeadraceError.
        """
        consumer = self._consumer
        if consumer is None:
            return
        self._write()
        begin_s = self.clock_s()
        if begin_s >= self._refresh_at_s:
            self._raise_limits(consumer)
        try:
            self._read(consumer, begin_s + budget_s)
        except HeadraceError:
            if self._consumer is not None:
                self._assign()  # what was read and is not in the stores is read again
            raise

    def _read(self, consumer: Consumer[bytes, bytes], ends_at_s: float) -> None:
        touched: dict[TaskId, StandbyTask] = {}
        while True:
            records = self._poll(consumer)
            for partition, run in partition_runs(records):
                if partition in self._owners:
                    standby = self._owners[partition]
                    touched[standby.id] = standby
                    self._apply(consumer, standby, partition, run)
            self.has_more, now_s = bool(records), self.clock_s()
            if not records or now_s >= ends_at_s:
                break
        if now_s >= self._refresh_at_s:
            self._refresh_at_s = now_s + _REFRESH_S
            touched = {standby.id: standby for standby in self._owners.values()}
        self._advance(consumer, touched.values())

    def _poll(self, consumer: Consumer[bytes, bytes]) -> list[Any]:
        try:
            return consumer.poll(0)
        except _LOST as error:
            self._find_lost(consumer, error)
            return []

    def _find_lost(self, consumer: Consumer[bytes, bytes], error: Exception) -> None:
        """The log does not have the position of a store. A store that is still empty begins at the start of
        its log; another one misses records. Errors: TaskCorruptedError."""
        starts = consumer.beginning_offsets(*self._owners)
        ends = consumer.end_offsets(*self._owners)
        for partition, standby in self._owners.items():
            position, begin, end = standby.changelogs[partition].position, starts[partition], ends[partition]
            if not standby.begin_at(partition, begin) or position > end:
                raise TaskCorruptedError(
                    f"changelog {partition} has offsets {begin} to {end}, store"
                    f" {standby.changelogs[partition].store_name} has offset {position}",
                    standby.id,
                ) from error
        if not isinstance(error, OffsetOutOfRangeError):  # the log has other records at a position
            partition, standby = next(
                ((tp, each) for tp, each in self._owners.items() if str(error).startswith(f"{tp} ")),
                next(iter(self._owners.items())),
            )
            raise TaskCorruptedError(f"changelog {partition} has changed: {error}", standby.id) from error
        self._assign()

    def _apply(
        self,
        consumer: Consumer[bytes, bytes],
        standby: StandbyTask,
        partition: TopicPartition,
        records: list[Any],
    ) -> None:
        try:
            count, is_at_limit = standby.apply(partition, records)
        except DamagedStoreError as error:
            raise TaskCorruptedError(str(error), standby.id) from error
        changelog = standby.changelogs[partition]
        if is_at_limit:
            consumer.seek(partition, changelog.position)
            consumer.pause(partition)
        if count:
            self._listener.on_batch_loaded(
                partition, changelog.store_name, changelog.position - 1, count, standby.end(partition)
            )

    def _raise_limits(self, consumer: Consumer[bytes, bytes]) -> None:
        sources = [tp for tp, standby in self._owners.items() if standby.changelogs[tp].is_source]
        if not sources:
            return
        committed = self._committed(sources)
        for partition in sources:
            if self._owners[partition].use_committed(partition, committed.get(partition) or 0):
                consumer.resume(partition)

    def _advance(self, consumer: Consumer[bytes, bytes], standbys: Iterable[StandbyTask]) -> None:
        lags = consumer.lag()
        for standby in standbys:
            for partition in standby.changelogs:
                standby.advance(partition, consumer.position(partition), lags.get(partition))
            self._unwritten.append(standby)
        self._write()

    def _write(self) -> None:
        """What was read becomes durable. Errors: TaskCorruptedError, StateStoreError."""
        while self._unwritten:
            standby = self._unwritten[-1]
            try:
                standby.commit()
            except DamagedStoreError as error:
                raise TaskCorruptedError(str(error), standby.id) from error
            self._unwritten.pop()

    def close(self) -> None:
        """Close the consumer."""
        consumer, self._consumer, self.has_more = self._consumer, None, False
        if consumer is not None:
            consumer.close()
