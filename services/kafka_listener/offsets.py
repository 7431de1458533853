"""Committed offsets of groups. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    GroupIdNotFoundError,
    IllegalGenerationError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages import groups as m
from ...protocol.messages import registry
from ...protocol.model import CONSUMER_OFFSETS
from .calls import Call, KafkaApi
from .coordinator_requests import SplitRequest, ask_many, ask_one
from .entities import id_of
from .plain import by_topic, message

if TYPE_CHECKING:
    from collections.abc import Sequence

# OffsetFetch: the first versions with an error of the group, with several groups, and with topic ids.
_GROUP_ERROR = 2
_SEVERAL_GROUPS = 8
_TOPIC_IDS = 10
# OffsetCommit: from this version on clients know GROUP_ID_NOT_FOUND.
_NO_SUCH_GROUP = 9


def committed(call: Call) -> tuple[tuple[m.CommittedOffset, ...], dict[str, bytes], list[dict[str, Any]]]:
    """The offsets of a request, the ids of its topics if it has ids, and the results of unknown ids."""
    found: list[m.CommittedOffset] = []
    ids: dict[str, bytes] = {}
    unknown: list[dict[str, Any]] = []
    for topic in call.body.topics:
        given: dict[str, Any] = {}
        if hasattr(topic, "topic_id"):
            topic_id = id_of(topic.topic_id)
            name = call.host.image.topic_names.get(topic_id)
            if name is None:
                unknown.append(_unknown_id(topic_id, [each.partition_index for each in topic.partitions]))
                continue
            ids[name] = given["topic_id"] = topic_id
        else:
            name = topic.name
        found += [
            m.CommittedOffset(
                name,
                partition.partition_index,
                partition.committed_offset,
                getattr(partition, "committed_leader_epoch", -1),
                partition.committed_metadata or "",
                **given,
            )
            for partition in topic.partitions
        ]
    return tuple(found), ids, unknown


def _unknown_id(topic_id: bytes, partitions: Sequence[int]) -> dict[str, Any]:
    code = UnknownTopicIdError.code
    return {
        "topic_id": topic_id,
        "partitions": [_no_offset(number, code) for number in partitions],
    }


def _no_offset(partition: int, code: int) -> dict[str, Any]:
    return {"partition_index": partition, "error_code": code, "committed_offset": -1, "metadata": ""}


def _commit(call: Call) -> None:
    offsets, ids, unknown = committed(call)
    request = message(m.OffsetCommitRequest, call.body, offsets=offsets)

    def done(response: m.OffsetCommitResponse) -> None:
        call.answer({"topics": _with_ids(by_topic(response.results), ids) + unknown})

    ask_one(call, CONSUMER_OFFSETS, request.group_id, registry.OFFSET_COMMIT, request, done)


def _with_ids(topics: list[dict[str, Any]], ids: dict[str, bytes]) -> list[dict[str, Any]]:
    return [topic | {"topic_id": ids.get(topic["name"], b"")} for topic in topics]


def commit_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    """The same error for every partition."""
    return {
        "topics": [
            {
                "name": getattr(topic, "name", ""),
                "topic_id": id_of(getattr(topic, "topic_id", None)),
                "partitions": [_no_offset(each.partition_index, code) for each in topic.partitions],
            }
            for topic in call.body.topics
        ]
    }


def _commit_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    if code == GroupIdNotFoundError.code and call.version < _NO_SUCH_GROUP:
        code = IllegalGenerationError.code
    return commit_failed(call, code, text)


def _fetch_offsets(call: Call) -> None:
    body = call.body
    asked = _without_repeats(body.groups) if call.version >= _SEVERAL_GROUPS else (body,)
    items = [_GroupOffsets(call, group) for group in asked]
    is_stable = getattr(body, "require_stable", False)
    many = SplitRequest(
        CONSUMER_OFFSETS,
        registry.OFFSET_FETCH,
        lambda some: m.OffsetFetchRequest(tuple(each.asked for each in some), is_stable),
        lambda response: response.groups,
        lambda item, code, text: m.OffsetsOfGroup(code, item.asked.group_id, (), text),
    )

    def done(answers: list[m.OffsetsOfGroup]) -> None:
        result = [item.result(answer) for item, answer in zip(items, answers, strict=True)]
        call.answer({"groups": result} if call.version >= _SEVERAL_GROUPS else result[0])

    ask_many(call, many, [(item.asked.group_id, item) for item in items], done)


def _without_repeats(groups: Sequence[Any]) -> list[Any]:
    """Bound: the offsets of a group are returned once, however often a request names it."""
    whole = {group.group_id: group for group in groups if group.topics is None}
    return [group for group in groups if group.topics is not None or whole[group.group_id] is group]


class _GroupOffsets:
    """One group of an OffsetFetch, with topics by name or by id."""

    def __init__(self, call: Call, group: Any) -> None:
        self._image = call.host.image
        self._by_id = call.version >= _TOPIC_IDS
        self._has_error = call.version >= _GROUP_ERROR
        self._group = group
        self._unknown: list[dict[str, Any]] = []
        topics = None
        if group.topics is not None:
            topics = tuple(each for each in map(self._named, group.topics) if each is not None)
        self.asked: m.OffsetFetchGroup = message(m.OffsetFetchGroup, group, topics=topics)

    def _named(self, topic: Any) -> m.TopicNamePartitions | None:
        numbers = tuple(topic.partition_indexes)
        if not self._by_id:
            return m.TopicNamePartitions(topic.name, numbers)
        topic_id = id_of(topic.topic_id)
        name = self._image.topic_names.get(topic_id)
        if name is None:
            self._unknown.append(_unknown_id(topic_id, numbers))
            return None
        return m.TopicNamePartitions(name, numbers)

    def result(self, answer: m.OffsetsOfGroup) -> dict[str, Any]:
        """The group in the response."""
        topics = by_topic(answer.offsets, offset="committed_offset", leader_epoch="committed_leader_epoch")
        if answer.error_code:
            return self.failed(answer.error_code)
        if self._by_id:
            images = self._image.topics
            topics = [
                topic | {"topic_id": images[topic["name"]].topic_id}
                for topic in topics
                if topic["name"] in images
            ]
        return {
            "group_id": answer.group_id,
            "error_code": answer.error_code,
            "topics": topics + self._unknown,
        }

    def failed(self, code: int) -> dict[str, Any]:
        """The group with an error, in version 1 an error of each partition."""
        if self._has_error:
            return {"group_id": self._group.group_id, "error_code": code, "topics": ()}
        topics = [
            {
                "name": getattr(topic, "name", ""),
                "topic_id": id_of(getattr(topic, "topic_id", None)),
                "partitions": [_no_offset(number, code) for number in topic.partition_indexes],
            }
            for topic in self._group.topics or ()
        ]
        return {"group_id": self._group.group_id, "error_code": code, "topics": topics}


def _fetch_offsets_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    if call.version < _SEVERAL_GROUPS:
        return _GroupOffsets(call, call.body).failed(code)
    groups = [{"group_id": group.group_id, "error_code": code, "topics": ()} for group in call.body.groups]
    return {"groups": groups}


def _delete_offsets(call: Call) -> None:
    known = call.host.image.topics
    topics: list[m.TopicNamePartitions] = []
    unknown: list[m.PartitionResult] = []
    for topic in call.body.topics:
        numbers = [each.partition_index for each in topic.partitions]
        count = len(known[topic.name].partitions) if topic.name in known else 0
        there = tuple(number for number in numbers if 0 <= number < count)
        topics += [m.TopicNamePartitions(topic.name, there)] if there else []
        if call.hides_topic(topic.name):
            code = TopicAuthorizationFailedError.code
        else:
            code = UnknownTopicOrPartitionError.code
        unknown += [m.PartitionResult(topic.name, each, code) for each in numbers if each not in there]
    request = m.OffsetDeleteRequest(call.body.group_id, tuple(topics))

    def done(response: m.OffsetDeleteResponse) -> None:
        results = () if response.error_code else (*response.results, *unknown)
        call.answer({"error_code": response.error_code, "topics": by_topic(results)})

    ask_one(call, CONSUMER_OFFSETS, request.group_id, registry.OFFSET_DELETE, request, done)


def _delete_offsets_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "topics": ()}


OFFSET_APIS = (
    KafkaApi(8, "OffsetCommit", 2, 10, _commit, _commit_failed),
    KafkaApi(9, "OffsetFetch", 1, 10, _fetch_offsets, _fetch_offsets_failed),
    KafkaApi(47, "OffsetDelete", 0, 0, _delete_offsets, _delete_offsets_failed),
)
