"""The admin client's engine: builds requests, asks any node, turns answers into values or errors.

Mutating calls are retried only after errors that say that they did not run, or may not have: one whose answer
was lost may have succeeded, and its retry then tells so (TopicAlreadyExistsError, for instance).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ApiTimeoutError, ConfigError, KafkaError, error_from_code
from ...protocol.messages import control
from ...protocol.messages import registry as apis
from ...protocol.messages.data import MetadataRequest, MetadataResponse
from ...runtime.config import text_of
from ..cluster.backoff import Backoff
from ..cluster.network import Address
from ..consumer.offsets_io import list_offsets
from ..records import OffsetAndTimestamp, PartitionInfo, timestamp_to_ms
from .admin_types import (
    AlterConfig,
    ClusterDescription,
    ConfigSource,
    ConfigValue,
    CreatedTopicInfo,
    NewTopic,
    NodeInfo,
    OffsetSpec,
    Resource,
    Results,
    TopicDescription,
    TopicListing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...protocol.messages.envelope import Api
    from ...protocol.model import TopicPartition
    from ..cluster.hub_io import Hub
    from ..config import AdminConfig
    from ..records import TimestampLike

K = TypeVar("K")
V = TypeVar("V")

_RESOURCE_TYPES = {"topic": 2, "broker": 4}
_OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}


class AdminEngine:
    """Runs on the loop of `hub`. Timeouts are in seconds; None takes default.api.timeout.ms."""

    def __init__(self, hub: Hub, config: AdminConfig) -> None:
        self._hub, self._config = hub, config
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, hub.random)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool, timeout: float | None
    ) -> Results[str, CreatedTopicInfo]:
        """Per topic what was created, or why not."""
        deadline_ms = self._deadline_ms(timeout)
        specs = tuple(_spec(topic) for topic in topics)

        async def ask(names: list[str]) -> dict[str, CreatedTopicInfo | KafkaError]:
            wanted = tuple(spec for spec in specs if spec.name in names)
            request = control.CreateTopicsRequest(wanted, self._left_ms(deadline_ms), validate_only)
            response = await self._ask(apis.CREATE_TOPICS, request, deadline_ms)
            return {
                answer.name: _error(answer)
                or CreatedTopicInfo(
                    answer.name, answer.topic_id, answer.num_partitions, answer.replication_factor
                )
                for answer in response.topics
            }

        return await self._retried([spec.name for spec in specs], ask, deadline_ms)

    async def delete_topics(self, names: Sequence[str], *, timeout: float | None) -> Results[str, None]:
        """Per topic None, or why not."""
        deadline_ms = self._deadline_ms(timeout)

        async def ask(wanted: list[str]) -> dict[str, KafkaError | None]:
            request = control.DeleteTopicsRequest(tuple(wanted), self._left_ms(deadline_ms))
            response = await self._ask(apis.DELETE_TOPICS, request, deadline_ms)
            return {item.name: _error(item) for item in response.results}

        return await self._retried(list(names), ask, deadline_ms)

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool, timeout: float | None
    ) -> Results[str, None]:
        """Per topic None, or why not."""
        deadline_ms = self._deadline_ms(timeout)

        async def ask(names: list[str]) -> dict[str, KafkaError | None]:
            growths = tuple(control.PartitionGrowth(name, counts[name]) for name in names)
            request = control.CreatePartitionsRequest(growths, self._left_ms(deadline_ms), validate_only)
            response = await self._ask(apis.CREATE_PARTITIONS, request, deadline_ms)
            return {item.name: _error(item) for item in response.results}

        return await self._retried(list(counts), ask, deadline_ms)

    async def list_topics(self, *, internal: bool, timeout: float | None) -> list[TopicListing]:
        """All topics by name."""
        response = await self._metadata(None, self._deadline_ms(timeout))
        found = [
            TopicListing(topic.name, topic.topic_id, len(topic.partitions), topic.is_internal)
            for topic in response.topics
            if not topic.error_code and (internal or not topic.is_internal)
        ]
        return sorted(found, key=lambda topic: topic.name)

    async def describe_topics(
        self, names: Sequence[str], *, timeout: float | None
    ) -> Results[str, TopicDescription]:
        """Per topic its partitions, or why not."""
        response = await self._metadata(tuple(names), self._deadline_ms(timeout))
        found = {topic.name: topic for topic in response.topics}
        outcomes: dict[str, TopicDescription | BaseException] = {}
        for name in names:
            topic = found.get(name)
            if topic is None or topic.error_code:
                code = 3 if topic is None else topic.error_code
                outcomes[name] = error_from_code(code, f"topic {name!r}: {_text_of_code(code)}")
                continue
            partitions = tuple(
                PartitionInfo(name, part.partition, part.leader, part.leader_epoch, part.replicas, part.isr)
                for part in sorted(topic.partitions, key=lambda part: part.partition)
            )
            outcomes[name] = TopicDescription(name, topic.topic_id, topic.is_internal, partitions)
        return Results(outcomes)

    async def describe_cluster(self, *, timeout: float | None) -> ClusterDescription:
        """The cluster as the node that answers sees it."""
        response = await self._metadata((), self._deadline_ms(timeout))
        nodes = sorted(response.nodes, key=lambda node: node.node_id)
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(NodeInfo(node.node_id, Address(node.host, node.port), node.rack) for node in nodes),
        )

    async def describe_configs(
        self, resources: Sequence[Resource], *, timeout: float | None
    ) -> Results[Resource, dict[str, ConfigValue]]:
        """Per resource its effective configs by name, or why not."""
        deadline_ms = self._deadline_ms(timeout)

        async def ask(wanted: list[Resource]) -> dict[Resource, dict[str, ConfigValue] | KafkaError]:
            request = control.DescribeConfigsRequest(tuple(_resource(item) for item in wanted))
            response = await self._ask(apis.DESCRIBE_CONFIGS, request, deadline_ms)
            return {
                item: _error(answer) or _config_values(answer)
                for item, answer in zip(wanted, response.results, strict=False)
            }

        return await self._retried(list(resources), ask, deadline_ms)

    async def alter_configs(
        self,
        changes: Mapping[Resource, Mapping[str, Any]],
        *,
        validate_only: bool,
        timeout: float | None,
    ) -> Results[Resource, None]:
        """Per resource None, or why nothing of it was changed."""
        deadline_ms = self._deadline_ms(timeout)

        async def ask(wanted: list[Resource]) -> dict[Resource, KafkaError | None]:
            alters = tuple(
                control.AlterConfigs(_resource(item), _config_changes(changes[item])) for item in wanted
            )
            request = control.IncrementalAlterConfigsRequest(alters, validate_only)
            response = await self._ask(apis.INCREMENTAL_ALTER_CONFIGS, request, deadline_ms)
            return {item: _error(answer) for item, answer in zip(wanted, response.results, strict=False)}

        return await self._retried(list(changes), ask, deadline_ms)

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | TimestampLike],
        *,
        timeout: float | None,
    ) -> Results[TopicPartition, OffsetAndTimestamp]:
        """Per partition the offset asked for (-1 when no record is that new), or why not."""
        timestamps = {
            tp: spec.timestamp if isinstance(spec, OffsetSpec) else timestamp_to_ms(spec)
            for tp, spec in wanted.items()
        }
        found = await list_offsets(
            self._hub,
            timestamps,
            deadline_ms=self._deadline_ms(timeout),
            request_timeout_ms=self._config.request_timeout_ms,
            backoff=self._backoff,
        )
        return Results(found)

    # --- inside -----------------------------------------------------------------------------------------

    async def _metadata(self, topics: tuple[str, ...] | None, deadline_ms: int) -> MetadataResponse:
        response: MetadataResponse = await self._ask(apis.METADATA, MetadataRequest(topics), deadline_ms)
        return response

    async def _ask(self, api: Api, request: Any, deadline_ms: int) -> Any:
        attempt_ms = self._config.request_timeout_ms
        reply = await self._hub.metadata.ask_any(api, request, deadline_ms=deadline_ms, attempt_ms=attempt_ms)
        return reply.body

    async def _retried(self, keys: list[K], ask: Any, deadline_ms: int) -> Results[K, V]:
        """Ask for all keys, then again for those with a retriable error (no controller, for instance)."""
        if len(set(keys)) != len(keys):
            raise ValueError(f"the same item twice: {keys!r}")
        outcomes: dict[K, Any] = {}
        left, failures = keys, 0
        while left:
            answers = await ask(left)
            missing = error_from_code(-1, "the answer does not speak of it")
            outcomes.update((key, answers.get(key, missing)) for key in left)
            left = [key for key in left if _may_retry(outcomes[key])]
            failures += 1
            wait_ms = self._backoff.wait_ms(failures)
            if left and self._hub.now_ms() + wait_ms >= deadline_ms:
                for key in left:
                    cause = outcomes[key]
                    outcomes[key] = ApiTimeoutError(f"{key}: not done in time: {cause}")
                    outcomes[key].__cause__ = cause
                break
            if left:
                await asyncio.sleep(wait_ms / 1000)
        return Results({key: outcomes[key] for key in keys})

    def _deadline_ms(self, timeout: float | None) -> int:
        timeout_ms = self._config.api_timeout_ms if timeout is None else int(timeout * 1000)
        return self._hub.now_ms() + timeout_ms

    def _left_ms(self, deadline_ms: int) -> int:
        return max(min(deadline_ms - self._hub.now_ms(), self._config.request_timeout_ms), 1)


def _may_retry(outcome: Any) -> bool:
    # An unknown topic is a fact for an admin call, though a producer waits for it.
    return isinstance(outcome, KafkaError) and outcome.retriable and outcome.code not in (3, 100)


def _error(answer: Any) -> KafkaError | None:
    return error_from_code(answer.error_code, answer.error_detail) if answer.error_code else None


def _text_of_code(code: int) -> str:
    return str(error_from_code(code))


def _spec(topic: NewTopic) -> control.NewTopicSpec:
    if not isinstance(topic, NewTopic):
        raise TypeError(
            f"create_topics takes NewTopic, such as NewTopic('logs', partitions=3), not {topic!r}"
        )
    return control.NewTopicSpec(
        topic.name,
        -1 if topic.partitions is None or topic.assignments else topic.partitions,
        -1 if topic.replication_factor is None or topic.assignments else topic.replication_factor,
        tuple(
            control.ReplicaAssignment(partition, tuple(replicas))
            for partition, replicas in sorted(topic.assignments.items())
        ),
        {name: text_of(value) for name, value in topic.configs.items()},
    )


def _resource(resource: Resource) -> control.ConfigResource:
    if resource.kind not in _RESOURCE_TYPES:
        raise ConfigError(f"a resource is a topic or a broker, not {resource.kind!r}")
    return control.ConfigResource(_RESOURCE_TYPES[resource.kind], resource.name)


def _config_values(answer: control.DescribedConfigs) -> dict[str, ConfigValue]:
    return {
        entry.name: ConfigValue(
            entry.name, entry.value, ConfigSource(entry.source), entry.is_default, entry.doc
        )
        for entry in answer.entries
    }


def _config_changes(changes: Mapping[str, Any]) -> tuple[control.ConfigChange, ...]:
    return tuple(_config_change(name, value) for name, value in changes.items())


def _config_change(name: str, value: Any) -> control.ConfigChange:
    if value is None:
        return control.ConfigChange(name, _OPERATIONS["delete"])
    if isinstance(value, AlterConfig):
        if value.operation not in _OPERATIONS:
            raise ConfigError(f"{name}: no such operation: {value.operation!r}")
        return control.ConfigChange(name, _OPERATIONS[value.operation], text_of(value.value))
    return control.ConfigChange(name, _OPERATIONS["set"], text_of(value))


def resources_of(items: Iterable[str | Resource]) -> list[Resource]:
    """Resources, plain text meaning topics."""
    return [Resource.topic(item) if isinstance(item, str) else item for item in items]
