"""OffsetFetch. Pure.

Source: Kafka OffsetMetadataManager.java; KIP-447 (stable offsets), KIP-709 (many groups).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import KafkaError, UnstableOffsetCommitError
from ...protocol.messages.groups import FetchedOffset, OffsetFetchResponse, OffsetsOfGroup
from ...protocol.model import TopicPartition
from ..runtime.ports import Outcome
from .offset_commits import NO_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.messages.groups import OffsetFetchGroup, OffsetFetchRequest
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import ShardContext, Token
    from .group import Group
    from .offset_store import OffsetStore, StoredOffset


class OffsetFetches:
    """Handles OffsetFetch for one group shard."""

    def __init__(self, groups: dict[str, Group], context: ShardContext, store: OffsetStore) -> None:
        self._groups = groups
        self._context = context
        self._store = store

    def fetch(self, body: OffsetFetchRequest, token: Token, now: Now) -> Outcome:
        del now
        outcome = Outcome()
        found = tuple(self._of_group(each, require_stable=body.require_stable) for each in body.groups)
        outcome.answer(token, OffsetFetchResponse(found))
        return outcome

    def _of_group(self, asked: OffsetFetchGroup, *, require_stable: bool) -> OffsetsOfGroup:
        """The offsets of one group; a group that does not exist has none, without an error."""
        group = self._groups.get(asked.group_id)
        try:
            if group is not None:
                group.check_offset_fetch(asked.member_id, asked.member_epoch)
        except KafkaError as error:
            return OffsetsOfGroup(error.code, asked.group_id, error_detail=str(error))
        committed, pending = self._store.of(asked.group_id), self._store.pending(asked.group_id)
        unstable = pending if require_stable else {}
        tps: Iterable[TopicPartition]
        if asked.topics is None:
            tps = dict.fromkeys([*committed, *unstable])
        else:
            tps = [TopicPartition(each.topic, number) for each in asked.topics for number in each.partitions]
        offsets = tuple(
            FetchedOffset(tp.topic, tp.partition, UnstableOffsetCommitError.code)
            if tp in unstable
            else self._shown(tp, committed.get(tp))
            for tp in tps
        )
        return OffsetsOfGroup(0, asked.group_id, offsets)

    def _shown(self, tp: TopicPartition, stored: StoredOffset | None) -> FetchedOffset:
        """None for an offset of a deleted topic with the same name."""
        topic = self._context.image.topics.get(tp.topic)
        if stored is None or (
            topic is not None and stored.value.topic_id not in (NO_TOPIC_ID, topic.topic_id)
        ):
            return FetchedOffset(tp.topic, tp.partition, 0)
        value = stored.value
        return FetchedOffset(tp.topic, tp.partition, 0, value.offset, value.leader_epoch, value.metadata)
