"""Topics: creation, new partitions and deletion, with the rules for names, counts, assignments and limits.
Pure.

Each topic of a request succeeds or fails on its own; those that succeed become one decision. Source: Kafka
ReplicationControlManager.java.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...protocol.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages.control import (
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ItemError,
    NewTopicSpec,
    PartitionGrowth,
    ReplicaAssignment,
)
from ...protocol.metadata.image import TOPIC_RESOURCE, MetadataImage, TopicImage
from ...protocol.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ...protocol.model import MAX_TOPIC_NAME_LENGTH, topic_metric_name, topic_name_fault
from ...storage_node.log.names import METADATA_TOPIC
from .cluster_state import active_nodes
from .config_rules import ConfigSizes, Inheritance, checked_configs
from .decision import Decision
from .mutation_quotas import FREE, Charge
from .namespaces import NamespaceQuotas
from .placement import UsableNode, check_not_cordoned, place
from .reassignments import MAX_REPLICATION_FACTOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from ...runtime.random_source import RandomSource
    from ..config import ControllerConfig

DEFAULT = -1  # in a request: use the cluster's default

Replicas = tuple[int, ...]


@dataclass(slots=True)
class _Quota:
    """The partitions that this request, the cluster and namespaces may still create."""

    of_request: int
    of_cluster: int
    of_namespaces: NamespaceQuotas

    def check(self, name: str, count: int, topics: int = 0) -> None:
        """Errors: InvalidPartitionsError, or PolicyViolationError of a namespace, if `count` more partitions
        of a topic, or new `topics`, are too many."""
        if count > self.of_request:
            raise InvalidPartitionsError(f"{count} partitions; this request may make {self.of_request} more")
        if count > self.of_cluster:
            raise InvalidPartitionsError(f"{count} partitions; the cluster may have {self.of_cluster} more")
        self.of_namespaces.check(name, topics, count)

    def take(self, name: str, count: int, topics: int = 0) -> None:
        """Count what is created."""
        self.of_request -= count
        self.of_cluster -= count
        self.of_namespaces.take(name, topics, count)


@dataclass(slots=True)
class Topics:
    """Decides on topics. Its only state is the random source."""

    config: ControllerConfig
    randomness: RandomSource
    sizes: ConfigSizes
    cordoned: Set[int] = frozenset()  # nodes that get no new replicas

    def decide_create(
        self, image: MetadataImage, request: CreateTopicsRequest, charge: Charge = FREE
    ) -> Decision:
        """Create topics under new ids. Errors of the whole request: InvalidRequestError."""
        self._check_count(len(request.topics))
        repeated = _repeated(spec.name for spec in request.topics)
        taken = _metric_names(image, request.topics)
        quota = self._quota(image, (spec.name for spec in request.topics))
        inheritance = Inheritance(image, self.sizes)
        records: list[MetadataRecord] = []
        answers = []
        for spec in request.topics:
            try:
                _check_not_repeated(repeated, spec.name)
                _check_name(image, taken, spec.name)
                made, answer = self._new_topic(image, spec, quota, inheritance)
                if not request.validate_only:
                    charge.take(answer.num_partitions)
            except KafkaError as error:
                answers.append(CreatedTopic(spec.name, error.code, str(error)))
            else:
                taken.setdefault(topic_metric_name(spec.name), spec.name)
                records.extend(made)
                answers.append(answer)
        if request.validate_only:
            records.clear()
            answers = [replace(answer, topic_id=b"") for answer in answers]
        end = image.offset + len(records)
        return Decision(tuple(records), CreateTopicsResponse(tuple(answers), end, charge.throttle_ms))

    def _new_topic(
        self, image: MetadataImage, spec: NewTopicSpec, quota: _Quota, inheritance: Inheritance
    ) -> tuple[list[MetadataRecord], CreatedTopic]:
        placement = self._placement_of_new(image, spec, quota)
        configs = checked_configs(spec.configs)
        inheritance.take((TOPIC_RESOURCE, spec.name), configs)
        topic_id = self._new_topic_id(image)
        records: list[MetadataRecord] = [TopicRecord(spec.name, topic_id)]
        records += [ConfigRecord(TOPIC_RESOURCE, spec.name, key, configs[key]) for key in sorted(configs)]
        records += _partition_records(image, topic_id, 0, placement)
        quota.take(spec.name, len(placement), topics=1)
        answer = CreatedTopic(
            name=spec.name,
            topic_id=topic_id,
            num_partitions=len(placement),
            replication_factor=len(placement[0]),
        )
        return records, answer

    def _placement_of_new(self, image: MetadataImage, spec: NewTopicSpec, quota: _Quota) -> list[Replicas]:
        if spec.assignments:
            if spec.num_partitions != DEFAULT or spec.replication_factor != DEFAULT:
                raise InvalidRequestError(
                    "with a replica assignment, partitions and replication factor must be -1"
                )
            quota.check(spec.name, len(spec.assignments), topics=1)
            check_not_cordoned(self.cordoned, _named(spec.assignments))
            return _assigned(image, spec.assignments, first=0)
        count, factor = spec.num_partitions, spec.replication_factor
        count = self.config.num_partitions if count == DEFAULT else count
        factor = self.config.default_replication_factor if factor == DEFAULT else factor
        if count < 1:
            raise InvalidPartitionsError(f"{count} partitions; a topic has at least 1")
        quota.check(spec.name, count, topics=1)
        return self._placed(image, count, factor)

    def decide_grow(
        self, image: MetadataImage, request: CreatePartitionsRequest, charge: Charge = FREE
    ) -> Decision:
        """Add partitions to topics. Errors of the whole request: InvalidRequestError."""
        self._check_count(len(request.topics))
        repeated = _repeated(growth.name for growth in request.topics)
        quota = self._quota(image, (growth.name for growth in request.topics))
        records: list[MetadataRecord] = []
        results = []
        for growth in request.topics:
            try:
                _check_not_repeated(repeated, growth.name)
                made = self._new_partitions(image, growth, quota)
                if not request.validate_only:
                    charge.take(len(made))
            except KafkaError as error:
                results.append(ItemError(growth.name, error.code, str(error)))
            else:
                results.append(ItemError(growth.name))
                records.extend(made)
        if request.validate_only:
            records.clear()
        end = image.offset + len(records)
        return Decision(tuple(records), CreatePartitionsResponse(tuple(results), end, charge.throttle_ms))

    def _new_partitions(
        self, image: MetadataImage, growth: PartitionGrowth, quota: _Quota
    ) -> list[PartitionRecord]:
        topic = _topic_or_raise(image, growth.name)
        current = len(topic.partitions)
        added = growth.total_count - current
        if added < 1:
            raise InvalidPartitionsError(
                f"topic {topic.name} has {current} partitions and cannot get {growth.total_count}"
            )
        quota.check(topic.name, added)
        first = topic.partitions[0]
        factor = len(first.replicas) - len(first.removing_replicas)
        if growth.assignments:
            if len(growth.assignments) != added:
                raise InvalidReplicaAssignmentError(
                    f"{added} new partitions, but {len(growth.assignments)} assignments"
                )
            check_not_cordoned(self.cordoned, _named(growth.assignments))
            placement = _assigned(image, growth.assignments, first=current)
            if len(placement[0]) != factor:
                raise InvalidReplicaAssignmentError(
                    f"partitions with {len(placement[0])} replicas, but the topic has {factor}"
                )
        else:
            existing = [partition.replicas for partition in topic.partitions]
            placement = self._placed(image, added, factor, existing)
        quota.take(topic.name, added)
        return _partition_records(image, topic.topic_id, current, placement)

    def decide_delete(
        self, image: MetadataImage, request: DeleteTopicsRequest, charge: Charge = FREE
    ) -> Decision:
        """Delete topics by name. Errors of the whole request: InvalidRequestError."""
        self._check_count(len(request.names))
        repeated = _repeated(request.names)
        records: list[MetadataRecord] = []
        results = []
        for name in request.names:
            try:
                _check_not_repeated(repeated, name)
                topic = _topic_or_raise(image, name)
                charge.take(len(topic.partitions))
            except KafkaError as error:
                results.append(ItemError(name, error.code, str(error)))
            else:
                results.append(ItemError(name))
                records.append(RemoveTopicRecord(topic.topic_id))
        end = image.offset + len(records)
        return Decision(tuple(records), DeleteTopicsResponse(tuple(results), end, charge.throttle_ms))

    def _placed(
        self, image: MetadataImage, count: int, factor: int, existing: Sequence[Replicas] = ()
    ) -> list[Replicas]:
        _check_replication_factor(factor)
        nodes = [
            UsableNode(node_id, broker.rack, broker.is_fenced)
            for node_id, broker in sorted(image.brokers.items())
            if not broker.in_controlled_shutdown and node_id not in self.cordoned
        ]
        start = self.randomness.randrange(max(1, len(nodes)))
        return place(count, factor, nodes, start, existing)

    def _new_topic_id(self, image: MetadataImage) -> bytes:
        while True:
            raw = bytearray(self.randomness.randbytes(16))
            raw[6] = raw[6] & 0x0F | 0x40  # UUID version 4, variant 1
            raw[8] = raw[8] & 0x3F | 0x80
            if bytes(raw) not in image.topic_names:
                return bytes(raw)

    def _check_count(self, count: int) -> None:
        limit = self.config.max_topics_per_request
        if count > limit:
            raise InvalidRequestError(f"{count} topics in one request, at most {limit}")

    def _quota(self, image: MetadataImage, names: Iterable[str]) -> _Quota:
        existing = sum(len(topic.partitions) for topic in image.topics.values())
        return _Quota(
            self.config.max_partitions_per_request,
            max(0, self.config.max_partitions - existing),
            NamespaceQuotas(image, names),
        )


def _check_replication_factor(factor: int) -> None:
    if factor < 1:
        raise InvalidReplicationFactorError(f"replication factor {factor}; it must be at least 1")
    if factor > MAX_REPLICATION_FACTOR:
        raise InvalidReplicationFactorError(
            f"replication factor {factor}; it is at most {MAX_REPLICATION_FACTOR}"
        )


def _named(assignments: Iterable[ReplicaAssignment]) -> set[int]:
    return {node_id for assignment in assignments for node_id in assignment.replicas}


def _assigned(image: MetadataImage, assignments: Sequence[ReplicaAssignment], first: int) -> list[Replicas]:
    """The replicas of partitions from `first` on, by an explicit assignment, in order."""
    by_partition = sorted(assignments, key=lambda assignment: assignment.partition)
    for number, assignment in enumerate(by_partition, first):
        if assignment.partition != number:
            raise InvalidReplicaAssignmentError(f"partition {number} is missing or assigned twice")
        _check_replicas(image, assignment)
    factor = len(by_partition[0].replicas)
    if any(len(assignment.replicas) != factor for assignment in by_partition):
        raise InvalidReplicaAssignmentError("all partitions must have the same number of replicas")
    _check_replication_factor(factor)
    return [assignment.replicas for assignment in by_partition]


def _check_replicas(image: MetadataImage, assignment: ReplicaAssignment) -> None:
    where, replicas = f"partition {assignment.partition}", assignment.replicas
    if not replicas:
        raise InvalidReplicaAssignmentError(f"{where} has no replicas")
    if len(set(replicas)) != len(replicas):
        raise InvalidReplicaAssignmentError(f"{where} names a node twice")
    unknown = [node_id for node_id in replicas if node_id not in image.brokers]
    if unknown:
        raise InvalidReplicaAssignmentError(f"{where} names node {unknown[0]}, which is not registered")
    if not active_nodes(image) & set(replicas):
        raise InvalidReplicaAssignmentError(f"{where} names only nodes that are fenced or shutting down")


def _partition_records(
    image: MetadataImage, topic_id: bytes, first: int, placement: Sequence[Replicas]
) -> list[PartitionRecord]:
    active = active_nodes(image)
    records = []
    for number, replicas in enumerate(placement, first):
        in_sync = [node_id for node_id in replicas if node_id in active]
        records.append(
            PartitionRecord(
                topic_id=topic_id,
                partition=number,
                replicas=replicas,
                isr=tuple(sorted(in_sync)),
                leader=in_sync[0],
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    return records


def _repeated(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def _check_not_repeated(repeated: frozenset[str], name: str) -> None:
    if name in repeated:
        raise InvalidRequestError(f"topic {name[:MAX_TOPIC_NAME_LENGTH]!r} is named twice in one request")


def _metric_names(image: MetadataImage, specs: Sequence[NewTopicSpec]) -> dict[str, str]:
    """Existing topics by their name in metrics, if a new name could collide."""
    if not any("." in spec.name or "_" in spec.name for spec in specs):
        return {}
    return {topic_metric_name(name): name for name in image.topics if "." in name or "_" in name}


def _check_name(image: MetadataImage, taken: dict[str, str], name: str) -> None:
    fault = topic_name_fault(name)
    if fault is not None:
        raise InvalidTopicError(fault)
    if name == METADATA_TOPIC:
        raise InvalidTopicError(f"{METADATA_TOPIC} is the controller's own log")
    if name in image.topics:
        raise TopicAlreadyExistsError(f"topic {name} exists")
    rival = taken.get(topic_metric_name(name))
    if rival is not None:
        raise InvalidTopicError(f"topic {name} collides with {rival}: '.' and '_' are the same in metrics")


def _topic_or_raise(image: MetadataImage, name: str) -> TopicImage:
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"topic {name[:MAX_TOPIC_NAME_LENGTH]!r} does not exist")
    return topic
