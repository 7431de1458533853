"""Classic and consumer groups. Pure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    CoordinatorNotAvailableError,
)
from ...protocol.messages import groups as m
from ...protocol.messages import registry
from ...protocol.model import CONSUMER_OFFSETS
from .calls import Call, KafkaApi, error_alone
from .codes import substitutes
from .coordinator_requests import SplitRequest, ask_many, ask_one
from .entities import id_of, ms_of
from .operations_allowed import on_group
from .plain import each, fields, message
from .topics import endpoint_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.envelope import Api

# From these versions on clients know:
_BATCHED_KEYS = 4  # FindCoordinator
_MEMBER_IDS = 4  # JoinGroup: KIP-394
_NO_PROTOCOL_NAME = 7  # JoinGroup
_SKIPPED_ASSIGNMENT = 9  # JoinGroup: KIP-814
_SEVERAL_MEMBERS = 3  # LeaveGroup
_OWN_MEMBER_IDS = 1  # ConsumerGroupHeartbeat: KIP-1082
_REBALANCE_SLACK_MS = 10_000
_REBALANCE_MAX_MS = 1_800_000  # Bound: the wait at another node; the member joins again afterwards.


def client_host(call: Call) -> str:
    """The client's address as Kafka writes it."""
    return "/" + call.peer.address.rpartition(":")[0]


# --- FindCoordinator -----------------------------------------------------------------------------------


def _find_coordinator(call: Call) -> None:
    body = call.body
    keys = body.coordinator_keys if call.version >= _BATCHED_KEYS else (body.key,)
    request = m.FindCoordinatorRequest(getattr(body, "key_type", m.GROUP_KEY), tuple(keys))
    call.ask(registry.FIND_COORDINATOR, request, partial(_coordinators_found, call))


def _coordinators_found(call: Call, response: m.FindCoordinatorResponse) -> None:
    reply = [_coordinator(call, each) for each in response.coordinators]
    call.answer({"coordinators": reply} if call.version >= _BATCHED_KEYS else reply[0])


def _coordinator(call: Call, found: m.Coordinator) -> dict[str, Any]:
    code, text = found.error_code, found.error_detail
    if not code:
        where = endpoint_of(call.host.image.brokers[found.node_id], call.peer.listener)
        if where is not None:
            return {
                "error_code": 0,
                "key": found.key,
                "node_id": found.node_id,
                "host": where[0],
                "port": where[1],
                "error_message": None,
            }
        code, text = CoordinatorNotAvailableError.code, "the coordinator has no such listener"
    return _no_coordinator(found.key, code, text)


def _no_coordinator(key: str, code: int, text: str) -> dict[str, Any]:
    return {
        "error_code": code,
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_message": text or None,
    }


def _find_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    if call.version < _BATCHED_KEYS:
        return _no_coordinator(call.body.key, code, text)
    return {"coordinators": [_no_coordinator(key, code, text) for key in call.body.coordinator_keys]}


# --- the classic protocol ------------------------------------------------------------------------------


def _join(call: Call) -> None:
    body = call.body
    # the first version has the session timeout for both
    rebalance_ms = ms_of(getattr(body, "rebalance_timeout", body.session_timeout))
    request = message(
        m.JoinGroupRequest,
        body,
        rebalance_timeout_ms=rebalance_ms,
        protocols=tuple(m.GroupProtocol(each.name, each.metadata) for each in body.protocols),
        client_id=call.peer.client_id,
        client_host=client_host(call),
        requires_member_id=call.version >= _MEMBER_IDS,
    )
    timeout_ms = min(max(rebalance_ms, 0), _REBALANCE_MAX_MS) + _REBALANCE_SLACK_MS
    ask_one(
        call,
        CONSUMER_OFFSETS,
        body.group_id,
        registry.JOIN_GROUP,
        request,
        partial(_joined, call),
        timeout_ms,
    )


def _joined(call: Call, response: m.JoinGroupResponse) -> None:
    reply = fields(response)
    reply["members"] = each(response.members)
    reply["member_id"] = response.member_id or call.body.member_id
    if call.version < _NO_PROTOCOL_NAME:
        reply["protocol_name"] = response.protocol_name or ""
    if call.version < _SKIPPED_ASSIGNMENT and response.skip_assignment:
        # A client that cannot skip the assignment must not compute one as the leader.
        reply |= {"leader": "", "members": ()}
    call.answer(reply)


def _join_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    return {
        "error_code": code,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": "",
        "leader": "",
        "member_id": call.body.member_id,
        "members": (),
    }


def _sync(call: Call) -> None:
    assignments = tuple(m.MemberAssignment(each.member_id, each.assignment) for each in call.body.assignments)
    request = message(m.SyncGroupRequest, call.body, assignments=assignments)
    _ask_group(call, registry.SYNC_GROUP, request)


def _sync_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "protocol_type": None, "protocol_name": None, "assignment": b""}


def _heartbeat(call: Call) -> None:
    _ask_group(call, registry.HEARTBEAT, message(m.HeartbeatRequest, call.body))


def _leave(call: Call) -> None:
    body = call.body
    if call.version < _SEVERAL_MEMBERS:
        members: tuple[m.LeavingMember, ...] = (m.LeavingMember(body.member_id),)
    else:
        members = tuple(message(m.LeavingMember, each) for each in body.members)
    request = m.LeaveGroupRequest(body.group_id, members)
    ask_one(call, CONSUMER_OFFSETS, body.group_id, registry.LEAVE_GROUP, request, partial(_left, call))


def _left(call: Call, response: m.LeaveGroupResponse) -> None:
    code = response.error_code
    if call.version < _SEVERAL_MEMBERS and not code:
        code = response.members[0].error_code
    call.answer({"error_code": code, "members": each(response.members)})


def _leave_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "members": ()}


def _ask_group(call: Call, api: Api, request: Any) -> None:
    """Send the request to the coordinator of its group; the response has Kafka's fields."""
    ask_one(
        call, CONSUMER_OFFSETS, request.group_id, api, request, lambda answer: call.answer(fields(answer))
    )


# --- the new protocol ----------------------------------------------------------------------------------


def _consumer_heartbeat(call: Call) -> None:
    body = call.body
    member_id = body.member_id
    if not member_id and call.version < _OWN_MEMBER_IDS:
        member_id = call.plane.new_member_id()
    owned = None if body.topic_partitions is None else tuple(map(_of_id, body.topic_partitions))
    names = body.subscribed_topic_names
    request = message(
        m.ConsumerGroupHeartbeatRequest,
        body,
        member_id=member_id,
        subscribed_topic_names=None if names is None else tuple(names),
        owned=owned,
        client_id=call.peer.client_id,
        client_host=client_host(call),
    )
    api = registry.CONSUMER_GROUP_HEARTBEAT
    ask_one(call, CONSUMER_OFFSETS, body.group_id, api, request, partial(_consumer_heartbeat_answered, call))


def _of_id(topic: Any) -> m.TopicIdPartitions:
    return m.TopicIdPartitions(id_of(topic.topic_id), tuple(topic.partitions))


def _consumer_heartbeat_answered(call: Call, response: m.ConsumerGroupHeartbeatResponse) -> None:
    reply = fields(response, heartbeat_interval_ms="heartbeat_interval")
    if response.assignment is not None:
        reply["assignment"] = {"topic_partitions": each(response.assignment)}
    call.answer(reply)


def _consumer_heartbeat_failed(_call: Call, code: int, text: str) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": text or None,
        "member_id": None,
        "member_epoch": 0,
        "heartbeat_interval": 0,
        "assignment": None,
    }


# --- what admins ask -----------------------------------------------------------------------------------


def many_groups(
    api: Api,
    request: Callable[[tuple[str, ...]], Any],
    ids: str,
    answers: str,
    failed: Callable[[str, int, str], Any],
    tell: Callable[[Call, Any], dict[str, Any]],
    *,
    field: str = "groups",
) -> tuple[Callable[[Call], None], Callable[[Call, int, str], dict[str, Any]]]:
    """Handler and error response of an api that names groups. `ids` is the field of the request, `answers`
    the field of headrace's response, `field` that of Kafka's."""
    many = SplitRequest(
        CONSUMER_OFFSETS,
        api,
        lambda some: request(tuple(some)),
        lambda response: getattr(response, answers),
        failed,
    )

    def handle(call: Call) -> None:
        def done(found: list[Any]) -> None:
            call.answer({field: [tell(call, answer) for answer in found]})

        # Bound: the description of a group may have megabytes: a group that is named twice is described once.
        named = dict.fromkeys(getattr(call.body, ids))
        ask_many(call, many, [(group_id, group_id) for group_id in named], done)

    def whole_failed(call: Call, code: int, text: str) -> dict[str, Any]:
        return {field: [tell(call, failed(group_id, code, text)) for group_id in getattr(call.body, ids)]}

    return handle, whole_failed


def group_operations(call: Call, group: Any) -> dict[str, Any]:
    """The allowed operations, if the client asks for them."""
    code = substitutes(call.api.key, call.version).get(group.error_code, group.error_code)
    is_asked = getattr(call.body, "include_authorized_operations", False) and not code
    return {"authorized_operations": on_group(call, group.group_id, is_asked=is_asked)}


def _described_group(call: Call, group: m.DescribedGroup) -> dict[str, Any]:
    reply = fields(group, protocol="protocol_data")
    reply["members"] = each(group.members, metadata="member_metadata", assignment="member_assignment")
    return reply | group_operations(call, group)


def _described_consumer_group(call: Call, group: m.DescribedConsumerGroup) -> dict[str, Any]:
    reply = fields(group)
    reply["members"] = [
        fields(member)
        | {
            "assignment": {"topic_partitions": each(member.assignment, topic="topic_name")},
            "target_assignment": {"topic_partitions": each(member.target_assignment, topic="topic_name")},
            "subscribed_topic_regex": member.subscribed_topic_regex or "",
        }
        for member in group.members
    ]
    return reply | group_operations(call, group)


_describe = many_groups(
    registry.DESCRIBE_GROUPS,
    m.DescribeGroupsRequest,
    "groups",
    "groups",
    lambda group_id, code, text: m.DescribedGroup(code, group_id, error_detail=text),
    _described_group,
)
_describe_consumers = many_groups(
    registry.CONSUMER_GROUP_DESCRIBE,
    m.ConsumerGroupDescribeRequest,
    "group_ids",
    "groups",
    lambda group_id, code, text: m.DescribedConsumerGroup(code, group_id, error_detail=text),
    _described_consumer_group,
)
_delete = many_groups(
    registry.DELETE_GROUPS,
    m.DeleteGroupsRequest,
    "groups_names",
    "results",
    m.DeletedGroup,
    lambda _call, deleted: fields(deleted),
    field="results",
)


def _list(call: Call) -> None:
    """The groups of this node alone: clients ask all nodes."""
    states = tuple(getattr(call.body, "states_filter", ()))
    types = tuple(getattr(call.body, "types_filter", ()))

    def done(response: m.ListGroupsResponse) -> None:
        call.answer({"error_code": response.error_code, "groups": each(response.groups)})

    call.ask(registry.LIST_GROUPS, m.ListGroupsRequest(states, types), done)


def _list_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "groups": ()}


GROUP_APIS = (
    KafkaApi(10, "FindCoordinator", 0, 6, _find_coordinator, _find_failed),
    KafkaApi(11, "JoinGroup", 0, 9, _join, _join_failed),
    KafkaApi(12, "Heartbeat", 0, 4, _heartbeat, error_alone),
    KafkaApi(13, "LeaveGroup", 0, 5, _leave, _leave_failed),
    KafkaApi(14, "SyncGroup", 0, 5, _sync, _sync_failed),
    KafkaApi(15, "DescribeGroups", 0, 6, *_describe),
    KafkaApi(16, "ListGroups", 0, 5, _list, _list_failed),
    KafkaApi(42, "DeleteGroups", 0, 2, *_delete),
    KafkaApi(68, "ConsumerGroupHeartbeat", 0, 1, _consumer_heartbeat, _consumer_heartbeat_failed),
    KafkaApi(69, "ConsumerGroupDescribe", 0, 1, *_describe_consumers),
)
