"""Offsets that nobody needs any more, and groups that have nothing left, are deleted. Pure.

Every offsets.retention.check.interval.ms a round goes through all groups, and another one at once when topics
were deleted. A round takes many short turns, so that others have theirs, and what a turn finds fits into a
batch. Source: Kafka OffsetMetadataManager.java; KIP-211.

An offset expires when the retention has passed since its group became empty, or since the commit for simple
groups and for topics that a live group no longer reads. Both times stand in the log, so that a load changes
neither (KAFKA-8069). Offsets of topics that a live group reads never expire (KAFKA-4682).
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_TIMESTAMP
from ..runtime.ports import Outcome
from .offset_commits import NO_TOPIC_ID
from .offset_store import offset_tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ..runtime.ports import Now, Record, Surroundings
    from .facts import GroupFacts
    from .group import Group
    from .offset_store import OffsetStore, StoredOffset

MAX_TOMBSTONES = 2_000  # of a turn: about 200 KiB with long names, which any sensible max.message.bytes takes
MAX_LOOKS = 5_000  # offsets that a turn looks at, some milliseconds; one group is looked at whole
PAUSE_MS = 10  # between turns
WRITE_PAUSE_MS = 1_000  # after a turn that wrote, or was refused to: what was not written is found again
MS_PER_MINUTE = 60_000


class _Round(NamedTuple):
    """A way through all groups."""

    key: Hashable  # of its timer
    left: deque[str]  # groups that it has not been at
    find: Callable[[Group, Now], Iterator[Record]]  # tombstones of a group's offsets
    over: Callable[[Now], None]


class Expiry:
    """Cleans up after groups and topics."""

    def __init__(
        self, groups: dict[str, Group], around: Surroundings, store: OffsetStore, facts: GroupFacts
    ) -> None:
        self._groups = groups
        self._around = around
        self._store = store
        self._facts = facts
        self._image = around.image  # the last one that was looked at
        self._deleted: set[bytes] = set()  # ids of topics whose offsets are to go

    def on_loaded(self, now: Now) -> None:
        """Begin to look, not at once: nothing is urgent, and the load is."""
        self._image = self._around.image
        self._wait(now)

    def _turn(self, this: _Round, now: Now) -> Outcome:
        outcome, looked = Outcome(is_divisible=True), 0
        while this.left and looked < MAX_LOOKS and len(outcome.records) < MAX_TOMBSTONES:
            group = self._groups.get(this.left[0])
            room = MAX_TOMBSTONES - len(outcome.records)
            if group is not None:
                outcome.records += islice(this.find(group, now), room)
                looked += 1 + len(self._store.of(group.group_id))
            if len(outcome.records) < MAX_TOMBSTONES:
                this.left.popleft()
        if this.left:
            pause_ms = WRITE_PAUSE_MS if outcome.records else PAUSE_MS
            self._around.timers.set(this.key, now.ms + pause_ms, lambda then: self._turn(this, then))
        else:
            this.over(now)
        return outcome

    # --- old offsets -------------------------------------------------------------------------------------

    def _wait(self, now: Now) -> None:
        interval_ms = self._around.config.now.offsets_retention_check_interval_ms
        self._around.timers.set("expiry", now.ms + interval_ms, self._begin)

    def _begin(self, now: Now) -> Outcome:
        return self._turn(_Round("expiry", deque(self._groups), self._expired, self._wait), now)

    def _expired(self, group: Group, now: Now) -> Iterator[Record]:
        """An offset that a transaction is about to replace stays. So do those of topics that are read, but
        for topics that were deleted while another node coordinated."""
        committed, pending = self._store.of(group.group_id), self._store.pending(group.group_id)
        topics = dict.fromkeys(tp.topic for tp in committed)
        is_read = {topic: group.is_subscribed_to(topic) for topic in topics}  # once each: it is dear
        retention_ms = self._around.config.now.offsets_retention_minutes * MS_PER_MINUTE
        count = 0
        for tp, stored in committed.items():
            is_over = not is_read[tp.topic] and _is_over(group, stored, now, retention_ms)
            if tp not in pending and (is_over or self._is_gone(stored)):
                count += 1
                self._facts.offset_expirations += 1
                yield offset_tombstone(group.group_id, tp)
        has_nothing = count == len(committed) and not self._store.has_open_transactions(group.group_id)
        if has_nothing and group.is_empty:
            yield from group.tombstones()

    def _is_gone(self, stored: StoredOffset) -> bool:
        """By now this node knows every topic of which it has read offsets, unless the topic was deleted."""
        topic_id = stored.value.topic_id
        return topic_id != NO_TOPIC_ID and topic_id not in self._around.image.topic_names

    # --- deleted topics ----------------------------------------------------------------------------------

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> None:
        """Topics that were there and are not now, though there may be others of the same name."""
        if delta is not None:
            gone = {topic.topic_id for topic in delta.topics_removed}
        else:
            gone = {each.topic_id for each in self._image.topics.values()} - set(image.topic_names)
        self._image = image
        self._deleted |= gone
        if gone:
            self._sweep_at(now.ms)

    def _sweep_at(self, deadline_ms: int) -> None:
        self._around.timers.set("sweep", deadline_ms, self._sweep)

    def _sweep(self, now: Now) -> Outcome:
        """Round after round until there is nothing left to find, as an append may fail."""
        deletions = self._facts.offset_deletions

        def over(then: Now) -> None:
            if self._facts.offset_deletions > deletions:
                self._sweep_at(then.ms + WRITE_PAUSE_MS)
            else:
                self._deleted.clear()

        return self._turn(_Round("sweep", deque(self._groups), self._of_deleted_topics, over), now)

    def _of_deleted_topics(self, group: Group, now: Now) -> Iterator[Record]:
        """A tombstone deletes what is committed and what transactions hold: neither may be of a topic that
        has the same name now."""
        del now
        known: dict[TopicPartition, list[StoredOffset]] = {}
        for offsets in (self._store.of(group.group_id), self._store.pending(group.group_id)):
            for tp, stored in offsets.items():
                known.setdefault(tp, []).append(stored)
        for tp, found in known.items():
            if all(stored.value.topic_id in self._deleted for stored in found):
                self._facts.offset_deletions += 1
                yield offset_tombstone(group.group_id, tp)


def _is_over(group: Group, stored: StoredOffset, now: Now, retention_ms: int) -> bool:
    """Commits that say themselves when they expire do so then, if anything of the group may."""
    since_ms = group.offsets_expire_since(stored.value.commit_ms)
    if since_ms is None:
        return False
    if stored.value.expire_ms != NO_TIMESTAMP:
        return now.wall_ms >= stored.value.expire_ms
    return now.wall_ms - since_ms >= retention_ms
