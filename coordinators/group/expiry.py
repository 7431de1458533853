"""Deletes expired offsets, offsets of deleted topics, and groups that have nothing left. Pure.

A sweep goes through all groups every offsets.retention.check.interval.ms, and another one starts at once when
topics were deleted. A sweep takes many short steps, between which other requests are handled; the tombstones
of a step fit into one batch. Source: Kafka OffsetMetadataManager.java; KIP-211.

An offset expires when the retention has passed since its group became empty, or since the commit for simple
groups and for topics that a live group is no longer subscribed to. Both times are in the log, so that a load
changes neither (KAFKA-8069). Offsets of subscribed topics of a live group never expire (KAFKA-4682).
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
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Record, ShardContext
    from .group import Group
    from .group_counters import GroupCounters
    from .offset_store import OffsetStore, StoredOffset

MAX_TOMBSTONES = 2_000  # per step: about 200 KiB with long names, below any sensible max.message.bytes
MAX_CHECKS = 5_000  # offsets checked per step, some milliseconds; a group is always checked as a whole
PAUSE_MS = 10  # between steps
# after a step with tombstones, or with a refused append: the next step finds unwritten ones again
WRITE_PAUSE_MS = 1_000
MS_PER_MINUTE = 60_000


class _Sweep(NamedTuple):
    """The state of one pass over all groups."""

    key: Hashable  # of its timer
    pending: deque[str]  # groups still to check
    find: Callable[[Group, Now], Iterator[Record]]  # tombstones of a group's offsets
    on_done: Callable[[Now], None]


class Expiry:
    """Timers and decisions of the sweeps of one shard."""

    def __init__(
        self, groups: dict[str, Group], context: ShardContext, store: OffsetStore, counters: GroupCounters
    ) -> None:
        self._groups = groups
        self._context = context
        self._store = store
        self._counters = counters
        self._image = context.image  # the image of the last `on_metadata`
        self._deleted: set[bytes] = set()  # ids of topics whose offsets are still to be deleted

    def on_loaded(self, now: Now) -> None:
        """Start the sweep timer; the first sweep comes one interval after the load."""
        self._image = self._context.image
        self._wait(now)

    def _step(self, sweep: _Sweep, now: Now) -> Outcome:
        outcome, looked = Outcome(is_divisible=True), 0
        while sweep.pending and looked < MAX_CHECKS and len(outcome.records) < MAX_TOMBSTONES:
            group = self._groups.get(sweep.pending[0])
            room = MAX_TOMBSTONES - len(outcome.records)
            if group is not None:
                outcome.records += islice(sweep.find(group, now), room)
                looked += 1 + len(self._store.of(group.group_id))
            if len(outcome.records) < MAX_TOMBSTONES:
                sweep.pending.popleft()
        if sweep.pending:
            pause_ms = WRITE_PAUSE_MS if outcome.records else PAUSE_MS
            self._context.timers.set(sweep.key, now.ms + pause_ms, lambda then: self._step(sweep, then))
        else:
            sweep.on_done(now)
        return outcome

    # --- old offsets -------------------------------------------------------------------------------------

    def _wait(self, now: Now) -> None:
        interval_ms = self._context.config.now.offsets_retention_check_interval_ms
        self._context.timers.set("expiry", now.ms + interval_ms, self._begin)

    def _begin(self, now: Now) -> Outcome:
        return self._step(_Sweep("expiry", deque(self._groups), self._expired, self._wait), now)

    def _expired(self, group: Group, now: Now) -> Iterator[Record]:
        """Expired offsets of the group. Kept: offsets that an open transaction is about to replace, and
        offsets of subscribed topics, unless the topic was deleted while another node coordinated the
        group."""
        committed, pending = self._store.of(group.group_id), self._store.pending(group.group_id)
        topics = dict.fromkeys(tp.topic for tp in committed)
        # once per topic: the check is expensive
        is_read = {topic: group.is_subscribed_to(topic) for topic in topics}
        retention_ms = self._context.config.now.offsets_retention_minutes * MS_PER_MINUTE
        count = 0
        for tp, stored in committed.items():
            is_over = not is_read[tp.topic] and _is_expired(group, stored, now, retention_ms)
            if tp not in pending and (is_over or self._topic_was_deleted(stored)):
                count += 1
                self._counters.offset_expirations += 1
                yield offset_tombstone(group.group_id, tp)
        has_nothing = count == len(committed) and not self._store.has_open_transactions(group.group_id)
        if has_nothing and group.is_empty:
            yield from group.tombstones()

    def _topic_was_deleted(self, stored: StoredOffset) -> bool:
        """The topic was deleted: this node's image is at least as new as every offset that it has
        replayed."""
        topic_id = stored.value.topic_id
        return topic_id != NO_TOPIC_ID and topic_id not in self._context.image.topic_names

    # --- deleted topics ----------------------------------------------------------------------------------

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> None:
        """Start a sweep for topics that were deleted, even if new ones have the same names."""
        if delta is not None:
            gone = {topic.topic_id for topic in delta.topics_removed}
        else:
            gone = {each.topic_id for each in self._image.topics.values()} - set(image.topic_names)
        self._image = image
        self._deleted |= gone
        if gone:
            self._sweep_at(now.ms)

    def _sweep_at(self, deadline_ms: int) -> None:
        self._context.timers.set("sweep", deadline_ms, self._sweep)

    def _sweep(self, now: Now) -> Outcome:
        """Repeat passes until one finds nothing: an append may fail."""
        deletions = self._counters.offset_deletions

        def on_done(then: Now) -> None:
            if self._counters.offset_deletions > deletions:
                self._sweep_at(then.ms + WRITE_PAUSE_MS)
            else:
                self._deleted.clear()

        return self._step(_Sweep("sweep", deque(self._groups), self._of_deleted_topics, on_done), now)

    def _of_deleted_topics(self, group: Group, now: Now) -> Iterator[Record]:
        """Committed and pending offsets of deleted topics; a tombstone deletes both, so neither may belong to
        a new topic with the same name."""
        del now
        known: dict[TopicPartition, list[StoredOffset]] = {}
        for offsets in (self._store.of(group.group_id), self._store.pending(group.group_id)):
            for tp, stored in offsets.items():
                known.setdefault(tp, []).append(stored)
        for tp, found in known.items():
            if all(stored.value.topic_id in self._deleted for stored in found):
                self._counters.offset_deletions += 1
                yield offset_tombstone(group.group_id, tp)


def _is_expired(group: Group, stored: StoredOffset, now: Now, retention_ms: int) -> bool:
    """Whether the offset has expired; commits with an expire timestamp of their own (OffsetCommit 1) use
    that."""
    since_ms = group.offsets_expire_since(stored.value.commit_ms)
    if since_ms is None:
        return False
    if stored.value.expire_ms != NO_TIMESTAMP:
        return now.wall_ms >= stored.value.expire_ms
    return now.wall_ms - since_ms >= retention_ms
