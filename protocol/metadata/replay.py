"""Applies metadata records to an image of the cluster, and converts an image to records for a snapshot.

Pure. Invariant: `replay` of a run of records gives the same image however the run is split, and
`image_of(image_records(image), image.offset) == image`. The new image shares unchanged parts with the old
one; each map that a run changes is copied once per run, not per record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from ..model import NO_EPOCH, NO_NODE
from .image import (
    TOPIC_RESOURCE,
    BrokerRegistration,
    MetadataDelta,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from .quotas import sorted_entities
from .records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    FormatRecord,
    MetadataRecord,
    NamespaceRecord,
    NextNodeIdRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveNamespaceRecord,
    RemoveRoleMemberRecord,
    RemoveRoleRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    RoleMemberRecord,
    RoleRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from .snapshot_records import broker_record, security_records, topic_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ..security.acls import AclBinding

K = TypeVar("K")
V = TypeVar("V")


def replay(
    image: MetadataImage, base_offset: int, records: Sequence[MetadataRecord]
) -> tuple[MetadataImage, MetadataDelta]:
    """The image after `records`, whose first one has offset `base_offset`, and the delta.

    Errors: ValueError if `base_offset` does not follow the image, or a record is inconsistent with it (it is
    from another log); the old image is unchanged.
    """
    if base_offset != image.offset + 1:
        raise ValueError(f"records at {base_offset} do not continue an image at offset {image.offset}")
    run = _Run(image)
    for index, record in enumerate(records):
        run.apply(base_offset + index, record)
    return run.finish(base_offset + len(records) - 1)


def image_of(records: Iterable[MetadataRecord], offset: int) -> MetadataImage:
    """The image of a snapshot's records; `offset` is the last offset in the snapshot."""
    run = _Run(MetadataImage())
    for record in records:
        run.apply(offset, record)
    return run.finish(offset)[0]


def image_records(image: MetadataImage) -> list[MetadataRecord]:
    """The records of `image` in a fixed order: equal images give equal lists."""
    records: list[MetadataRecord] = []
    if image.cluster_id:
        records.append(FormatRecord(image.cluster_id))
    if image.next_node_id:
        records.append(NextNodeIdRecord(image.next_node_id))
    if image.next_producer_id:
        records.append(ProducerIdsRecord(NO_NODE, NO_EPOCH, image.next_producer_id))
    records.extend(broker_record(image.brokers[node_id]) for node_id in sorted(image.brokers))
    for name in sorted(image.topics):
        records.extend(topic_records(image.topics[name]))
    for resource in sorted(image.configs):
        values = image.configs[resource]
        records.extend(ConfigRecord(*resource, key, values[key]) for key in sorted(values))
    for entity in sorted_entities(image.client_quotas):
        quotas = image.client_quotas[entity]
        records.extend(ClientQuotaRecord(entity, key, quotas[key]) for key in sorted(quotas))
    records.extend(FeatureLevelRecord(name, image.features[name]) for name in sorted(image.features))
    records.extend(security_records(image))
    return records


class _Draft(Generic[K, V]):
    """A mapping of the old image, copied at its first change."""

    def __init__(self, old: Mapping[K, V]) -> None:
        self.of = old
        self._copy: dict[K, V] | None = None

    def write(self) -> dict[K, V]:
        """The copy to change; `of` reads from it afterwards."""
        if self._copy is None:
            self.of = self._copy = dict(self.of)
        return self._copy


class _Run:
    """Working copies of the maps that a run of records changes, and the delta so far."""

    def __init__(self, image: MetadataImage) -> None:
        self._old = image
        self._cluster_id = image.cluster_id
        self._next_node_id = image.next_node_id
        self._next_producer_id = image.next_producer_id
        self._brokers = _Draft(image.brokers)
        self._topics = _Draft(image.topics)
        self._topic_names = _Draft(image.topic_names)
        self._configs = _Draft(image.configs)
        self._client_quotas = _Draft(image.client_quotas)
        self._features = _Draft(image.features)
        self._acls = _Draft(image.acls)
        self._scram_credentials = _Draft(image.scram_credentials)
        self._delegation_tokens = _Draft(image.delegation_tokens)
        self._roles = _Draft(image.roles)
        self._role_members = _Draft(image.role_members)
        self._namespaces = _Draft(image.namespaces)
        # Partitions of changed topics as lists, converted to tuples once at the end: n changes of a topic of
        # n partitions cost n, not n * n.
        self._partitions: dict[bytes, list[PartitionRegistration]] = {}
        self._touched: dict[tuple[bytes, int], None] = {}  # dicts as ordered sets
        self._changed_brokers: set[int] = set()
        self._changed_configs: dict[tuple[int, str], None] = {}
        self._changed_acls: dict[AclBinding, None] = {}
        self._changed_members: dict[tuple[str, str], None] = {}
        self._created: dict[bytes, None] = {}
        self._removed: list[TopicImage] = []

    def apply(self, offset: int, record: MetadataRecord) -> None:
        _APPLY[type(record)](self, offset, record)

    def finish(self, offset: int) -> tuple[MetadataImage, MetadataDelta]:
        for topic_id, partitions in self._partitions.items():
            name = self._topic_names.of[topic_id]
            self._topics.write()[name] = TopicImage(name, topic_id, tuple(partitions))
        image = MetadataImage(
            offset=offset,
            cluster_id=self._cluster_id,
            next_node_id=self._next_node_id,
            brokers=self._brokers.of,
            topics=self._topics.of,
            topic_names=self._topic_names.of,
            configs=self._configs.of,
            next_producer_id=self._next_producer_id,
            client_quotas=self._client_quotas.of,
            features=self._features.of,
            acls=self._acls.of,
            scram_credentials=self._scram_credentials.of,
            delegation_tokens=self._delegation_tokens.of,
            roles=self._roles.of,
            role_members=self._role_members.of,
            namespaces=self._namespaces.of,
        )
        # A topic that was created and removed within one run is in neither list.
        alive = image.topic_names
        return image, MetadataDelta(
            brokers=frozenset(self._changed_brokers),
            topics_created=tuple(topic_id for topic_id in self._created if topic_id in alive),
            topics_removed=tuple(self._removed),
            partitions=tuple(touched for touched in self._touched if touched[0] in alive),
            configs=tuple(self._changed_configs),
            acls=tuple(self._changed_acls),
            role_members=tuple(self._changed_members),
        )

    def format(self, offset: int, record: FormatRecord) -> None:
        if self._cluster_id:
            raise _fault(offset, f"cluster {self._cluster_id} is formatted already")
        self._cluster_id = record.cluster_id

    def next_node_id(self, _offset: int, record: NextNodeIdRecord) -> None:
        self._next_node_id = record.next_node_id

    def producer_ids(self, offset: int, record: ProducerIdsRecord) -> None:
        if record.next_producer_id <= self._next_producer_id:
            raise _fault(offset, f"producer ids below {record.next_producer_id} are allocated already")
        self._next_producer_id = record.next_producer_id

    def register(self, _offset: int, record: RegisterBrokerRecord) -> None:
        self._set_broker(
            BrokerRegistration(
                node_id=record.node_id,
                broker_epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                host=record.host,
                port=record.port,
                rack=record.rack,
                log_dir_ids=record.log_dir_ids,
                is_fenced=record.is_fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                previous_epoch=record.previous_epoch,
                listeners=record.listeners,
                offline_replicas=record.offline_replicas,
                features=record.features,
            )
        )

    def broker_change(self, offset: int, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(offset, record.node_id, record.broker_epoch)
        if record.in_controlled_shutdown is not None:
            broker = replace(broker, in_controlled_shutdown=record.in_controlled_shutdown)
        if record.offline_replicas is not None:
            broker = replace(broker, offline_replicas=record.offline_replicas)
        self._set_broker(broker)

    def unregister(self, offset: int, record: UnregisterBrokerRecord) -> None:
        self._broker(offset, record.node_id, record.broker_epoch)
        del self._brokers.write()[record.node_id]
        self._changed_brokers.add(record.node_id)

    def fence(self, offset: int, record: FenceBrokerRecord) -> None:
        broker = self._broker(offset, record.node_id, record.broker_epoch)
        self._set_broker(replace(broker, is_fenced=True))

    def unfence(self, offset: int, record: UnfenceBrokerRecord) -> None:
        broker = self._broker(offset, record.node_id, record.broker_epoch)
        self._set_broker(replace(broker, is_fenced=False, previous_epoch=-1))

    def topic(self, offset: int, record: TopicRecord) -> None:
        if record.name in self._topics.of or record.topic_id in self._topic_names.of:
            raise _fault(offset, f"topic {record.name} or its id exists already")
        self._topics.write()[record.name] = TopicImage(record.name, record.topic_id, ())
        self._topic_names.write()[record.topic_id] = record.name
        self._created[record.topic_id] = None

    def remove_topic(self, offset: int, record: RemoveTopicRecord) -> None:
        name = self._topic_name(offset, record.topic_id)
        del self._topics.write()[name]
        del self._topic_names.write()[record.topic_id]
        self._partitions.pop(record.topic_id, None)
        if (TOPIC_RESOURCE, name) in self._configs.of:
            del self._configs.write()[TOPIC_RESOURCE, name]
            self._changed_configs[TOPIC_RESOURCE, name] = None
        if record.topic_id in self._old.topic_names:
            self._removed.append(self._old.topics[name])

    def partition(self, offset: int, record: PartitionRecord) -> None:
        partitions = self._partitions_of(offset, record.topic_id)
        if record.partition != len(partitions):
            raise _fault(offset, f"partition {record.partition} is not the next one of its topic")
        partitions.append(registered_partition(record))
        self._touched[record.topic_id, record.partition] = None

    def partition_change(self, offset: int, record: PartitionChangeRecord) -> None:
        partitions = self._partitions_of(offset, record.topic_id)
        if not 0 <= record.partition < len(partitions):
            raise _fault(offset, f"partition {record.partition} does not exist")
        partitions[record.partition] = changed_partition(partitions[record.partition], record)
        self._touched[record.topic_id, record.partition] = None

    def config(self, _offset: int, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        values = dict(self._configs.of.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self._configs.write()[resource] = values
        elif resource in self._configs.of:
            del self._configs.write()[resource]
        self._changed_configs[resource] = None

    def client_quota(self, _offset: int, record: ClientQuotaRecord) -> None:
        values = dict(self._client_quotas.of.get(record.entity, {}))
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._client_quotas.write()[record.entity] = values
        elif record.entity in self._client_quotas.of:
            del self._client_quotas.write()[record.entity]

    def feature(self, _offset: int, record: FeatureLevelRecord) -> None:
        self._features.write()[record.name] = record.level

    def acl(self, _offset: int, record: AccessControlEntryRecord) -> None:
        self._acls.write()[record.rule] = None
        self._changed_acls[record.rule] = None

    def remove_acl(self, offset: int, record: RemoveAccessControlEntryRecord) -> None:
        _take(self._acls, record.rule, offset, "rule")
        self._changed_acls[record.rule] = None

    def scram_credential(self, _offset: int, record: UserScramCredentialRecord) -> None:
        self._scram_credentials.write()[record.user, record.credential.mechanism] = record.credential

    def remove_scram_credential(self, offset: int, record: RemoveUserScramCredentialRecord) -> None:
        _take(self._scram_credentials, (record.user, record.mechanism), offset, "credential")

    def delegation_token(self, _offset: int, record: DelegationTokenRecord) -> None:
        self._delegation_tokens.write()[record.token.token_id] = record.token

    def remove_delegation_token(self, offset: int, record: RemoveDelegationTokenRecord) -> None:
        _take(self._delegation_tokens, record.token_id, offset, "delegation token")

    def role(self, _offset: int, record: RoleRecord) -> None:
        self._roles.write()[record.name] = None

    def remove_role(self, offset: int, record: RemoveRoleRecord) -> None:
        _take(self._roles, record.name, offset, "role")

    def role_member(self, offset: int, record: RoleMemberRecord) -> None:
        if record.role not in self._roles.of:
            raise _fault(offset, "there is no such role")
        self._role_members.write()[record.role, record.member] = None
        self._changed_members[record.role, record.member] = None

    def remove_role_member(self, offset: int, record: RemoveRoleMemberRecord) -> None:
        _take(self._role_members, (record.role, record.member), offset, "member of the role")
        self._changed_members[record.role, record.member] = None

    def namespace(self, _offset: int, record: NamespaceRecord) -> None:
        self._namespaces.write()[record.namespace.prefix] = record.namespace

    def remove_namespace(self, offset: int, record: RemoveNamespaceRecord) -> None:
        _take(self._namespaces, record.prefix, offset, "namespace")

    def no_op(self, _offset: int, record: NoOpRecord) -> None: ...

    def _broker(self, offset: int, node_id: int, broker_epoch: int) -> BrokerRegistration:
        broker = self._brokers.of.get(node_id)
        if broker is None or broker.broker_epoch != broker_epoch:
            raise _fault(offset, f"node {node_id} is not registered with epoch {broker_epoch}")
        return broker

    def _set_broker(self, broker: BrokerRegistration) -> None:
        self._brokers.write()[broker.node_id] = broker
        self._changed_brokers.add(broker.node_id)

    def _topic_name(self, offset: int, topic_id: bytes) -> str:
        name = self._topic_names.of.get(topic_id)
        if name is None:
            raise _fault(offset, f"topic id {topic_id.hex()} is unknown")
        return name

    def _partitions_of(self, offset: int, topic_id: bytes) -> list[PartitionRegistration]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            name = self._topic_name(offset, topic_id)
            partitions = self._partitions[topic_id] = list(self._topics.of[name].partitions)
        return partitions


def registered_partition(record: PartitionRecord) -> PartitionRegistration:
    """The partition that a PartitionRecord creates."""
    return PartitionRegistration(
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        adding_replicas=record.adding_replicas,
        removing_replicas=record.removing_replicas,
        elr=record.elr,
        last_known_elr=record.last_known_elr,
        leader_recovery_state=record.leader_recovery_state,
    )


def changed_partition(
    partition: PartitionRegistration, record: PartitionChangeRecord
) -> PartitionRegistration:
    """The partition after one change record, with incremented epochs as described at
    PartitionChangeRecord."""
    return PartitionRegistration(
        replicas=_or(record.replicas, partition.replicas),
        isr=_or(record.isr, partition.isr),
        leader=_or(record.leader, partition.leader),
        leader_epoch=partition.leader_epoch + (record.leader is not None),
        partition_epoch=partition.partition_epoch + 1,
        adding_replicas=_or(record.adding_replicas, partition.adding_replicas),
        removing_replicas=_or(record.removing_replicas, partition.removing_replicas),
        elr=_or(record.elr, partition.elr),
        last_known_elr=_or(record.last_known_elr, partition.last_known_elr),
        leader_recovery_state=_or(record.leader_recovery_state, partition.leader_recovery_state),
    )


def _or(new: V | None, old: V) -> V:
    return old if new is None else new


_APPLY: dict[type, Callable[[_Run, int, Any], None]] = {
    FormatRecord: _Run.format,
    RegisterBrokerRecord: _Run.register,
    UnregisterBrokerRecord: _Run.unregister,
    FenceBrokerRecord: _Run.fence,
    UnfenceBrokerRecord: _Run.unfence,
    BrokerRegistrationChangeRecord: _Run.broker_change,
    NextNodeIdRecord: _Run.next_node_id,
    TopicRecord: _Run.topic,
    RemoveTopicRecord: _Run.remove_topic,
    PartitionRecord: _Run.partition,
    PartitionChangeRecord: _Run.partition_change,
    ConfigRecord: _Run.config,
    ProducerIdsRecord: _Run.producer_ids,
    NoOpRecord: _Run.no_op,
    ClientQuotaRecord: _Run.client_quota,
    FeatureLevelRecord: _Run.feature,
    AccessControlEntryRecord: _Run.acl,
    RemoveAccessControlEntryRecord: _Run.remove_acl,
    UserScramCredentialRecord: _Run.scram_credential,
    RemoveUserScramCredentialRecord: _Run.remove_scram_credential,
    DelegationTokenRecord: _Run.delegation_token,
    RemoveDelegationTokenRecord: _Run.remove_delegation_token,
    RoleRecord: _Run.role,
    RemoveRoleRecord: _Run.remove_role,
    RoleMemberRecord: _Run.role_member,
    RemoveRoleMemberRecord: _Run.remove_role_member,
    NamespaceRecord: _Run.namespace,
    RemoveNamespaceRecord: _Run.remove_namespace,
}


def _take(draft: _Draft[K, V], key: K, offset: int, what: str) -> None:
    """Remove an entry. Errors: ValueError if there is none."""
    if key not in draft.of:
        raise _fault(offset, f"there is no such {what}")
    del draft.write()[key]


def _fault(offset: int, detail: str) -> ValueError:
    return ValueError(f"metadata record at offset {offset}: {detail}")
