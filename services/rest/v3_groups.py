"""Version 3: consumer groups, their members, assignments and lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...clients.admin.group_types import GroupState
from ...protocol.errors import GroupIdNotFoundError
from ...protocol.model import TopicPartition
from ..web.problems import Problem
from ..web.routes import Route
from .shapes import Assignment, Consumer, ConsumerGroup, Lag, LagSummary, Page
from .v3_clusters import CLUSTER, links_of, path_number

if TYPE_CHECKING:
    from ...clients.admin.group_types import GroupDescription, GroupMemberDescription
    from ..web.calls_io import Call
    from .links import Links

GROUPS = f"{CLUSTER}/consumer-groups"
GROUP = f"{GROUPS}/{{consumer_group_id}}"
_CONSUMER = f"{GROUP}/consumers/{{consumer_id}}"
_TAG = "v3 Consumer groups"
_STATES = {
    GroupState.PREPARING_REBALANCE: "PREPARING_REBALANCE",
    GroupState.COMPLETING_REBALANCE: "COMPLETING_REBALANCE",
    GroupState.NOT_READY: "NOT_READY",
}


async def _groups(call: Call) -> Page[ConsumerGroup]:
    links = await links_of(call)
    names = [each.group_id for each in await call.clients.admin.list_groups()]
    results = await call.clients.admin.describe_groups(*names) if names else {}
    failed = getattr(results, "errors", {})
    data = [
        _group(links, results[name]) for name in names if name not in failed
    ]  # others have ended meanwhile
    return links.page("KafkaConsumerGroupList", data, "consumer-groups")


async def _one_group(call: Call) -> ConsumerGroup:
    return _group(await links_of(call), await _described(call))


async def _delete_group(call: Call) -> None:
    """Delete a group without members, with its offsets: an addition of headrace."""
    await links_of(call)
    (await call.clients.admin.delete_groups(call.params["consumer_group_id"])).raise_for_errors()


async def _consumers(call: Call) -> Page[Consumer]:
    links, group = await links_of(call), await _described(call)
    data = [_consumer(links, group, member) for member in group.members]
    return links.page("KafkaConsumerList", data, "consumer-groups", group.group_id, "consumers")


async def _one_consumer(call: Call) -> Consumer:
    links, group = await links_of(call), await _described(call)
    return _consumer(links, group, _member(call, group))


async def _assignments(call: Call) -> Page[Assignment]:
    links, group = await links_of(call), await _described(call)
    member = _member(call, group)
    data = [_assignment(links, group, member, tp) for tp in member.assignment]
    path = ("consumer-groups", group.group_id, "consumers", member.member_id, "assignments")
    return links.page("KafkaConsumerAssignmentList", data, *path)


async def _one_assignment(call: Call) -> Assignment:
    links, group = await links_of(call), await _described(call)
    member, tp = _member(call, group), _partition(call)
    if tp not in member.assignment:
        raise Problem(404, f"{tp} is not assigned to {member.member_id!r}")
    return _assignment(links, group, member, tp)


async def _lags(call: Call) -> Page[Lag]:
    links = await links_of(call)
    group, lags = await _group_lags(call, links)
    return links.page("KafkaConsumerLagList", lags, "consumer-groups", group.group_id, "lags")


async def _one_lag(call: Call) -> Lag:
    links, tp = await links_of(call), _partition(call)
    _, lags = await _group_lags(call, links)
    for lag in lags:
        if (lag.topic_name, lag.partition_id) == tp:
            return lag
    raise Problem(404, f"the group has no committed offset of {tp}")


async def _lag_summary(call: Call) -> LagSummary:
    links = await links_of(call)
    group, lags = await _group_lags(call, links)
    if not lags:
        raise Problem(404, f"group {group.group_id!r} has no committed offsets")
    most = max(lags, key=lambda each: each.lag)
    path = ("consumer-groups", group.group_id)
    return LagSummary(
        metadata=links.metadata(*path, "lag-summary", name=f"consumer-group={group.group_id}/lag-summary"),
        cluster_id=links.cluster_id,
        consumer_group_id=group.group_id,
        max_lag_consumer_id=most.consumer_id,
        max_lag_instance_id=most.instance_id,
        max_lag_client_id=most.client_id,
        max_lag_topic_name=most.topic_name,
        max_lag_partition_id=most.partition_id,
        max_lag=most.lag,
        total_lag=sum(each.lag for each in lags),
        max_lag_consumer=links.related(*path, "consumers", most.consumer_id) if most.consumer_id else None,
        max_lag_partition=links.related("topics", most.topic_name, "partitions", most.partition_id),
    )


async def _described(call: Call) -> GroupDescription:
    name = call.params["consumer_group_id"]
    try:
        return (await call.clients.admin.describe_groups(name))[name]
    except GroupIdNotFoundError:
        raise _no_group(name) from None


def _member(call: Call, group: GroupDescription) -> GroupMemberDescription:
    wanted = call.params["consumer_id"]
    for each in group.members:
        if each.member_id == wanted:
            return each
    raise Problem(404, f"group {group.group_id!r} has no consumer {wanted!r}")


def _partition(call: Call) -> TopicPartition:
    return TopicPartition(call.params["topic_name"], path_number(call, "partition_id", "partition"))


async def _group_lags(call: Call, links: Links) -> tuple[GroupDescription, list[Lag]]:
    """The exact lag of each partition with a committed offset. Errors: those of the partitions' leaders."""
    name = call.params["consumer_group_id"]
    try:
        found = (await call.clients.admin.consumer_group_lag(name))[name]
    except GroupIdNotFoundError:
        raise _no_group(name) from None
    lags: list[Lag] = []
    for tp, each in sorted(found.partitions.items()):
        if each.committed is None:
            continue
        if each.error is not None:
            raise each.error
        if each.end is None or each.records is None:
            continue
        path = ("consumer-groups", name, "lags", tp.topic, "partitions", tp.partition)
        full = f"consumer-group={name}/lag={tp.topic}/partition={tp.partition}"
        member = each.member
        lags.append(
            Lag(
                metadata=links.metadata(*path, name=full),
                cluster_id=links.cluster_id,
                consumer_group_id=name,
                topic_name=tp.topic,
                partition_id=tp.partition,
                consumer_id=member.member_id if member else "",
                instance_id=member.group_instance_id if member else None,
                client_id=member.client_id if member else "",
                current_offset=each.committed,
                log_end_offset=each.end,
                lag=each.records,
                lag_seconds=each.seconds,
            )
        )
    return found.group, lags


def _no_group(name: str) -> Problem:
    return Problem(404, f"consumer group {name!r} cannot be found")


def _group(links: Links, group: GroupDescription) -> ConsumerGroup:
    path = ("consumer-groups", group.group_id)
    return ConsumerGroup(
        metadata=links.metadata(*path, name=f"consumer-group={group.group_id}"),
        cluster_id=links.cluster_id,
        consumer_group_id=group.group_id,
        is_simple=group.protocol_type == "",
        partition_assignor=group.assignor,
        state=_STATES.get(group.state, group.state.value.upper()),
        type=group.group_type.value.upper(),
        coordinator=links.related("brokers", group.coordinator) if group.coordinator >= 0 else None,
        consumers=links.related(*path, "consumers"),
        lag_summary=links.related(*path, "lag-summary"),
    )


def _consumer(links: Links, group: GroupDescription, member: GroupMemberDescription) -> Consumer:
    path = ("consumer-groups", group.group_id, "consumers", member.member_id)
    return Consumer(
        metadata=links.metadata(*path, name=f"consumer-group={group.group_id}/consumer={member.member_id}"),
        cluster_id=links.cluster_id,
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        assignments=links.related(*path, "assignments"),
    )


def _assignment(
    links: Links, group: GroupDescription, member: GroupMemberDescription, tp: TopicPartition
) -> Assignment:
    of_group = ("consumer-groups", group.group_id)
    place = (tp.topic, "partitions", tp.partition)
    name = f"consumer-group={group.group_id}/consumer={member.member_id}/assignment={tp.topic}"
    return Assignment(
        metadata=links.metadata(
            *of_group,
            "consumers",
            member.member_id,
            "assignments",
            *place,
            name=f"{name}/partition={tp.partition}",
        ),
        cluster_id=links.cluster_id,
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        topic_name=tp.topic,
        partition_id=tp.partition,
        partition=links.related("topics", *place),
        lag=links.related(*of_group, "lags", *place),
    )


_PLACE = "{topic_name}/partitions/{partition_id}"
ROUTES = (
    Route("GET", GROUPS, _groups, "List groups", _TAG, None, Page[ConsumerGroup]),
    Route("GET", GROUP, _one_group, "Get a group", _TAG, None, ConsumerGroup),
    Route(
        "DELETE", GROUP, _delete_group, "Delete a group", _TAG, status=204,
        doc="Not a part of Confluent's API.",
    ),
    Route("GET", f"{GROUP}/consumers", _consumers, "List members", _TAG, None, Page[Consumer]),
    Route("GET", _CONSUMER, _one_consumer, "Get a member", _TAG, None, Consumer),
    Route("GET", f"{_CONSUMER}/assignments", _assignments, "List assignments", _TAG, None, Page[Assignment]),
    Route(
        "GET", f"{_CONSUMER}/assignments/{_PLACE}", _one_assignment, "Get an assignment", _TAG, None,
        Assignment,
    ),
    Route("GET", f"{GROUP}/lags", _lags, "List the lag of partitions", _TAG, None, Page[Lag]),
    Route("GET", f"{GROUP}/lags/{_PLACE}", _one_lag, "Get the lag of a partition", _TAG, None, Lag),
    Route("GET", f"{GROUP}/lag-summary", _lag_summary, "Get the total lag", _TAG, None, LagSummary),
)  # fmt: skip
