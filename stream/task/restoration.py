"""Restoring the stores of a task from their changelogs: what to read, and when it is done.

A changelog is done when the position of its consumer reaches the end: transaction markers, compacted records
and a deleted start move the position without a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(slots=True)
class ChangelogRestore:
    """One changelog partition. Invariant: `start` <= `position`; done from `position` >= `end` on."""

    store_name: str
    store: Any
    is_source: bool
    """The changelog is an input topic: records behind the committed offset are input, not state."""
    start: int
    position: int
    end: int | None = None
    restored: int = 0

    @property
    def is_done(self) -> bool:
        return self.end is not None and self.position >= self.end

    @property
    def remaining(self) -> int:
        return 0 if self.end is None else max(self.end - self.position, 0)


class Restoration:
    """All changelogs of a task. It has not begun for one whose end is not known."""

    def __init__(
        self,
        partition: int,
        stores: Mapping[str, Any],
        changelogs: Mapping[str, str],
        source_topics: Iterable[str],
        started_ms: int,
        positions: Mapping[str, int] | None = None,
    ) -> None:
        """`changelogs`: topic by store name. `positions` by store name, of stores that have records behind
        their committed offsets."""
        sources = frozenset(source_topics)
        self.changelogs: dict[TopicPartition, ChangelogRestore] = {}
        self._started_ms = started_ms
        for name, store in stores.items():
            topic = changelogs.get(name)
            if topic is None:
                continue
            start = max(store.committed_offset() or 0, (positions or {}).get(name, 0))
            self.changelogs[TopicPartition(topic, partition)] = ChangelogRestore(
                name, store, topic in sources, start, start
            )

    def begin_again(self, started_ms: int) -> None:
        """Restore what is left from here on; the ends are to be set again."""
        self._started_ms = started_ms
        for changelog in self.changelogs.values():
            changelog.start, changelog.end, changelog.restored = changelog.position, None, 0

    def use_ends(
        self, ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int | None]
    ) -> None:
        """The end offset of each changelog, and the committed offset of those that are input topics."""
        for partition, end in ends.items():
            changelog = self.changelogs[partition]
            changelog.end = min(end, committed.get(partition) or 0) if changelog.is_source else end

    def use_start(self, partition: TopicPartition, log_start_offset: int) -> None:
        """The start of a changelog was deleted: there is nothing to restore before it."""
        changelog = self.changelogs[partition]
        changelog.position = max(changelog.position, log_start_offset)

    def apply(self, partition: TopicPartition, records: list[Any], position: int) -> None:
        """Restore records before the end. `position` is the next offset of the consumer, which may lie behind
        gaps.

        Records without key are no state: an input topic that serves as changelog may have some.
        """
        changelog = self.changelogs[partition]
        end = changelog.end
        if end is not None and records and records[-1].offset >= end:
            records = [record for record in records if record.offset < end]
        if any(record.key is None for record in records):
            records = [record for record in records if record.key is not None]
        if records:
            changelog.store.restore(records)
            changelog.restored += len(records)
        if end is not None:  # Hazard: behind it are records of the next owner, which are not in the store
            position = min(position, end)
        changelog.position = max(changelog.position, position)

    @property
    def is_done(self) -> bool:
        return all(changelog.is_done for changelog in self.changelogs.values())

    @property
    def remaining(self) -> int:
        """Offsets that are left, gaps included."""
        return sum(changelog.remaining for changelog in self.changelogs.values())

    def eta_ms(self, now_ms: int) -> int | None:
        """The time left at the speed so far; None before the first records."""
        done = sum(changelog.position - changelog.start for changelog in self.changelogs.values())
        if not done:
            return None
        return (now_ms - self._started_ms) * self.remaining // done
