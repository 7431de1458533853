"""A `FakeCluster` whose coordinators and leaders serve admin requests for groups and transactions.

`homes` maps groups and transactional ids to nodes; all others are on node 0. Tests set their states: no
member joins, and nothing moves by itself.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec
from fake_cluster import FakeCluster
from headrace.protocol import errors
from headrace.protocol.messages import groups, lag, streams_groups, transactions
from headrace.protocol.model import READ_COMMITTED, TopicPartition

NOT_FOUND = errors.GroupIdNotFoundError.code
EMPTY, STABLE = "Empty", "Stable"


@dataclass
class FakeMember:
    """A member of a classic group."""

    instance_id: str | None
    assignment: bytes


@dataclass
class FakeGroup:
    """A classic group: members by id, and committed offsets."""

    members: dict[str, FakeMember] = field(default_factory=dict)
    offsets: dict[tuple[str, int], groups.CommittedOffset] = field(default_factory=dict)
    state: str = EMPTY

    def join(self, member_id: str, instance_id: str | None, assignment: bytes) -> None:
        self.members[member_id] = FakeMember(instance_id, assignment)
        self.state = STABLE

    def leave(self, each: groups.LeavingMember) -> int:
        for member_id, member in list(self.members.items()):
            if member_id == each.member_id or (
                not each.member_id and member.instance_id == each.group_instance_id
            ):
                del self.members[member_id]
                self.state = STABLE if self.members else EMPTY
                return 0
        return errors.UnknownMemberIdError.code


class FakeAdminCluster(FakeCluster):
    """`consumer_groups` and `streams_groups` are of the new protocols, the classic ones are those of
    FakeCoordinator."""

    def __init__(self, nodes: int = 1, **options: Any) -> None:
        super().__init__(nodes, **options)
        self.homes: dict[str, int] = {}
        self.classic_groups: dict[str, FakeGroup] = {}
        self.consumer_groups: dict[str, groups.DescribedConsumerGroup] = {}
        self.streams_groups: dict[str, streams_groups.DescribedStreamsGroup] = {}
        self.unstable: set[tuple[str, int]] = set()
        self.stable_ends: dict[tuple[str, int], int] = {}
        self.counted_at_ms = 10_000  # the clock of leaders that count records
        self.known: dict[str, transactions.DescribedTransaction] = {}
        self.active: dict[TopicPartition, list[transactions.ActiveProducer]] = {}
        self.markers: list[transactions.TransactionMarker] = []

    def group(self, group_id: str) -> FakeGroup:
        return self.classic_groups.setdefault(group_id, FakeGroup())

    def commit(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        self.group(group_id).offsets[topic, partition] = groups.CommittedOffset(topic, partition, offset)

    def open_transaction(self, tp: TopicPartition, producer_id: int, start: int, last_ms: int = 0) -> None:
        """Open a transaction at a leader; `last_ms` is in the fake's wall time."""
        active = transactions.ActiveProducer(producer_id, 3, 7, last_ms, -1, start)
        self.active.setdefault(tp, []).append(active)

    def know(
        self, name: str, producer_id: int, *tps: TopicPartition, state: str = "Ongoing", prepared_ms: int = -1
    ) -> None:
        """Set the state of a transaction at its coordinator."""
        topics = tuple(groups.TopicNamePartitions(tp.topic, (tp.partition,)) for tp in tps)
        self.known[name] = transactions.DescribedTransaction(
            *(0, name, state, 60_000, 5_000, producer_id, 3, topics), prepared_ms=prepared_ms
        )

    # --- coordinators -----------------------------------------------------------------------------------

    async def ask_group(self, api_name: str, body: Any, node_id: int) -> Any:
        """The response by the states that tests set, where FakeCoordinator runs the real state machine."""
        if hasattr(body, "group_id") and self._is_elsewhere(body.group_id):
            raise errors.NotCoordinatorError(f"{body.group_id} is not here")
        return getattr(self, f"_do_{api_name}")(body)

    def _is_elsewhere(self, key: str) -> bool:
        return self.homes.get(key, 0) != self.asked[-1][1]

    def _do_FindCoordinator(self, body: Any) -> groups.FindCoordinatorResponse:
        found = [groups.Coordinator(0, key, self.homes.get(key, 0), "node", 9000) for key in body.keys]
        return groups.FindCoordinatorResponse(tuple(found))

    def _do_ListGroups(self, body: groups.ListGroupsRequest) -> groups.ListGroupsResponse:
        found = [
            groups.ListedGroup(name, "consumer", g.state, "classic")
            for name, g in self.classic_groups.items()
        ]
        for name, group in self.consumer_groups.items():
            found.append(groups.ListedGroup(name, "consumer", group.group_state, "consumer"))
        wanted = [
            each
            for each in found
            if not self._is_elsewhere(each.group_id)
            and (not body.states or each.group_state in body.states)
            and (not body.types or each.group_type in body.types)
        ]
        return groups.ListGroupsResponse(0, tuple(wanted))

    def _do_ConsumerGroupDescribe(self, body: Any) -> groups.ConsumerGroupDescribeResponse:
        def described(name: str) -> groups.DescribedConsumerGroup:
            if self._is_elsewhere(name):
                return groups.DescribedConsumerGroup(errors.NotCoordinatorError.code, name)
            return self.consumer_groups.get(name) or groups.DescribedConsumerGroup(NOT_FOUND, name)

        return groups.ConsumerGroupDescribeResponse(tuple(map(described, body.group_ids)))

    def _do_StreamsGroupDescribe(self, body: Any) -> streams_groups.StreamsGroupDescribeResponse:
        found = (
            self.streams_groups.get(name) or streams_groups.DescribedStreamsGroup(NOT_FOUND, name)
            for name in body.group_ids
        )
        return streams_groups.StreamsGroupDescribeResponse(tuple(found))

    def _do_DescribeGroups(self, body: Any) -> groups.DescribeGroupsResponse:
        def described(name: str) -> groups.DescribedGroup:
            group = self.classic_groups.get(name)
            if group is None:
                return groups.DescribedGroup(NOT_FOUND, name, "Dead", error_detail=f"no group {name}")
            members = tuple(
                groups.DescribedMember(
                    member_id, member.instance_id, "client", "host", b"", member.assignment
                )
                for member_id, member in group.members.items()
            )
            return groups.DescribedGroup(0, name, group.state, "consumer", "range", members)

        return groups.DescribeGroupsResponse(tuple(map(described, body.group_ids)))

    def _do_DeleteGroups(self, body: Any) -> groups.DeleteGroupsResponse:
        def deleted(name: str) -> groups.DeletedGroup:
            group = self.classic_groups.get(name)
            if group is None:
                return groups.DeletedGroup(name, NOT_FOUND)
            if group.state != EMPTY:
                return groups.DeletedGroup(name, errors.NonEmptyGroupError.code)
            del self.classic_groups[name]
            return groups.DeletedGroup(name, 0)

        return groups.DeleteGroupsResponse(tuple(map(deleted, body.group_ids)))

    def _do_OffsetCommit(self, body: Any) -> groups.OffsetCommitResponse:
        group = self.group(body.group_id)
        if group.members:
            raise errors.UnknownMemberIdError("it has members")
        results = []
        for each in body.offsets:
            is_known = each.topic in self.topics
            if is_known:
                group.offsets[each.topic, each.partition] = each
            code = 0 if is_known else errors.UnknownTopicOrPartitionError.code
            results.append(groups.PartitionResult(each.topic, each.partition, code))
        return groups.OffsetCommitResponse(tuple(results))

    def _do_OffsetFetch(self, body: Any) -> groups.OffsetFetchResponse:
        (asked,) = body.groups
        if self._is_elsewhere(asked.group_id):
            code = errors.NotCoordinatorError.code
            return groups.OffsetFetchResponse((groups.OffsetsOfGroup(code, asked.group_id),))
        held = self.group(asked.group_id).offsets if asked.group_id in self.classic_groups else {}
        topics = [(each.topic, number) for each in asked.topics or () for number in each.partitions]
        found = []
        for key in sorted(held) if asked.topics is None else topics:
            each = held.get(key)
            facts = () if each is None else (each.offset, each.leader_epoch, each.metadata)
            is_unstable = body.require_stable and key in self.unstable
            code = errors.UnstableOffsetCommitError.code if is_unstable else 0
            found.append(groups.FetchedOffset(*key, code, *(() if is_unstable else facts)))
        return groups.OffsetFetchResponse((groups.OffsetsOfGroup(0, asked.group_id, tuple(found)),))

    def _do_OffsetDelete(self, body: Any) -> groups.OffsetDeleteResponse:
        group = self.classic_groups.get(body.group_id)
        if group is None:
            return groups.OffsetDeleteResponse(NOT_FOUND)
        code = errors.GroupSubscribedToTopicError.code if group.state == STABLE else 0
        results = []
        for topic in body.topics:
            for number in topic.partitions:
                if not code:
                    group.offsets.pop((topic.topic, number), None)
                results.append(groups.PartitionResult(topic.topic, number, code))
        return groups.OffsetDeleteResponse(0, tuple(results))

    def _do_LeaveGroup(self, body: Any) -> groups.LeaveGroupResponse:
        group = self.group(body.group_id)
        left = [
            groups.LeftMember(each.member_id, each.group_instance_id, group.leave(each))
            for each in body.members
        ]
        return groups.LeaveGroupResponse(0, tuple(left))

    # --- leaders ----------------------------------------------------------------------------------------

    def _do_CountRecords(self, body: Any) -> lag.CountRecordsResponse:
        """Each offset has a record. `stable_ends`: last stable offsets of partitions where they differ."""
        found = []
        for each in body.partitions:
            place = self._find(self.asked[-1][1], each)
            if isinstance(place, int):
                found.append(lag.CountRecordsPartitionResponse(place))
                continue
            part = place[1]
            end = part.end_offset
            if body.isolation == READ_COMMITTED:
                topic = place[0].name
                end = self.stable_ends.get((topic, each.partition), end)
            times = {record.offset: record.timestamp for record in part.records()}
            counts = tuple(
                lag.RecordCount(max(end - offset, 0), times.get(offset, -1)) for offset in each.offsets
            )
            found.append(lag.CountRecordsPartitionResponse(0, 0, end, counts))
        return lag.CountRecordsResponse(tuple(found), self.counted_at_ms)

    # --- transactions -----------------------------------------------------------------------------------

    def _do_ListTransactions(self, body: Any) -> transactions.ListTransactionsResponse:
        found = tuple(
            transactions.ListedTransaction(name, each.producer_id, each.state, each.prepared_ms)
            for name, each in self.known.items()
            if not self._is_elsewhere(name)
            and (not body.states or each.state in body.states)
            and (not body.producer_ids or each.producer_id in body.producer_ids)
        )
        return transactions.ListTransactionsResponse(0, (), found)

    def _do_DescribeTransactions(self, body: Any) -> transactions.DescribeTransactionsResponse:
        code = errors.TransactionalIdNotFoundError.code
        return transactions.DescribeTransactionsResponse(
            tuple(
                self.known.get(name) or transactions.DescribedTransaction(code, name)
                for name in body.transactional_ids
            )
        )

    def _do_InitProducerId(self, body: Any, node_id: int) -> transactions.InitProducerIdResponse:
        known = self.known[body.transactional_id]
        raised = msgspec.structs.replace(known, producer_epoch=known.producer_epoch + 1, state="Empty")
        self.known[body.transactional_id] = raised
        return transactions.InitProducerIdResponse(0, raised.producer_id, raised.producer_epoch)

    def _do_EndTxn(self, body: Any, node_id: int) -> transactions.EndTxnResponse:
        known = self.known[body.transactional_id]
        assert node_id == self.homes.get(body.transactional_id, 0)
        assert (body.producer_id, body.producer_epoch) == (known.producer_id, known.producer_epoch)
        state = "PrepareCommit" if body.committed else "PrepareAbort"
        epoch = known.producer_epoch + 1
        self.known[body.transactional_id] = msgspec.structs.replace(
            known, state=state, producer_epoch=epoch, prepared_ms=-1
        )
        return transactions.EndTxnResponse(0, known.producer_id, epoch)

    def _do_DescribeProducers(self, body: Any) -> transactions.DescribeProducersResponse:
        found = []
        for topic in body.topics:
            for number in topic.partitions:
                active = tuple(self.active.get(TopicPartition(topic.topic, number), ()))
                leader = self.topics[topic.topic].partitions[number].leader
                code = 0 if leader == self.asked[-1][1] else errors.NotLeaderOrFollowerError.code
                found.append(transactions.PartitionProducers(topic.topic, number, code, active))
        return transactions.DescribeProducersResponse(tuple(found))

    def _do_WriteTxnMarkers(self, body: Any) -> transactions.WriteTxnMarkersResponse:
        (marker,) = body.markers
        ((topic, (number,)),) = ((each.topic, each.partitions) for each in marker.topics)
        active = self.active.get(TopicPartition(topic, number), [])
        known = [each for each in active if each.producer_id == marker.producer_id]
        code = 0
        if not known or known[0].producer_epoch > marker.producer_epoch:
            code = errors.InvalidProducerEpochError.code
        else:
            self.markers.append(marker)
            active[:] = [each for each in active if each not in known]
        result = groups.PartitionResult(topic, number, code)
        return transactions.WriteTxnMarkersResponse(
            (transactions.WrittenMarker(marker.producer_id, (result,)),)
        )
