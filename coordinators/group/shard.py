"""The group coordinator's state machine: one partition of __consumer_offsets.

It dispatches requests and records: classic groups (classic_groups.py), consumer-protocol groups
(consumer_groups.py), streams groups (../streams/streams_groups.py), committed offsets (offset_commits.py,
offset_fetches.py, transactional_offsets.py, expiry.py) and admin requests (admin.py). All share `groups`,
which holds every group by its id, and the offsets (offset_store.py). Pure. Source: Kafka
GroupCoordinatorShard.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import UnsupportedVersionError
from ...protocol.messages import registry
from ...protocol.records.group_records import ConsumerGroupMetadataKey, GroupMetadataKey, OffsetCommitKey
from ...protocol.records.streams_group_records import StreamsGroupKey, StreamsGroupMetadataKey
from ..runtime.ports import Outcome, Record, ShardMetrics
from ..streams import streams_group
from ..streams.streams_groups import StreamsGroups
from .admin import GroupAdmin
from .classic_group import ClassicGroup
from .classic_groups import ClassicGroups
from .classic_states import ClassicState
from .consumer_group import ConsumerGroup, GroupState
from .consumer_groups import ConsumerGroups
from .expiry import Expiry
from .group import GroupType
from .group_counters import GroupCounters
from .group_state_counts import GroupStateCounts
from .offset_commits import NO_TOPIC_ID, OffsetCommits
from .offset_fetches import OffsetFetches
from .offset_store import OffsetStore
from .transactional_offsets import TransactionalOffsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.envelope import Api
    from ...protocol.metadata.image import MetadataDelta, MetadataImage
    from ...protocol.model import TopicPartition
    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import ProducerIdAndEpoch, ShardContext, Token
    from .group import Group

    Handler = Callable[[Any, Token, Now], Outcome]


class GroupShard:
    """All groups of one partition. Implements Shard."""

    noop_record = Record(OffsetCommitKey("", "", 0), None)  # no topic has an empty name

    def __init__(self, partition: int, context: ShardContext) -> None:
        self.partition = partition
        self.groups: dict[str, Group] = {}
        self.counters = GroupCounters()
        self._state_counts = GroupStateCounts(self.groups)
        self._is_loaded = False
        self.store = OffsetStore()
        self._context = context
        self._classic = ClassicGroups(self.groups, context, partition, self.counters, self._state_counts)
        self._consumer = ConsumerGroups(self.groups, context, self._classic)
        self._streams = StreamsGroups(self.groups, context)
        self._expiry = Expiry(self.groups, context, self.store, self.counters)
        commits = OffsetCommits(self.groups, context, self.store, self._classic, self.counters)
        self._transactional = TransactionalOffsets(partition, self.groups, context, self.store, commits)
        admin = GroupAdmin(self.groups, context, self.store, self.counters)
        self._handlers: dict[int, Handler] = {
            registry.JOIN_GROUP.key: self._by_protocol(self._classic.join, self._consumer.join),
            registry.SYNC_GROUP.key: self._by_protocol(self._classic.sync, self._consumer.sync),
            registry.HEARTBEAT.key: self._by_protocol(self._classic.heartbeat, self._consumer.heartbeat),
            registry.LEAVE_GROUP.key: self._by_protocol(self._classic.leave, self._consumer.leave),
            registry.CONSUMER_GROUP_HEARTBEAT.key: self._consumer.consumer_group_heartbeat,
            registry.CONSUMER_GROUP_DESCRIBE.key: self._consumer.consumer_group_describe,
            registry.STREAMS_GROUP_HEARTBEAT.key: self._streams.heartbeat,
            registry.STREAMS_GROUP_DESCRIBE.key: self._streams.describe,
            registry.OFFSET_COMMIT.key: commits.commit,
            registry.OFFSET_FETCH.key: OffsetFetches(self.groups, context, self.store).fetch,
            registry.OFFSET_DELETE.key: commits.delete,
            registry.TXN_OFFSET_COMMIT.key: self._transactional.commit,
            registry.LIST_GROUPS.key: admin.list_groups,
            registry.DESCRIBE_GROUPS.key: admin.describe,
            registry.DELETE_GROUPS.key: admin.delete,
        }

    def _by_protocol(self, classic: Handler, consumer: Handler) -> Handler:
        """Classic requests to a consumer-protocol group that has members go to its classic members."""

        def handle(body: Any, token: Token, now: Now) -> Outcome:
            group = self.groups.get(body.group_id)
            is_consumer = isinstance(group, ConsumerGroup) and not group.is_empty
            return (consumer if is_consumer else classic)(body, token, now)

        return handle

    def handle(self, api: Api, body: Any, token: Token, now: Now) -> Outcome:
        handler = self._handlers.get(api.key)
        if handler is None:
            raise UnsupportedVersionError(f"the group coordinator does not support {api.name}")
        return handler(body, token, now)

    def replay(self, record: Record, offset: int, producer: ProducerIdAndEpoch) -> None:
        """Apply a record. A commit to a group that does not exist creates a simple one."""
        key = record.key
        if isinstance(key, OffsetCommitKey):
            if record.value is not None and key.group not in self.groups:
                self.groups[key.group] = ClassicGroup(key.group)
                self._state_counts.changed(key.group)
            self.store.replay(record, offset, producer)
            return
        if isinstance(key, GroupMetadataKey):
            self._classic.replay(record)
        elif isinstance(key, StreamsGroupKey):
            self._streams.replay(record)
            if self._is_loaded and isinstance(key, StreamsGroupMetadataKey):
                self.counters.streams_rebalances += record.value is not None
        else:
            self._consumer.replay(record)
            if self._is_loaded and isinstance(key, ConsumerGroupMetadataKey):
                self.counters.consumer_rebalances += record.value is not None
        self._state_counts.changed(key.group)

    def replay_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool, offset: int) -> None:
        """Commit or drop the pending offsets of the producer's transaction."""
        del offset
        self._transactional.on_marker(producer.producer_id)
        self.store.end_transaction(producer.producer_id, is_commit=is_commit)

    def on_loaded(self, now: Now) -> Outcome:
        """Start sessions and the expiration timer."""
        self._is_loaded = True
        self._expiry.on_loaded(now)
        self._streams.on_loaded(now)
        return _both(self._classic.on_loaded(now), self._consumer.on_loaded(now))

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta | None, now: Now) -> Outcome:
        """Topics may have been deleted."""
        self._expiry.on_metadata(image, delta, now)
        return self._consumer.on_metadata(image, delta, now)

    def on_peer_gone(self, session: int, now: Now) -> Outcome:
        """Members of streams groups have less time to return. Others keep their sessions; responses to a
        closed connection are dropped."""
        self._streams.on_peer_gone(session, now)
        return Outcome()

    def metrics(self) -> ShardMetrics:
        """Kafka's GroupMetadataManager metrics and group-coordinator-metrics."""
        counts = self._state_counts.counts()
        classic = {state: counts.groups[GroupType.CLASSIC, state.value] for state in ClassicState}
        consumer = {state: counts.groups[GroupType.CONSUMER, state.value] for state in GroupState}
        streams = {state: counts.groups[GroupType.STREAMS, state.value] for state in streams_group.GroupState}
        gauges = {
            "NumOffsets": self.store.count,
            "NumGroups": sum(classic.values()),
            **{f"NumGroups{state.value}": count for state, count in classic.items()},
            "NumMembers": counts.members,
            "group-count/classic": sum(classic.values()),
            "group-count/consumer": sum(consumer.values()),
            "group-count/streams": sum(streams.values()),
            **{f"consumer-group-count/{state.value.lower()}": count for state, count in consumer.items()},
            **{f"streams-group-count/{_label(state)}": count for state, count in streams.items()},
        }
        return ShardMetrics(gauges, self.counters.by_name())

    def offset_groups(self) -> list[str]:
        """The ids of groups with committed offsets. A share group's offsets would come from its own state."""
        return self.store.groups()

    def committed_offsets(self, group_id: str) -> list[tuple[TopicPartition, int]]:
        """Committed offsets of a group in existing topics."""
        topics = self._context.image.topics
        found = []
        for tp, stored in self.store.of(group_id).items():
            topic = topics.get(tp.topic)
            if topic is not None and stored.value.topic_id in (NO_TOPIC_ID, topic.topic_id):
                found.append((tp, stored.value.offset))
        return found

    def close(self) -> list[Token]:
        """All waiting requests of the shard."""
        return [*self._classic.close(), *self._transactional.waiting()]


def _label(state: streams_group.GroupState) -> str:
    """Kafka's label of the state in metrics."""
    return "not_ready" if state is streams_group.GroupState.NOT_READY else state.value.lower()


def _both(first: Outcome, second: Outcome) -> Outcome:
    """The merged outcome of two parts for the same event; neither may need `on_failed`."""
    assert first.on_failed is None
    assert second.on_failed is None
    return Outcome(first.records + second.records, first.answers + second.answers)
