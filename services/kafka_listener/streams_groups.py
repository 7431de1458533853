"""Streams groups (KIP-1071). Pure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.messages import registry
from ...protocol.messages import streams_groups as m
from ...protocol.model import CONSUMER_OFFSETS
from ...protocol.records import streams_group_records as records
from .calls import Call, KafkaApi
from .coordinator_requests import ask_one
from .groups import client_host, group_operations, many_groups
from .plain import each, fields, message

if TYPE_CHECKING:
    from collections.abc import Iterable

# --- StreamsGroupHeartbeat ------------------------------------------------------------------------------


def _heartbeat(call: Call) -> None:
    body = call.body
    tags = body.client_tags
    request = message(
        m.StreamsGroupHeartbeatRequest,
        body,
        topology=None if body.topology is None else _topology(body.topology),
        active=_tasks(body.active_tasks),
        standby=_tasks(body.standby_tasks),
        warmup=_tasks(body.warmup_tasks),
        user_endpoint=None if body.user_endpoint is None else _endpoint(body.user_endpoint),
        client_tags=None if tags is None else _key_values(tags),
        task_offsets=_offsets(body.task_offsets),
        task_end_offsets=_offsets(body.task_end_offsets),
        client_id=call.peer.client_id,
        client_host=client_host(call),
    )
    api = registry.STREAMS_GROUP_HEARTBEAT
    ask_one(call, CONSUMER_OFFSETS, body.group_id, api, request, partial(_heartbeat_answered, call))


def _topology(topology: Any) -> records.StreamsGroupTopologyValue:
    return records.StreamsGroupTopologyValue(
        topology.epoch,
        tuple(
            records.Subtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(each.source_topic_regex),
                _topics(each.state_changelog_topics),
                tuple(each.repartition_sink_topics),
                _topics(each.repartition_source_topics),
                tuple(
                    records.CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ),
            )
            for each in topology.subtopologies
        ),
    )


def _topics(topics: Iterable[Any]) -> tuple[records.TopicInfo, ...]:
    return tuple(
        records.TopicInfo(
            each.name, each.partitions, each.replication_factor, _key_values(each.topic_configs)
        )
        for each in topics
    )


def _key_values(pairs: Iterable[Any]) -> tuple[records.KeyValue, ...]:
    return tuple(records.KeyValue(pair.key, pair.value) for pair in pairs)


def _endpoint(endpoint: Any) -> records.Endpoint:
    return records.Endpoint(endpoint.host, endpoint.port)


def _tasks(tasks: Any) -> tuple[records.TaskIds, ...] | None:
    if tasks is None:
        return None
    return tuple(records.TaskIds(each.subtopology_id, tuple(each.partitions)) for each in tasks)


def _offsets(offsets: Any) -> tuple[m.TaskOffset, ...] | None:
    return None if offsets is None else tuple(message(m.TaskOffset, each) for each in offsets)


def _heartbeat_answered(call: Call, response: m.StreamsGroupHeartbeatResponse) -> None:
    reply = fields(
        response, heartbeat_interval_ms="heartbeat_interval", task_offset_interval_ms="task_offset_interval"
    )
    reply["status"] = each(response.status)
    for name in ("active", "standby", "warmup"):
        tasks = reply.pop(name)
        reply[f"{name}_tasks"] = None if tasks is None else _dicts(tasks)
    endpoints = response.partitions_by_user_endpoint
    if endpoints is not None:
        reply["partitions_by_user_endpoint"] = [
            {
                "user_endpoint": one.user_endpoint._asdict(),
                "active_partitions": each(one.active_partitions),
                "standby_partitions": each(one.standby_partitions),
            }
            for one in endpoints
        ]
    call.answer(reply)


def _dicts(values: Iterable[Any]) -> list[dict[str, Any]]:
    """Named tuples of the records; fields that Kafka's messages lack are ignored."""
    return [value._asdict() for value in values]


def _heartbeat_failed(_call: Call, code: int, text: str) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": text or None,
        "member_id": "",
        "member_epoch": 0,
        "heartbeat_interval": 0,
        "acceptable_recovery_lag": 0,
        "task_offset_interval": 0,
        "status": (),
        "active_tasks": None,
        "standby_tasks": None,
        "warmup_tasks": None,
        "endpoint_information_epoch": 0,
        "partitions_by_user_endpoint": None,
    }


# --- StreamsGroupDescribe -------------------------------------------------------------------------------


def _described(call: Call, group: m.DescribedStreamsGroup) -> dict[str, Any]:
    reply = fields(group)
    if group.topology is not None:
        found = group.topology.subtopologies
        reply["topology"] = {
            "epoch": group.topology.epoch,
            "subtopologies": None if found is None else [_subtopology(one) for one in found],
        }
    reply["members"] = [_member(member) for member in group.members]
    return reply | group_operations(call, group)


def _subtopology(subtopology: m.DescribedSubtopology) -> dict[str, Any]:
    return fields(subtopology) | {
        name: [
            {**topic._asdict(), "topic_configs": _dicts(topic.topic_configs)}
            for topic in getattr(subtopology, name)
        ]
        for name in ("state_changelog_topics", "repartition_source_topics")
    }


def _member(member: m.StreamsGroupMember) -> dict[str, Any]:
    endpoint = member.user_endpoint
    return fields(member) | {
        "user_endpoint": None if endpoint is None else endpoint._asdict(),
        "client_tags": _dicts(member.client_tags),
        "task_offsets": (),
        "task_end_offsets": (),
        "assignment": _assignment(member.assignment),
        "target_assignment": _assignment(member.target_assignment),
        "is_classic": False,
    }


def _assignment(assignment: m.TaskAssignment) -> dict[str, Any]:
    return {f"{name}_tasks": _dicts(tasks) for name, tasks in fields(assignment).items()}


_describe = many_groups(
    registry.STREAMS_GROUP_DESCRIBE,
    m.StreamsGroupDescribeRequest,
    "group_ids",
    "groups",
    lambda group_id, code, text: m.DescribedStreamsGroup(code, group_id, error_detail=text),
    _described,
)

STREAMS_GROUP_APIS = (
    KafkaApi(88, "StreamsGroupHeartbeat", 0, 0, _heartbeat, _heartbeat_failed),
    KafkaApi(89, "StreamsGroupDescribe", 0, 0, *_describe),
)
