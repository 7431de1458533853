"""Offsets that nobody needs any more, and groups that have nothing left, are deleted. Pure.

A timer looks every offsets.retention.check.interval.ms, and at once when topics were deleted. What it finds
goes into the log in batches of at most MAX_TOMBSTONES. Source: Kafka OffsetMetadataManager.java; KIP-211.

An offset expires when the retention has passed since its group became empty, or since the commit for simple
groups and for topics that a live group no longer reads. Both times stand in the log, so that a load changes
neither (KAFKA-8069). Offsets of topics that a live group reads never expire (KAFKA-4682).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ...protocol.model import NO_TIMESTAMP
from ..runtime.ports import Outcome
from .offset_commits import NO_TOPIC_ID
from .offset_store import offset_tombstone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ..runtime.ports import Now, Record, Surroundings
    from .facts import GroupFacts
    from .group import Group
    from .offset_store import OffsetStore, StoredOffset

MAX_TOMBSTONES = 2_000  # about 200 KiB with long names: fits any max.message.bytes that is sensible here
NEXT_BATCH_MS = 1_000  # also how long a batch that was refused waits for its next attempt
MS_PER_MINUTE = 60_000
_TIMER = "expiry"
_SWEEP_TIMER = "deleted topics"


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
        self._deleted: dict[str, bytes] = {}  # topics whose offsets are to go, ids by name

    def on_loaded(self, now: Now) -> None:
        """Begin to look, not at once: nothing is urgent, and the load is."""
        self._image = self._around.image
        self._set_timer(now)

    def _set_timer(self, now: Now) -> None:
        interval_ms = self._around.config.now.offsets_retention_check_interval_ms
        self._around.timers.set(_TIMER, now.ms + interval_ms, self._look)

    # --- old offsets -------------------------------------------------------------------------------------

    def _look(self, now: Now) -> Outcome:
        outcome = Outcome()
        self._set_timer(now)
        retention_ms = self._around.config.now.offsets_retention_minutes * MS_PER_MINUTE
        for group in list(self._groups.values()):
            room = MAX_TOMBSTONES - len(outcome.records)
            expired = list(islice(self._expired(group, now, retention_ms), room))
            self._facts.offset_expirations += len(expired)
            outcome.records += expired
            has_none_left = len(expired) == len(self._store.of(group.group_id))
            if has_none_left and group.is_empty and not self._store.has_open_transactions(group.group_id):
                outcome.records += group.tombstones()
            if len(outcome.records) >= MAX_TOMBSTONES:
                self._around.timers.set(_TIMER, now.ms + NEXT_BATCH_MS, self._look)
                break
        return outcome

    def _expired(self, group: Group, now: Now, retention_ms: int) -> Iterator[Record]:
        """An offset that a transaction is about to replace stays. So do those of topics that are read, but
        for topics that were deleted while another node coordinated."""
        committed, pending = self._store.of(group.group_id), self._store.pending(group.group_id)
        topics = dict.fromkeys(tp.topic for tp in committed)
        is_read = {topic: group.is_subscribed_to(topic) for topic in topics}  # once each: it is dear
        for tp, stored in committed.items():
            topic_id = stored.value.topic_id
            is_gone = topic_id != NO_TOPIC_ID and topic_id not in self._around.image.topic_names
            if tp in pending or (is_read[tp.topic] and not is_gone):
                continue
            if is_gone or _is_over(group, stored, now, retention_ms):
                yield offset_tombstone(group.group_id, tp)

    # --- deleted topics ----------------------------------------------------------------------------------

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> None:
        """Topics that were there and are not now, or are others of the same name."""
        if delta is not None:
            gone = {topic.name: topic.topic_id for topic in delta.topics_removed}
        else:
            gone = {
                name: topic.topic_id
                for name, topic in self._image.topics.items()
                if topic.topic_id not in image.topic_names
            }
        self._image = image
        self._deleted |= gone
        if gone:
            self._around.timers.set(_SWEEP_TIMER, now.ms, self._sweep)

    def _sweep(self, now: Now) -> Outcome:
        """Until there is nothing left to find: an append may fail."""
        outcome = Outcome()
        for group_id, tp, stored in self._store.all_partitions():
            topic_id = self._deleted.get(tp.topic)
            if topic_id is not None and stored.value.topic_id in (NO_TOPIC_ID, topic_id):
                outcome.records.append(offset_tombstone(group_id, tp))
            if len(outcome.records) >= MAX_TOMBSTONES:
                break
        if outcome.records:
            self._facts.offset_deletions += len(outcome.records)
            self._around.timers.set(_SWEEP_TIMER, now.ms + NEXT_BATCH_MS, self._sweep)
        else:
            self._deleted = {}
        return outcome


def _is_over(group: Group, stored: StoredOffset, now: Now, retention_ms: int) -> bool:
    """Commits that say themselves when they expire do so then."""
    if stored.value.expire_ms != NO_TIMESTAMP:
        return now.wall_ms >= stored.value.expire_ms
    since_ms = group.offsets_expire_since(stored.value.commit_ms)
    return since_ms is not None and now.wall_ms - since_ms >= retention_ms
