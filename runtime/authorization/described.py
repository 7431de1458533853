"""Requests for metadata, offsets, groups and transactions, whose responses may have more resources than the
request names. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import KafkaError, TopicAuthorizationFailedError
from ...protocol.messages.data import MetadataResponse, TopicMetadata
from ...protocol.messages.groups import (
    FetchedOffset,
    OffsetFetchResponse,
    OffsetsOfGroup,
)
from ...protocol.model import INTERNAL_TOPICS
from ...protocol.security.acls import ResourceType
from .access import refusal
from .entries import each_need, shown_need
from .outcomes import Answered, Outcome, Reduced, allows_all, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...protocol.messages.data import MetadataRequest
    from ...protocol.messages.groups import (
        ConsumerGroupHeartbeatResponse,
        DescribedConsumerGroup,
        OffsetFetchGroup,
        OffsetFetchRequest,
        TopicNamePartitions,
    )
    from ...protocol.messages.security import DescribeDelegationTokenResponse
    from ...protocol.messages.streams_groups import DescribedStreamsGroup, StreamsGroupHeartbeatResponse
    from ...protocol.records.header import Buffer
    from ...protocol.records.streams_group_records import StreamsGroupTopologyValue
    from ...protocol.security.required_operations import Need
    from ...protocol.security.tokens import DelegationToken
    from .access import Access
    from .outcomes import Check, MakeCheck

Refuse = Callable[[str, KafkaError], Any]
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_NO_TOPIC_ID = b""
_NOT_DESCRIBED = "The group has described topic(s) that the client is not authorized to describe."


def only_shown(results: str, kind: ResourceType, name: Callable[[Any], str]) -> MakeCheck:
    """A list of all resources: those that the client may not describe are omitted."""

    def make(needs: tuple[Need, ...]) -> Check:
        need = shown_need(needs, kind)

        def show(access: Access, response: Any) -> Any:
            seen = tuple(each for each in getattr(response, results) if access.may(need, name(each)))
            return msgspec.structs.replace(response, **{results: seen})

        return shown(allows_all, show)

    return make


# --- metadata --------------------------------------------------------------------------------------------


def metadata(needs: tuple[Need, ...]) -> Check:
    """In a request for all topics, unauthorized topics are omitted; a named topic has an error. The error of
    a topic id does not have its name."""
    named, listed = each_need(needs, _TOPIC), shown_need(needs, _TOPIC)

    def check(access: Access, body: MetadataRequest, frames: Sequence[Buffer]) -> Outcome:
        if body.topics is None and not body.topic_ids:

            def show(response: MetadataResponse) -> MetadataResponse:
                seen = tuple(topic for topic in response.topics if access.may(listed, topic.name))
                return msgspec.structs.replace(response, topics=seen)

            return Reduced(body, frames, show)
        names = [name for name in dict.fromkeys(body.topics or ()) if not access.may(named, name)]
        ids = [each for each in dict.fromkeys(body.topic_ids) if not access.may_by_id(named, each)]
        if not names and not ids:
            return None
        rest = type(body)(
            tuple(name for name in body.topics or () if name not in names),
            tuple(each for each in body.topic_ids if each not in ids),
        )
        code = refusal(_TOPIC).code
        hidden = [TopicMetadata(code, name, _NO_TOPIC_ID, name in INTERNAL_TOPICS, ()) for name in names] + [
            TopicMetadata(code, "", topic_id, False, ()) for topic_id in ids
        ]

        def merge(response: MetadataResponse) -> MetadataResponse:
            return msgspec.structs.replace(response, topics=(*response.topics, *hidden))

        return Reduced(rest, frames, merge)

    return check


# --- committed offsets -----------------------------------------------------------------------------------


def offset_fetch(needs: tuple[Need, ...]) -> Check:
    """Each group, and each named topic of a group, has its own error."""
    of_group, named, listed = each_need(needs, _GROUP), each_need(needs, _TOPIC), shown_need(needs, _TOPIC)

    def check(access: Access, body: OffsetFetchRequest, frames: Sequence[Buffer]) -> Outcome:
        parts = [_GroupPart(access, group, of_group, named, listed) for group in body.groups]
        if all(part.is_whole for part in parts):
            return None

        def merge(response: OffsetFetchResponse) -> OffsetFetchResponse:
            left = iter(response.groups)
            return OffsetFetchResponse(
                tuple(part.merge(None if part.asked is None else next(left)) for part in parts)
            )

        asked = tuple(part.asked for part in parts if part.asked is not None)
        if not asked:
            return Answered(merge(OffsetFetchResponse(())))
        return Reduced(msgspec.structs.replace(body, groups=asked), frames, merge)

    return check


class _GroupPart:
    """The authorized part of the request for one group, None for nothing, and its result."""

    def __init__(
        self,
        access: Access,
        group: OffsetFetchGroup,
        of_group: Need | None,
        named: Need | None,
        listed: Need | None,
    ) -> None:
        self._access, self._group, self._listed = access, group, listed
        self.asked: OffsetFetchGroup | None = None
        self._refused: list[TopicNamePartitions] = []
        self._may = access.may(of_group, group.group_id)
        if not self._may:
            return
        topics = group.topics
        if topics is not None:
            self._refused = [topic for topic in topics if not access.may(named, topic.topic)]
            topics = tuple(topic for topic in topics if topic not in self._refused)
        self.asked = msgspec.structs.replace(group, topics=topics)

    @property
    def is_whole(self) -> bool:
        """Whether the request for the group, and its result, are unchanged."""
        return self._may and self._group.topics is not None and not self._refused

    def merge(self, result: OffsetsOfGroup | None) -> OffsetsOfGroup:
        """The result of the group, given that of the part."""
        if result is None:
            error = refusal(_GROUP)
            return OffsetsOfGroup(error.code, self._group.group_id, (), error.detail)
        if result.error_code:
            return result
        offsets = result.offsets
        if self._group.topics is None:
            offsets = tuple(each for each in offsets if self._access.may(self._listed, each.topic))
        code = refusal(_TOPIC).code
        refused = (
            FetchedOffset(topic.topic, number, code) for topic in self._refused for number in topic.partitions
        )
        return msgspec.structs.replace(result, offsets=(*offsets, *refused))


# --- groups ----------------------------------------------------------------------------------------------


def without_secret_topics(
    check_groups: Callable[[Refuse], MakeCheck],
    refuse: Refuse,
    topics_of: Callable[[Any], Iterable[str]],
) -> MakeCheck:
    """Descriptions of groups: a group whose members read a topic that the client may not describe has only an
    error, as a group has in `check_groups` that the client may not describe. `refuse` creates it from the
    group id."""

    def make(needs: tuple[Need, ...]) -> Check:
        need = each_need(needs, _TOPIC)

        def show(access: Access, response: Any) -> Any:
            groups = tuple(
                group
                if all(access.may(need, topic) for topic in set(topics_of(group)))
                else refuse(group.group_id, TopicAuthorizationFailedError(_NOT_DESCRIBED))
                for group in response.groups
            )
            return msgspec.structs.replace(response, groups=groups)

        return shown(check_groups(refuse)(needs), show)

    return make


def consumers_topics(group: DescribedConsumerGroup) -> Iterable[str]:
    """The topics that a description of a consumer group names."""
    for member in group.members:
        yield from member.subscribed_topic_names
        for assigned in (member.assignment, member.target_assignment):
            yield from (each.topic for each in assigned)


def streams_topics(group: DescribedStreamsGroup) -> Iterable[str]:
    """The topics that a description of a streams group names."""
    found = None if group.topology is None else group.topology.subtopologies
    for each in found or ():
        yield from each.source_topics
        yield from each.repartition_sink_topics
        yield from (topic.name for topic in each.state_changelog_topics)
        yield from (topic.name for topic in each.repartition_source_topics)
    graph = None if group.topology_description is None else group.topology_description.subtopologies
    for part in graph or ():
        for node in part.nodes:
            yield from node.topics


def topology_topics(topology: StreamsGroupTopologyValue | None) -> Iterable[str]:
    """The topics of a topology, internal topics included."""
    for each in () if topology is None else topology.subtopologies:
        yield from each.source_topics
        yield from each.repartition_sink_topics
    yield from internal_topics(topology)


def internal_topics(topology: StreamsGroupTopologyValue | None) -> Iterable[str]:
    """The topics of a topology that the coordinator creates."""
    for each in () if topology is None else topology.subtopologies:
        yield from (topic.name for topic in each.state_changelog_topics)
        yield from (topic.name for topic in each.repartition_source_topics)


def consumer_heartbeat(needs: tuple[Need, ...]) -> Check:
    """The coordinator resolves an expression to topics that the client may describe. A response leaves out
    those that it may not describe any more, or that another member's heartbeat has resolved."""
    need = shown_need(needs, _TOPIC)

    def show(access: Access, response: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        if not response.assignment:
            return response
        seen = tuple(each for each in response.assignment if access.may_by_id(need, each.topic_id))
        return msgspec.structs.replace(response, assignment=seen)

    return shown(_names_client("reader"), show)


def _names_client(field: str) -> Check:
    """The coordinator gets the client's principal and host in this field of the request."""

    def name(access: Access, body: Any, frames: Sequence[Buffer]) -> Outcome:
        client = (str(access.identity.principal), access.identity.host)
        return Reduced(msgspec.structs.replace(body, **{field: client}), frames, lambda response: response)

    return name


def streams_heartbeat(needs: tuple[Need, ...]) -> Check:
    """The coordinator, which knows the missing internal topics and what expressions match, checks whether the
    client may create or describe them. A response names source topics of the members with endpoints: only
    those that the client may describe (it may have lost a right since)."""
    need = next((need for need in needs if need.right.resource_type is _TOPIC), None)

    def seen(access: Access, partitions: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(each for each in partitions if access.may(need, each.topic))

    def show(access: Access, response: StreamsGroupHeartbeatResponse) -> StreamsGroupHeartbeatResponse:
        if not response.partitions_by_user_endpoint:
            return response
        endpoints = tuple(
            msgspec.structs.replace(
                each,
                active_partitions=seen(access, each.active_partitions),
                standby_partitions=seen(access, each.standby_partitions),
            )
            for each in response.partitions_by_user_endpoint
        )
        return msgspec.structs.replace(response, partitions_by_user_endpoint=endpoints)

    return shown(_names_client("client"), show)


# --- transactions ----------------------------------------------------------------------------------------


def described_transactions(check_ids: MakeCheck) -> MakeCheck:
    """Unauthorized topics of a transaction are omitted."""

    def make(needs: tuple[Need, ...]) -> Check:
        need = shown_need(needs, _TOPIC)

        def show(access: Access, response: Any) -> Any:
            transactions = tuple(
                msgspec.structs.replace(
                    each, topics=tuple(topic for topic in each.topics if access.may(need, topic.topic))
                )
                for each in response.transactions
            )
            return msgspec.structs.replace(response, transactions=transactions)

        return shown(check_ids(needs), show)

    return make


# --- delegation tokens -----------------------------------------------------------------------------------


def tokens(needs: tuple[Need, ...]) -> Check:
    """Only the tokens that the client may renew, or that rules let it describe, by token or by owner. Source:
    Kafka DelegationTokenManager.scala (filterToken)."""
    need = shown_need(needs, ResourceType.DELEGATION_TOKEN)
    if need is None:
        return allows_all
    by_id = need._replace(alternative=None)
    by_owner = None if need.alternative is None else by_id._replace(right=need.alternative)

    def may(access: Access, token: DelegationToken) -> bool:
        return (
            token.is_of(str(access.identity.principal))
            or access.may(by_id, token.token_id)
            or (by_owner is not None and access.may(by_owner, token.owner))
        )

    def show(access: Access, response: DescribeDelegationTokenResponse) -> DescribeDelegationTokenResponse:
        seen = tuple(each for each in response.tokens if may(access, each.token))
        return msgspec.structs.replace(response, tokens=seen)

    return shown(allows_all, show)
