"""The admin client's engine: sends requests to any node, and turns responses into values or errors.

Mutating calls are retried after retriable errors, and a request without a response goes to another node as
well (`MetadataService.request_any`). So a request may be executed twice, and the later execution fails
because of the earlier one, for instance with TOPIC_ALREADY_EXISTS: if the existing topic is as specified, the
call has succeeded. All other requests name the target state (a partition count, a value, an element of a
list): a second execution changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ...protocol.errors import (
    InvalidPartitionsError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    error_from_code,
)
from ...protocol.messages import control
from ...protocol.messages import registry as apis
from ...protocol.messages.data import MetadataRequest, MetadataResponse, PartitionMetadata, TopicMetadata
from ...runtime.config import text_of
from ..consumer.offsets_io import list_offsets
from ..records import OffsetAndTimestamp, timestamp_to_ms
from .admin_types import (
    CreatedTopicInfo,
    DeletedRecords,
    NewTopic,
    OffsetSpec,
    PartitionDescription,
    Results,
    TopicDescription,
    TopicListing,
)
from .configs_io import TYPES, ConfigEngine
from .deletion_io import delete_records
from .groups_io import GroupEngine
from .lag_io import LagEngine
from .log_dirs_io import LogDirsEngine
from .quorum_io import QuorumEngine
from .quotas_io import QuotaEngine
from .replicas_io import ReplicasEngine
from .replication_io import ReplicationEngine
from .requester_io import AdminRequester, error_of
from .roles_io import RolesEngine
from .security_io import SecurityEngine
from .transactions_io import TransactionEngine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...protocol.model import TopicPartition
    from ..cluster.hub_io import Hub
    from ..config import AdminConfig
    from ..records import TimestampLike
    from .requester_io import Call

K = TypeVar("K")
V = TypeVar("V")

MAX_LAG_MS = 5_000  # Bound: of the lag of a node's metadata, as between nodes


class AdminEngine:
    """Runs on the loop of `hub`. Timeouts are in seconds; None takes default.api.timeout.ms."""

    def __init__(self, hub: Hub, config: AdminConfig) -> None:
        self._hub, self._config = hub, config
        self._requester = AdminRequester(hub, config)
        self.replication = ReplicationEngine(self._requester)
        self.quorum = QuorumEngine(self._requester)
        self.configs = ConfigEngine(self._requester)
        self.quotas = QuotaEngine(self._requester)
        self.security = SecurityEngine(self._requester)
        self.roles = RolesEngine(self._requester)
        self.log_dirs = LogDirsEngine(self._requester)
        self.replicas = ReplicasEngine(self._requester)
        self.groups = GroupEngine(self._requester)
        self.lag = LagEngine(self._requester, self.groups)
        self.transactions = TransactionEngine(self._requester)

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool, timeout: float | None
    ) -> Results[str, CreatedTopicInfo]:
        """The created topic for each spec, or the error."""
        call = self._requester.call(timeout)
        wanted_specs = [_spec(topic) for topic in topics]
        specs = {spec.name: spec for spec in wanted_specs}

        async def ask(names: list[str]) -> dict[str, CreatedTopicInfo | KafkaError]:
            wanted = tuple(specs[name] for name in names)
            request = control.CreateTopicsRequest(wanted, self._requester.left_ms(call), validate_only)
            response = await self._requester.ask(apis.CREATE_TOPICS, request, call)
            found: dict[str, CreatedTopicInfo | KafkaError] = {}
            for answer in response.topics:
                error = error_of(answer)
                made = CreatedTopicInfo(
                    answer.name, answer.topic_id, answer.num_partitions, answer.replication_factor
                )
                if isinstance(error, TopicAlreadyExistsError) and call.may_have_run and not validate_only:
                    found[answer.name] = await self._made_before(specs[answer.name], call) or error
                else:
                    found[answer.name] = error or made
            return found

        return await self._requester.retried([spec.name for spec in wanted_specs], ask, call)

    async def delete_topics(self, names: Sequence[str], *, timeout: float | None) -> Results[str, None]:
        """None for each topic, or the error."""
        call = self._requester.call(timeout)

        async def ask(wanted: list[str]) -> dict[str, KafkaError | None]:
            request = control.DeleteTopicsRequest(tuple(wanted), self._requester.left_ms(call))
            response = await self._requester.ask(apis.DELETE_TOPICS, request, call)
            found = {item.name: error_of(item) for item in response.results}
            gone = [name for name, error in found.items() if isinstance(error, UnknownTopicOrPartitionError)]
            return {**found, **dict.fromkeys(gone)} if call.may_have_run else found

        return await self._requester.retried(list(names), ask, call)

    async def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool, timeout: float | None
    ) -> Results[str, None]:
        """None for each topic, or the error."""
        call = self._requester.call(timeout)

        async def ask(names: list[str]) -> dict[str, KafkaError | None]:
            growths = tuple(control.PartitionGrowth(name, counts[name]) for name in names)
            request = control.CreatePartitionsRequest(growths, self._requester.left_ms(call), validate_only)
            response = await self._requester.ask(apis.CREATE_PARTITIONS, request, call)
            found = {item.name: error_of(item) for item in response.results}
            for name, error in found.items():
                if isinstance(error, InvalidPartitionsError) and call.may_have_run and not validate_only:
                    topic = await self._described(name, call)
                    found[name] = error if topic is None or len(topic.partitions) != counts[name] else None
            return found

        return await self._requester.retried(list(counts), ask, call)

    async def list_topics(self, *, internal: bool, timeout: float | None) -> list[TopicListing]:
        """All topics by name."""
        response = await self._metadata(None, self._requester.call(timeout))
        found = [
            TopicListing(topic.name, topic.topic_id, len(topic.partitions), topic.is_internal)
            for topic in response.topics
            if not topic.error_code and (internal or not topic.is_internal)
        ]
        return sorted(found, key=lambda topic: topic.name)

    async def describe_topics(
        self, names: Sequence[str], *, timeout: float | None
    ) -> Results[str, TopicDescription]:
        """The description of each topic, or the error."""
        response = await self._metadata(tuple(names), self._requester.call(timeout))
        found = {topic.name: topic for topic in response.topics}
        outcomes: dict[str, TopicDescription | BaseException] = {}
        for name in names:
            topic = found.get(name)
            if topic is None or topic.error_code:
                code = 3 if topic is None else topic.error_code
                error = error_from_code(code, f"topic {name!r}: {_text_of_code(code)}")
                outcomes[name] = await self._requester.named(name, error)
                continue
            partitions = tuple(
                _partition(name, part) for part in sorted(topic.partitions, key=lambda part: part.partition)
            )
            outcomes[name] = TopicDescription(name, topic.topic_id, topic.is_internal, partitions)
        return Results(outcomes)

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | TimestampLike],
        *,
        timeout: float | None,
    ) -> Results[TopicPartition, OffsetAndTimestamp]:
        """The offset of each partition (-1 without such a record), or the error."""
        timestamps = {
            tp: spec.timestamp if isinstance(spec, OffsetSpec) else timestamp_to_ms(spec)
            for tp, spec in wanted.items()
        }
        found = await list_offsets(
            self._hub,
            timestamps,
            deadline_ms=self._requester.call(timeout).deadline_ms,
            request_timeout_ms=self._config.request_timeout_ms,
            backoff=self._requester.backoff,
        )
        return Results(found)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int | OffsetSpec], *, timeout: float | None
    ) -> Results[TopicPartition, DeletedRecords]:
        """The new low watermark of each partition, or the error."""
        return await delete_records(self._requester, offsets, timeout=timeout)

    # --- inside -----------------------------------------------------------------------------------------

    async def _made_before(self, spec: control.NewTopicSpec, call: Call) -> CreatedTopicInfo | None:
        """The existing topic, if it is as `spec` says; what `spec` leaves open matches anything."""
        topic = await self._described(spec.name, call)
        if topic is None:
            return None
        count, factor = len(topic.partitions), len(topic.partitions[0].replicas)
        if spec.num_partitions not in (-1, count) or spec.replication_factor not in (-1, factor):
            return None
        assigned = {part.partition: part.replicas for part in topic.partitions}
        wanted = {entry.partition: entry.replicas for entry in spec.assignments}
        if wanted and wanted != assigned:
            return None
        request = control.DescribeConfigsRequest((control.ConfigResource(TYPES["topic"], spec.name),))
        (described,) = (await self._requester.ask(apis.DESCRIBE_CONFIGS, request, call)).results
        values = {entry.name: entry.value for entry in described.entries}
        if any(values.get(name) != value for name, value in spec.configs.items()):
            return None
        return CreatedTopicInfo(spec.name, topic.topic_id, count, factor)

    async def _described(self, name: str, call: Call) -> TopicMetadata | None:
        """A topic of the controller, from the first node whose metadata has it; None without one."""
        failures = 0
        while True:
            (topic,) = (await self._metadata((name,), call)).topics
            failures += 1
            wait_ms = self._requester.backoff.wait_ms(failures)
            if not topic.error_code or self._hub.now_ms() + wait_ms >= call.deadline_ms:
                return None if topic.error_code else topic
            await asyncio.sleep(wait_ms / 1000)

    async def _metadata(self, topics: tuple[str, ...] | None, call: Call) -> MetadataResponse:
        """Metadata at least as new as any earlier response to this client, which includes its own changes;
        the metadata of a node may lag. After MAX_LAG_MS the response of a lagging node is returned."""
        give_up_ms = min(call.deadline_ms, self._hub.now_ms() + MAX_LAG_MS)
        metadata, failures = self._hub.metadata, 0
        while True:
            known_offset = metadata.newest_offset
            response: MetadataResponse = await self._requester.ask(
                apis.METADATA, MetadataRequest(topics), call
            )
            failures += 1
            wait_ms = self._requester.backoff.wait_ms(failures)
            if response.metadata_offset >= known_offset:
                return response
            if self._hub.now_ms() + wait_ms >= give_up_ms:
                metadata.newest_offset = response.metadata_offset  # another cluster, or a restored one
                return response
            await asyncio.sleep(wait_ms / 1000)


def _partition(topic: str, part: PartitionMetadata) -> PartitionDescription:
    return PartitionDescription(
        topic,
        part.partition,
        part.leader,
        part.leader_epoch,
        part.partition_epoch,
        part.replicas,
        part.isr,
        elr=part.elr,
        last_known_elr=part.last_known_elr,
        adding_replicas=part.adding_replicas,
        removing_replicas=part.removing_replicas,
        offline_replicas=part.offline_replicas,
    )


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
