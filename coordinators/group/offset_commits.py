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
from ..runtime.failures import as_seen
from ..runtime.ports import Outcome, Record
from .classic_group import ClassicGroup
from .consumer_group import ConsumerGroup
from .offset_store import offset_tombstone

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.errors import KafkaError
    from ...protocol.messages.groups import CommittedOffset, OffsetCommitRequest, OffsetDeleteRequest
    from ...protocol.messages.transactions import TxnOffsetCommitRequest
    from ..runtime.ports import Now, Surroundings, Token
    from .classic_groups import ClassicGroups
    from .facts import GroupFacts
    from .group import Group
    from .offset_store import OffsetStore

NO_TOPIC_ID = bytes(16)


class OffsetCommits:
    """Offsets that count at once, and their deletion by admins."""

    def __init__(
        self,
        groups: dict[str, Group],
        around: Surroundings,
        store: OffsetStore,
        classic: ClassicGroups,
        facts: GroupFacts,
    ) -> None:
        self._groups = groups
        self._around = around
        self._store = store
        self._classic = classic
        self._facts = facts

    def commit(self, body: OffsetCommitRequest, token: Token, now: Now) -> Outcome:
        """OffsetCommit. Who claims no membership may commit to a group that is not there: it comes to be as a
        simple one when the record is applied."""
        generation = body.generation_id_or_member_epoch
        group = self._groups.get(body.group_id)
        if group is None and generation >= 0:
            raise GroupIdNotFoundError(f"there is no group {body.group_id}")
        if group is not None:
            self.check_member(group, body, generation, is_transactional=False)
        if isinstance(group, ClassicGroup):
            self._classic.has_committed(group, body.member_id, now)
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
        """May the member commit these offsets? Errors: as Group.check_offset_commit; not the member epoch of
        a member of the new protocol that has had all these partitions since then."""
        try:
            group.check_offset_commit(
                body.member_id, body.group_instance_id, generation, is_transactional=is_transactional
            )
        except StaleMemberEpochError:
            places = ((self._topic_id(each)[0], each.partition) for each in body.offsets)
            if not isinstance(group, ConsumerGroup) or not group.has_had_since(
                body.member_id, generation, places
            ):
                raise

    def decide(
        self,
        group_id: str,
        offsets: tuple[CommittedOffset, ...],
        now: Now,
        outcome: Outcome,
        expire_ms: int = NO_TIMESTAMP,
    ) -> tuple[PartitionResult, ...]:
        """Records for the offsets that can be taken, and a result for each."""
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
        self._facts.offset_commits += len(outcome.records)
        return tuple(results)

    def _topic_id(self, given: CommittedOffset) -> tuple[bytes, int]:
        """The id that is remembered with the offset, or why it cannot be taken."""
        topic = self._around.image.topics.get(given.topic)
        if topic is None or not 0 <= given.partition < len(topic.partitions):
            return NO_TOPIC_ID, UnknownTopicOrPartitionError.code
        if given.topic_id not in (NO_TOPIC_ID, topic.topic_id):
            return NO_TOPIC_ID, UnknownTopicIdError.code
        if len(given.metadata.encode()) > self._around.config.now.offset_metadata_max_bytes:
            return NO_TOPIC_ID, OffsetMetadataTooLargeError.code
        return topic.topic_id, 0

    def delete(self, body: OffsetDeleteRequest, token: Token, now: Now) -> Outcome:
        """OffsetDelete; what is not there counts as deleted."""
        del now
        group = self._groups.get(body.group_id)
        if group is None:
            raise GroupIdNotFoundError(f"there is no group {body.group_id}")
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
        self._facts.offset_deletions += len(outcome.records)
        outcome.answer(token, OffsetDeleteResponse(0, tuple(results)))
        return outcome


def refused_commit(token: Token) -> Callable[[KafkaError, Now], Outcome]:
    """What the client gets if the offsets cannot be appended."""

    def failed(error: KafkaError, now: Now) -> Outcome:
        del now
        is_too_large = isinstance(error, (MessageTooLargeError, RecordBatchTooLargeError))
        outcome = Outcome()
        outcome.answer(token, InvalidCommitOffsetSizeError(str(error)) if is_too_large else as_seen(error))
        return outcome

    return failed
