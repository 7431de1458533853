"""The groups part of the admin client: members, offsets, lag, and changes of them."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from ...protocol.errors import (
    GroupIdNotFoundError,
    HeadraceError,
    InvalidRequestError,
    KafkaError,
    UnknownMemberIdError,
    UnsupportedVersionError,
    error_from_code,
)
from ...protocol.messages import groups
from ...protocol.messages import registry as apis
from ...protocol.messages.streams_groups import StreamsGroupDescribeRequest
from ...protocol.model import TopicPartition
from ...runtime.nearest import did_you_mean
from ..group.group_metadata import NO_GENERATION, OffsetAndMetadata
from .admin_types import Results
from .coordinator_requester_io import CoordinatorRequester
from .group_types import (
    GroupDescription,
    GroupListing,
    GroupMemberDescription,
    GroupState,
    GroupType,
    known_names,
)
from .requester_io import error_of, may_retry
from .streams_groups import as_group, streams_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .coordinator_requester_io import Coordinator
    from .requester_io import AdminRequester, Call
    from .streams_groups import StreamsGroupDescription

Outcomes = dict[TopicPartition, KafkaError | None]
MAX_OFFSETS = 1_000  # Bound: in a request, all of which become one batch


class GroupEngine:
    """Runs on the loop of the client. Timeouts are in seconds; None takes default.api.timeout.ms."""

    def __init__(self, requester: AdminRequester) -> None:
        self._requester = requester
        self._coordinator_requester = CoordinatorRequester(requester, groups.GROUP_KEY)

    # --- describing -------------------------------------------------------------------------------------

    async def find(
        self, states: Iterable[str], types: Iterable[str], *, timeout: float | None
    ) -> list[GroupListing]:
        """Groups by id. Errors: ConfigError for an unknown state or type."""
        request = groups.ListGroupsRequest(known_names(GroupState, states), known_names(GroupType, types))
        call = self._requester.call(timeout)
        answers = await self._coordinator_requester.everywhere(apis.LIST_GROUPS, request, call)
        found = {each.group_id: _listing(each) for answer in answers.values() for each in answer.groups}
        return [found[group_id] for group_id in sorted(found)]

    async def describe(
        self, group_ids: Sequence[str], *, timeout: float | None
    ) -> Results[str, GroupDescription]:
        """The description of each group, or the error."""
        return await self._described(group_ids, self._requester.call(timeout))

    async def _described(self, group_ids: Sequence[str], call: Call) -> Results[str, GroupDescription]:
        async def ask(at: Coordinator) -> GroupDescription | KafkaError:
            request = groups.ConsumerGroupDescribeRequest((at.key,))
            (found,) = (await at.ask(apis.CONSUMER_GROUP_DESCRIBE, request)).groups
            error = error_of(found)
            if not isinstance(error, (GroupIdNotFoundError, UnsupportedVersionError)):
                return error or _consumer_group(found, at.node_id)
            (classic,) = (await at.ask(apis.DESCRIBE_GROUPS, groups.DescribeGroupsRequest((at.key,)))).groups
            error = error_of(classic)
            if not isinstance(error, GroupIdNotFoundError):
                return error or _classic_group(classic, at.node_id)
            streams = await _ask_for_streams_group(at)
            if isinstance(streams, (GroupIdNotFoundError, UnsupportedVersionError)):
                return GroupIdNotFoundError(f"there is no group {at.key!r}, of any type")
            return streams if isinstance(streams, KafkaError) else as_group(streams)

        return await self._coordinator_requester.each(group_ids, ask, call)

    async def describe_streams(
        self, group_ids: Sequence[str], *, graphs: bool, timeout: float | None
    ) -> Results[str, StreamsGroupDescription]:
        """The description of each streams group, or the error; with `graphs` their processing graphs."""
        call = self._requester.call(timeout)
        ask = partial(_ask_for_streams_group, graphs=graphs)
        return await self._coordinator_requester.each(group_ids, ask, call)

    async def list_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None,
        *,
        require_stable: bool,
        timeout: float | None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of all partitions with one, or of some."""
        topics = None if partitions is None else _named(partitions)
        asked = groups.OffsetFetchGroup(group_id, topics)

        async def ask(at: Coordinator) -> dict[TopicPartition, OffsetAndMetadata | None] | KafkaError:
            return await _fetched(at, asked, require_stable=require_stable)

        return await self._coordinator_requester.one(group_id, ask, self._requester.call(timeout))

    async def committed(
        self, group_ids: Sequence[str], *, timeout: float | None
    ) -> Results[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """All committed offsets of each group, or the error."""

        async def ask(at: Coordinator) -> dict[TopicPartition, OffsetAndMetadata | None] | KafkaError:
            return await _fetched(at, groups.OffsetFetchGroup(at.key, None), require_stable=False)

        return await self._coordinator_requester.each(group_ids, ask, self._requester.call(timeout))

    # --- changing ---------------------------------------------------------------------------------------

    async def alter_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        create: bool,
        timeout: float | None,
    ) -> Results[TopicPartition, None]:
        """None for each partition, or the error. Errors: of the group, such as UnknownMemberIdError while it
        has members, or GroupIdNotFoundError unless `create`; ValueError for a negative offset."""
        call = self._requester.call(timeout)
        entries = [_entry(tp, offset) for tp, offset in offsets.items()]

        async def ask(at: Coordinator) -> Outcomes | KafkaError:
            found: Outcomes = {}
            for start in range(0, len(entries), MAX_OFFSETS):
                some = tuple(entries[start : start + MAX_OFFSETS])
                request = groups.OffsetCommitRequest(group_id, NO_GENERATION, "", some)
                answer = await at.ask(apis.OFFSET_COMMIT, request)
                found.update(_outcomes(answer.results))
            return _retriable(found) or found

        if not create:
            await self._check_exists(group_id, call)
        return Results(await self._coordinator_requester.one(group_id, ask, call))

    async def _check_exists(self, group_id: str, call: Call) -> None:
        """Errors: GroupIdNotFoundError, with the most similar group id."""
        error = (await self._described([group_id], call)).errors.get(group_id)
        if isinstance(error, GroupIdNotFoundError):
            try:
                answers = await self._coordinator_requester.everywhere(
                    apis.LIST_GROUPS, groups.ListGroupsRequest((), ()), call
                )
                known = [each.group_id for answer in answers.values() for each in answer.groups]
            except HeadraceError:
                known = []
            hint = did_you_mean(group_id, known)
            raise GroupIdNotFoundError(f"no group {group_id!r}{hint}") from error
        if error is not None:
            raise error

    async def delete_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None
    ) -> Results[TopicPartition, None]:
        """None for each partition, or the error. Errors: of the group."""
        request = groups.OffsetDeleteRequest(group_id, _named(partitions))

        async def ask(at: Coordinator) -> Outcomes | KafkaError:
            answer = await at.ask(apis.OFFSET_DELETE, request)
            found = _outcomes(answer.results)
            return error_of(answer) or _retriable(found) or found

        return Results(await self._coordinator_requester.one(group_id, ask, self._requester.call(timeout)))

    async def delete(self, group_ids: Sequence[str], *, timeout: float | None) -> Results[str, None]:
        """None for each group, or the error."""

        async def ask(at: Coordinator) -> KafkaError | None:
            (result,) = (await at.ask(apis.DELETE_GROUPS, groups.DeleteGroupsRequest((at.key,)))).results
            error = error_of(result)
            return None if at.may_have_run and isinstance(error, GroupIdNotFoundError) else error

        return await self._coordinator_requester.each(group_ids, ask, self._requester.call(timeout))

    async def remove_members(
        self, group_id: str, instance_ids: Iterable[str] | None, reason: str, *, timeout: float | None
    ) -> Results[str, None]:
        """None or the error for each instance id, or with None for each member id. Errors: of the group."""
        call = self._requester.call(timeout)
        if instance_ids is None:
            described = await self._described([group_id], call)
            leaving = [
                groups.LeavingMember(member.member_id, member.group_instance_id, reason)
                for member in described[group_id].members
            ]
        else:
            leaving = [groups.LeavingMember("", each, reason) for each in instance_ids]
        request = groups.LeaveGroupRequest(group_id, tuple(leaving))
        names = [each.member_id or str(each.group_instance_id) for each in leaving]

        async def ask(at: Coordinator) -> dict[str, KafkaError | None] | KafkaError:
            answer = await at.ask(apis.LEAVE_GROUP, request)
            if answer.error_code:
                return error_from_code(answer.error_code, answer.error_detail)
            found = {
                name: _error(each) if each.error_code else None
                for name, each in zip(names, answer.members, strict=True)
            }
            if at.may_have_run:  # a retry finds the member removed
                return {n: None if isinstance(e, UnknownMemberIdError) else e for n, e in found.items()}
            return found

        if not leaving:
            return Results({})
        return Results(await self._coordinator_requester.one(group_id, ask, call))


async def _ask_for_streams_group(
    at: Coordinator, *, graphs: bool = False
) -> StreamsGroupDescription | KafkaError:
    request = StreamsGroupDescribeRequest((at.key,), graphs)
    try:
        (found,) = (await at.ask(apis.STREAMS_GROUP_DESCRIBE, request)).groups
    except UnsupportedVersionError as error:
        return error
    return error_of(found) or streams_group(found, at.node_id)


async def _fetched(
    at: Coordinator, asked: groups.OffsetFetchGroup, *, require_stable: bool
) -> dict[TopicPartition, OffsetAndMetadata | None] | KafkaError:
    request = groups.OffsetFetchRequest((asked,), require_stable)
    (found,) = (await at.ask(apis.OFFSET_FETCH, request)).groups
    failed = [_error(each) for each in (found, *found.offsets) if each.error_code]
    if failed:
        return min(failed, key=lambda error: error.retriable)
    return {TopicPartition(each.topic, each.partition): _committed(each) for each in found.offsets}


def _listing(group: groups.ListedGroup) -> GroupListing:
    return GroupListing(
        group.group_id, GroupType(group.group_type), GroupState(group.group_state), group.protocol_type
    )


def _classic_group(group: groups.DescribedGroup, node_id: int) -> GroupDescription:
    def shown(member: groups.DescribedMember) -> GroupMemberDescription:
        assignment = _assigned(member.assignment) if group.protocol_type == PROTOCOL_TYPE else ()
        facts = (member.member_id, member.group_instance_id, member.client_id, member.client_host)
        return GroupMemberDescription(*facts, assignment, assignment)

    return GroupDescription(
        group.group_id,
        GroupType.CLASSIC,
        GroupState(group.group_state),
        group.protocol_type,
        group.protocol,
        node_id,
        tuple(shown(member) for member in group.members),
    )


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    """Members may send any bytes; assignments that cannot be decoded are shown as empty."""
    try:
        return tuple(sorted(decode_assignment(data).partitions))
    except InvalidRequestError:
        return ()


def _consumer_group(group: groups.DescribedConsumerGroup, node_id: int) -> GroupDescription:
    def shown(member: groups.ConsumerGroupMember) -> GroupMemberDescription:
        return GroupMemberDescription(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _flat(member.assignment),
            _flat(member.target_assignment),
            member.member_epoch,
            member.rack_id,
        )

    return GroupDescription(
        group.group_id,
        GroupType.CONSUMER,
        GroupState(group.group_state),
        PROTOCOL_TYPE,
        group.assignor_name,
        node_id,
        tuple(shown(member) for member in group.members),
        group.group_epoch,
        group.assignment_epoch,
    )


def _flat(topics: Iterable[groups.NamedPartitions]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, number) for each in topics for number in each.partitions)


def _named(partitions: Iterable[TopicPartition]) -> tuple[groups.TopicNamePartitions, ...]:
    return tuple(
        groups.TopicNamePartitions(topic, tuple(tp.partition for tp in mine))
        for topic, mine in groupby(sorted(set(partitions)), attrgetter("topic"))
    )


def _entry(tp: TopicPartition, offset: int | OffsetAndMetadata) -> groups.CommittedOffset:
    given = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
    if given.offset < 0:
        raise ValueError(f"an offset must not be negative: {given.offset}")
    return groups.CommittedOffset(tp.topic, tp.partition, given.offset, given.leader_epoch, given.metadata)


def _committed(found: groups.FetchedOffset) -> OffsetAndMetadata | None:
    if found.offset < 0:
        return None
    return OffsetAndMetadata(found.offset, found.metadata, found.leader_epoch)


def _error(answer: Any) -> KafkaError:
    return error_from_code(answer.error_code, getattr(answer, "error_detail", ""))


def _outcomes(results: Iterable[groups.PartitionResult]) -> Outcomes:
    return {
        TopicPartition(each.topic, each.partition): _error(each) if each.error_code else None
        for each in results
    }


def _retriable(outcomes: Outcomes) -> KafkaError | None:
    """The whole request is retried for one item; to repeat the others changes nothing."""
    return next((error for error in outcomes.values() if may_retry(error)), None)
