"""A standby task: keeps the stores of a task up to date from their changelogs, and processes nothing. Pure.

It is a task whose restoration has no end. Promoted, the task restores the rest and runs, with the same open
stores; a task that has run becomes a standby in the same way. An input topic that serves as changelog is read
up to the committed offset: the records behind it are input. Source for the aims: Kafka StandbyTask.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...protocol.model import TopicPartition
    from ..records import TaskId
    from .restoration import ChangelogRestore, Restoration
    from .task import Task


class Applied(NamedTuple):
    """What became of records: how many were restored, and whether the partition has reached its limit."""

    restored: int
    is_at_limit: bool


class StandbyTask:
    """Invariant: what a store holds is that of its changelog before `position`, which only grows."""

    def __init__(self, task: Task, restoration: Restoration) -> None:
        self.task = task
        self._restoration = restoration
        self._ends: dict[TopicPartition, int] = {}
        self._durable: dict[TopicPartition, int] = {}
        for partition, changelog in restoration.changelogs.items():
            changelog.end = changelog.position if changelog.is_source else None
            self._durable[partition] = changelog.position

    @property
    def id(self) -> TaskId:
        return self.task.id

    @property
    def changelogs(self) -> Mapping[TopicPartition, ChangelogRestore]:
        return self._restoration.changelogs

    def use_committed(self, partition: TopicPartition, offset: int) -> bool:
        """The committed offset of an input topic. True if it has moved: more of the topic can be read."""
        changelog = self.changelogs[partition]
        has_moved = offset > (changelog.end or 0)
        if has_moved:
            changelog.end = offset
        self._ends[partition] = changelog.end or 0
        return has_moved

    def apply(self, partition: TopicPartition, records: list[Any]) -> Applied:
        """Restore the records that are before the limit. Errors: StateStoreError."""
        changelog = self.changelogs[partition]
        before = changelog.restored
        self._restoration.apply(partition, records, 0)
        self.task.context.forget_cached()
        behind = records[-1].offset + 1
        is_at_limit = changelog.end is not None and behind > changelog.end
        self._move(changelog, behind)
        return Applied(changelog.restored - before, is_at_limit)

    def advance(self, partition: TopicPartition, position: int, lag: int | None) -> None:
        """The position of the consumer, which moves over markers and gaps as well, and its distance to the
        end of the changelog."""
        changelog = self.changelogs[partition]
        self._move(changelog, position)
        if lag is not None and not changelog.is_source:
            self._ends[partition] = position + lag

    @staticmethod
    def _move(changelog: ChangelogRestore, position: int) -> None:
        if changelog.end is not None:
            position = min(position, changelog.end)
        changelog.position = max(changelog.position, position)

    def begin_at(self, partition: TopicPartition, log_start_offset: int) -> bool:
        """Records before this offset were deleted. False if the store misses some of them."""
        changelog = self.changelogs[partition]
        if 0 < changelog.position < log_start_offset:
            return False
        self._restoration.use_start(partition, log_start_offset)
        return True

    def commit(self) -> None:
        """Make what was restored durable, with its position. Errors: StateStoreError; it can be repeated."""
        for partition, changelog in self.changelogs.items():
            if changelog.position > self._durable[partition]:
                changelog.store.commit(changelog.position)
                self._durable[partition] = changelog.position

    def end(self, partition: TopicPartition) -> int:
        """The last known end of a changelog; at least the position."""
        return max(self._ends.get(partition, 0), self.changelogs[partition].position)

    def positions(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Of each store its name, changelog and position."""
        for partition, changelog in self.changelogs.items():
            yield changelog.store_name, partition, changelog.position

    @property
    def offset(self) -> int:
        """The sum of the positions."""
        return sum(changelog.position for changelog in self.changelogs.values())

    @property
    def end_offset(self) -> int:
        """The sum of the last known ends."""
        return sum(self.end(partition) for partition in self.changelogs)

    @property
    def lag(self) -> int | None:
        """Offsets that the stores do not have yet; None until the ends of all changelogs are known."""
        return self.end_offset - self.offset if self._ends.keys() == self.changelogs.keys() else None

    def promote(self, now_ms: int) -> Restoration:
        """End the standby: its task restores what is left."""
        self._restoration.begin_again(now_ms)
        return self._restoration
