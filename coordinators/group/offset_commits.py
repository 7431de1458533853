"""OffsetCommit and OffsetDelete. Pure. Source: Kafka OffsetMetadataManager.java, KafkaApis.scala."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidCommitOffsetSizeError,
    MessageTooLargeError,
    OffsetMetadataTooLargeError,
    RecordBatchTooLargeError,
    StaleMemberEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages.groups import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    PartitionResult,
)
from ...protocol.model import NO_TIMESTAMP, TopicPartition
from ...protocol.records.group_records import OffsetCommitKey, OffsetCommitValue
from ..runtime.client_errors import client_error
from ..runtime.ports import Outcome, Record
from .classic_group import ClassicGroup
from .offset_store import offset_tombstone

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import KafkaError
    from ...protocol.messages.groups import CommittedOffset, OffsetCommitRequest, OffsetDeleteRequest
    from ...protocol.messages.transactions import TxnOffsetCommitRequest
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import ShardContext, Token
    from .classic_groups import ClassicGroups
    from .group import Group
    from .group_counters import GroupCounters
    from .offset_store import OffsetStore

NO_TOPIC_ID = bytes(16)


class OffsetCommits:
    """Offset commits outside of transactions, and deletion of offsets by admins."""

    def __init__(
        self,
        groups: dict[str, Group],
        context: ShardContext,
        store: OffsetStore,
        classic: ClassicGroups,
        counters: GroupCounters,
    ) -> None:
        self._groups = groups
        self._context = context
        self._store = store
        self._classic = classic
        self._counters = counters

    def commit(self, body: OffsetCommitRequest, token: Token, now: Now) -> Outcome:
        """OffsetCommit. A commit without membership to a missing group creates a simple group when the record
        is applied."""
        generation = body.generation_id_or_member_epoch
        group = self._groups.get(body.group_id)
        if group is None and generation >= 0:
            raise GroupIdNotFoundError(f"group {body.group_id!r} does not exist")
        if group is not None:
            self.check_member(group, body, generation, is_transactional=False)
        if isinstance(group, ClassicGroup):
            self._classic.on_commit(group, body.member_id, now)
        expire_ms = NO_TIMESTAMP if body.retention_time_ms < 0 else now.wall_ms + body.retention_time_ms
        outcome = Outcome()
        results = self.decide(body.group_id, body.offsets, now, outcome, expire_ms)
        outcome.answer(token, OffsetCommitResponse(results))
        outcome.on_failed = refused_commit(token)
        return outcome

    def check_member(
        self,
        group: Group,
        body: OffsetCommitRequest | TxnOffsetCommitRequest,
        generation: int,
        *,
        is_transactional: bool,
    ) -> None:
        """Whether the member may commit these offsets. Errors: as Group.check_offset_commit; an older member
        epoch is accepted from a member that has owned all these partitions since."""
        try:
            group.check_offset_commit(
                body.member_id, body.group_instance_id, generation, is_transactional=is_transactional
            )
        except StaleMemberEpochError:
            places = ((each.topic, self._topic_id(each)[0], each.partition) for each in body.offsets)
            if not group.has_had_since(body.member_id, generation, places):
                raise

    def decide(
        self,
        group_id: str,
        offsets: tuple[CommittedOffset, ...],
        now: Now,
        outcome: Outcome,
        expire_ms: int = NO_TIMESTAMP,
    ) -> tuple[PartitionResult, ...]:
        """Records for the valid offsets, and a result for each offset."""
        results = []
        for each in offsets:
            topic_id, error_code = self._topic_id(each)
            results.append(PartitionResult(each.topic, each.partition, error_code))
            if error_code:
                continue
            value = OffsetCommitValue(
                each.offset, each.leader_epoch, each.metadata, now.wall_ms, expire_ms, topic_id
            )
            outcome.records.append(Record(OffsetCommitKey(group_id, each.topic, each.partition), value))
        self._counters.offset_commits += len(outcome.records)
        return tuple(results)

    def _topic_id(self, given: CommittedOffset) -> tuple[bytes, int]:
        """The topic id to store with the offset, or the error code."""
        topic = self._context.image.topics.get(given.topic)
        if topic is None or not 0 <= given.partition < len(topic.partitions):
            return NO_TOPIC_ID, UnknownTopicOrPartitionError.code
        if given.topic_id not in (NO_TOPIC_ID, topic.topic_id):
            return NO_TOPIC_ID, UnknownTopicIdError.code
        if len(given.metadata.encode()) > self._context.config.now.offset_metadata_max_bytes:
            return NO_TOPIC_ID, OffsetMetadataTooLargeError.code
        return topic.topic_id, 0

    def delete(self, body: OffsetDeleteRequest, token: Token, now: Now) -> Outcome:
        """OffsetDelete; an offset that does not exist counts as deleted."""
        del now
        group = self._groups.get(body.group_id)
        if group is None:
            raise GroupIdNotFoundError(f"group {body.group_id!r} does not exist")
        group.check_offset_delete()
        known = {**self._store.of(body.group_id), **self._store.pending(body.group_id)}
        outcome, results = Outcome(is_divisible=True), []
        for each in body.topics:
            refusal = GroupSubscribedToTopicError.code if group.is_subscribed_to(each.topic) else 0
            for partition in each.partitions:
                results.append(PartitionResult(each.topic, partition, refusal))
                tp = TopicPartition(each.topic, partition)
                if not refusal and known.pop(tp, None) is not None:
                    outcome.records.append(offset_tombstone(body.group_id, tp))
        self._counters.offset_deletions += len(outcome.records)
        outcome.answer(token, OffsetDeleteResponse(0, tuple(results)))
        return outcome


def refused_commit(token: Token) -> Callable[[KafkaError, Now], Outcome]:
    """The error response if the append fails."""

    def failed(error: KafkaError, now: Now) -> Outcome:
        del now
        is_too_large = isinstance(error, (MessageTooLargeError, RecordBatchTooLargeError))
        outcome = Outcome()
        outcome.answer(
            token, InvalidCommitOffsetSizeError(str(error)) if is_too_large else client_error(error)
        )
        return outcome

    return failed
