"""Topics, records and configs. Pure.

The node forwards requests to the active controller.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import InvalidRequestError, TopicAuthorizationFailedError, UnknownTopicIdError
from ...protocol.messages import control as m
from ...protocol.messages import registry
from ...protocol.messages.data import DeleteRecordsPartition, DeleteRecordsRequest
from ...protocol.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    CLUSTER_DEFAULT,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ...storage_node.configs.config_answers import configs_of_new
from .calls import Call, KafkaApi
from .entities import id_of, ms_of
from .plain import each, fields, message
from .records import RequestedPartitions, failed_topics
from .topics import endpoint_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...protocol.messages.data import DeleteRecordsResponse

_CONFIGS_OF_NEW = 5  # CreateTopics: from this version on
_BY_ID = 6  # DeleteTopics: from this version on topics have names or ids

# The first versions that know THROTTLING_QUOTA_EXCEEDED.
_STRICT_CREATE, _STRICT_GROW, _STRICT_DELETE = 6, 3, 5
_SET, _DELETE = 0, 1  # operations on a config
_NODE_RESOURCES = (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE)
_CLUSTER_SOURCE = 3  # a dynamic cluster-wide default
# The config source of a resource itself, for resources that are not nodes.
_OWN_SOURCE = {TOPIC_RESOURCE: 1, CLIENT_METRICS_RESOURCE: 7, GROUP_RESOURCE: 8}


# --- topics --------------------------------------------------------------------------------------------


def _create_topics(call: Call) -> None:
    specs = tuple(
        m.NewTopicSpec(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            tuple(
                m.ReplicaAssignment(each.partition_index, tuple(each.broker_ids))
                for each in topic.assignments
            ),
            {config.name: config.value or "" for config in topic.configs},
        )
        for topic in call.body.topics
    )
    request = m.CreateTopicsRequest(
        specs, ms_of(call.body.timeout), call.body.validate_only, *_quota_fields(call, _STRICT_CREATE)
    )

    def done(response: m.CreateTopicsResponse) -> None:
        call.plane.throttle.note_controller(call, response.throttle_ms)
        _topics_created(call, request, response)

    call.ask(registry.CREATE_TOPICS, request, done)


def _quota_fields(call: Call, strict_since: int) -> tuple[str, str, bool]:
    """The client of a request, for quotas. Versions before `strict_since` do not know
    THROTTLING_QUOTA_EXCEEDED (KIP-599): they only get a throttle time."""
    return call.peer.identity.principal.name, call.peer.client_id, call.version < strict_since


def _topics_created(call: Call, asked: m.CreateTopicsRequest, response: m.CreateTopicsResponse) -> None:
    """Newer versions return the configs of the new topics; Kafka's own client fails without."""
    made = [topic.name for topic in response.topics if not topic.error_code]
    if not made or call.version < _CONFIGS_OF_NEW:
        _answer_created(call, response.topics, {})
        return

    def described(found: m.DescribeConfigsResponse) -> None:
        _answer_created(call, response.topics, {each.resource.name: each for each in found.results})

    if asked.validate_only:
        own = {spec.name: spec.configs for spec in asked.topics if spec.name in made}
        described(configs_of_new(call.host.image, call.host.config, call.host.node_id, own))
        return
    request = m.DescribeConfigsRequest(tuple(m.ConfigResource(TOPIC_RESOURCE, name) for name in made))
    call.ask(
        registry.DESCRIBE_CONFIGS,
        request,
        described,
        failed=lambda _error: _answer_created(call, response.topics, {}),
    )


def _answer_created(
    call: Call, topics: Sequence[m.CreatedTopic], configs: Mapping[str, m.DescribedConfigs]
) -> None:
    once = {topic.name: topic for topic in topics}.values()  # a name that is repeated is described once
    call.answer({"topics": [_created(topic, configs.get(topic.name)) for topic in once]})


def _created(topic: m.CreatedTopic, described: m.DescribedConfigs | None = None) -> dict[str, Any]:
    entries = () if described is None else described.entries
    return fields(topic) | {
        "topic_config_error_code": 0 if described is None else described.error_code,
        "configs": each(entries, source="config_source", is_read_only="read_only"),
    }


def _create_topics_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return {"topics": [_created(m.CreatedTopic(topic.name, code, text)) for topic in call.body.topics]}


def _delete_topics(call: Call) -> None:
    rows = _to_delete(call)
    names = tuple(row.name for row in rows if not row.code and row.name is not None)
    request = m.DeleteTopicsRequest(names, ms_of(call.body.timeout), *_quota_fields(call, _STRICT_DELETE))

    def done(response: m.DeleteTopicsResponse) -> None:
        call.plane.throttle.note_controller(call, response.throttle_ms)
        results = {result.name: result for result in response.results}
        call.answer({"responses": [_deleted(call, row, results) for row in rows]})

    call.ask(registry.DELETE_TOPICS, request, done)


class _Row(NamedTuple):
    """One topic of a request, and the error code if it does not exist."""

    name: str | None
    topic_id: bytes
    code: int
    is_by_id: bool = False


def _to_delete(call: Call) -> list[_Row]:
    """The topics of the request. Errors: InvalidRequestError."""
    if call.version < _BY_ID:
        return [_Row(name, b"", 0) for name in call.body.topic_names]
    topics = call.host.image.topics
    rows: list[_Row] = []
    for topic in call.body.topics:
        topic_id = id_of(topic.topic_id)
        if (topic.name is None) == (topic.topic_id is None):
            raise InvalidRequestError("a topic needs a name or an id, not both")
        name = topic.name or call.host.image.topic_names.get(topic_id)
        if name is not None and name in topics:
            topic_id = topics[name].topic_id
        code = 0 if name is not None else UnknownTopicIdError.code
        rows.append(_Row(name, topic_id, code, is_by_id=topic.topic_id is not None))
    return rows


def _deleted(call: Call, row: _Row, results: dict[str, m.ItemError]) -> dict[str, Any]:
    name, code = row.name, row.code
    reply: dict[str, Any] = {"name": name, "topic_id": row.topic_id, "error_code": code}
    reply["error_message"] = None
    if name is None or code:
        return reply
    reply |= fields(results[name])
    if reply["error_code"] == TopicAuthorizationFailedError.code:
        # The client learns no more of the topic than it named.
        if not row.is_by_id:
            reply["topic_id"] = bytes(16)
        elif not call.shows_topic(name):
            reply["name"] = None
    return reply


def _delete_topics_failed(call: Call, code: int, _text: str) -> dict[str, Any]:
    if call.version < _BY_ID:
        return {"responses": [{"name": name, "error_code": code} for name in call.body.topic_names]}
    return {
        "responses": [
            {"name": topic.name, "topic_id": id_of(topic.topic_id), "error_code": code}
            for topic in call.body.topics
        ]
    }


def _create_partitions(call: Call) -> None:
    body, image = call.body, call.host.image

    def growth(topic: Any) -> m.PartitionGrowth:
        known = image.topics.get(topic.name)
        first = 0 if known is None else len(known.partitions)
        replicas = [tuple(each.broker_ids) for each in topic.assignments or ()]
        assigned = tuple(m.ReplicaAssignment(first + i, each) for i, each in enumerate(replicas))
        return m.PartitionGrowth(topic.name, topic.count, assigned)

    growths = tuple(growth(topic) for topic in body.topics)
    request = m.CreatePartitionsRequest(
        growths, ms_of(body.timeout), body.validate_only, *_quota_fields(call, _STRICT_GROW)
    )

    def done(response: m.CreatePartitionsResponse) -> None:
        call.plane.throttle.note_controller(call, response.throttle_ms)
        call.answer({"results": each(response.results)})

    call.ask(registry.CREATE_PARTITIONS, request, done)


def _create_partitions_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return {"results": each(m.ItemError(topic.name, code, text) for topic in call.body.topics)}


def _delete_records(call: Call) -> None:
    asked = RequestedPartitions(call)

    def entry(topic_id: bytes, partition: Any) -> DeleteRecordsPartition:
        return DeleteRecordsPartition(topic_id, partition.partition_index, partition.offset)

    asked.add(call.body.topics, "partitions", entry)
    request = DeleteRecordsRequest(ms_of(call.body.timeout), tuple(asked.entries))

    def done(response: DeleteRecordsResponse) -> None:
        call.answer({"topics": asked.answers("partitions", response.partitions, _records_deleted)})

    call.ask(registry.DELETE_RECORDS, request, done)


def _records_deleted(partition: Any, result: Any, code: int) -> dict[str, Any]:
    return {
        "partition_index": partition.partition_index,
        "low_watermark": -1 if result is None else result.low_watermark,
        "error_code": code if result is None else result.error_code,
    }


def _not_deleted(partition: Any, code: int) -> dict[str, Any]:
    return _records_deleted(partition, None, code)


# --- configs -------------------------------------------------------------------------------------------


def _describe_configs(call: Call) -> None:
    body = call.body
    request = message(m.DescribeConfigsRequest, body, resources=_resources(body.resources))
    call.ask(registry.DESCRIBE_CONFIGS, request, partial(_configs, call))


def _resources(resources: Sequence[Any]) -> tuple[m.ConfigResource, ...]:
    return tuple(m.ConfigResource(each.resource_type, each.resource_name) for each in resources)


def _configs(call: Call, response: m.DescribeConfigsResponse) -> None:
    call.answer(
        {
            "results": [
                _described(asked, result)
                for asked, result in zip(call.body.resources, response.results, strict=True)
            ]
        }
    )


def _described(asked: Any, result: m.DescribedConfigs) -> dict[str, Any]:
    """Cluster-wide defaults are described as in Kafka: only the keys that are set, each with one synonym."""
    names = asked.configuration_keys
    no_doc = "" if asked.resource_type == BROKER_LOGGER_RESOURCE else None
    levels = (_CLUSTER_SOURCE,) if (asked.resource_type, asked.resource_name) == CLUSTER_DEFAULT else None
    return {
        "error_code": result.error_code,
        "error_message": result.error_detail or None,
        "resource_type": asked.resource_type,
        "resource_name": asked.resource_name,
        "configs": [
            fields(entry, source="config_source", is_read_only="read_only")
            | {
                "synonyms": each(one for one in entry.synonyms if levels is None or one.source in levels),
                "documentation": entry.doc or no_doc,
            }
            for entry in result.entries
            if (names is None or entry.name in names) and (levels is None or entry.source in levels)
        ],
    }


def _configs_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    failed = [
        m.DescribedConfigs(m.ConfigResource(each.resource_type, each.resource_name), code, text)
        for each in call.body.resources
    ]
    pairs = zip(call.body.resources, failed, strict=True)
    return {"results": [_described(asked, result) for asked, result in pairs]}


def _alter_configs(call: Call) -> None:
    alterations = tuple(
        m.AlterConfigs(
            m.ConfigResource(resource.resource_type, resource.resource_name),
            tuple(
                m.ConfigChange(config.name, config.config_operation, config.value or "")
                for config in resource.configs
            ),
        )
        for resource in call.body.resources
    )
    request = m.IncrementalAlterConfigsRequest(alterations, call.body.validate_only)

    def done(response: m.IncrementalAlterConfigsResponse) -> None:
        call.answer(_altered(call, response.results))

    call.ask(registry.INCREMENTAL_ALTER_CONFIGS, request, done)


def _replace_configs(call: Call) -> None:
    """AlterConfigs: keys that are not named are reset to their defaults. The client needs no right to
    describe them."""
    described = m.DescribeConfigsRequest(_resources(call.body.resources))
    call.ask(registry.DESCRIBE_CONFIGS, described, partial(_replace, call), as_node=True)


def _replace(call: Call, response: m.DescribeConfigsResponse) -> None:
    alterations = []
    for resource, known in zip(call.body.resources, response.results, strict=True):
        named = {config.name: config.value or "" for config in resource.configs}
        own = _OWN_SOURCE.get(resource.resource_type, 2 if resource.resource_name else _CLUSTER_SOURCE)
        gone = [each.name for each in known.entries if each.source == own and each.name not in named]
        changes = [m.ConfigChange(name, _SET, value) for name, value in named.items()]
        changes += [m.ConfigChange(name, _DELETE) for name in gone]
        alterations.append(m.AlterConfigs(known.resource, tuple(changes)))
    request = m.IncrementalAlterConfigsRequest(tuple(alterations), call.body.validate_only)

    def done(altered: m.IncrementalAlterConfigsResponse) -> None:
        call.answer(_altered(call, altered.results))

    call.ask(registry.INCREMENTAL_ALTER_CONFIGS, request, done)


def _altered(call: Call, results: Sequence[m.ItemError]) -> dict[str, Any]:
    pairs = zip(call.body.resources, results, strict=True)
    return {
        "responses": [
            fields(result)
            | {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
            for resource, result in pairs
        ]
    }


def _alter_configs_failed(call: Call, code: int, text: str) -> dict[str, Any]:
    return _altered(call, [m.ItemError("", code, text)] * len(call.body.resources))


def _list_resources(call: Call) -> None:
    """Version 0 is ListClientMetricsResources of KIP-714. Nodes and their loggers are listed if they have the
    client's listener."""
    types = tuple(call.body.resource_types) if call.version else (CLIENT_METRICS_RESOURCE,)
    brokers = call.host.image.brokers
    nodes = {str(node) for node in brokers if endpoint_of(brokers[node], call.peer.listener) is not None}

    def is_listed(resource: m.ConfigResource) -> bool:
        return resource.resource_type not in _NODE_RESOURCES or resource.name in nodes

    def done(response: m.ListConfigResourcesResponse) -> None:
        listed = each(filter(is_listed, response.resources), name="resource_name")
        call.answer({"error_code": response.error_code, "config_resources": listed})

    call.ask(registry.LIST_CONFIG_RESOURCES, m.ListConfigResourcesRequest(types), done)


def _list_resources_failed(_call: Call, code: int, _text: str) -> dict[str, Any]:
    return {"error_code": code, "config_resources": ()}


TOPIC_ADMIN_APIS = (
    KafkaApi(19, "CreateTopics", 2, 7, _create_topics, _create_topics_failed),
    KafkaApi(20, "DeleteTopics", 1, 6, _delete_topics, _delete_topics_failed),
    KafkaApi(
        21,
        "DeleteRecords",
        0,
        2,
        _delete_records,
        failed_topics(
            "topics",
            "topics",
            "partitions",
            "partitions",
            _not_deleted,
        ),
    ),
    KafkaApi(32, "DescribeConfigs", 1, 4, _describe_configs, _configs_failed),
    KafkaApi(33, "AlterConfigs", 0, 2, _replace_configs, _alter_configs_failed),
    KafkaApi(37, "CreatePartitions", 0, 3, _create_partitions, _create_partitions_failed),
    KafkaApi(44, "IncrementalAlterConfigs", 0, 1, _alter_configs, _alter_configs_failed),
    KafkaApi(74, "ListConfigResources", 0, 1, _list_resources, _list_resources_failed),
)
