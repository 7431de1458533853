"""Records of a snapshot: one for a part of an image, in the place of all that led to it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    MetadataRecord,
    NamespaceRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RoleMemberRecord,
    RoleRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .image import BrokerRegistration, MetadataImage, TopicImage


def security_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Roles come before their members, and before the namespaces that they own."""
    yield from (AccessControlEntryRecord(rule) for rule in sorted(image.acls))
    for user, mechanism in sorted(image.scram_credentials):
        yield UserScramCredentialRecord(user, image.scram_credentials[user, mechanism])
    tokens = image.delegation_tokens
    yield from (DelegationTokenRecord(tokens[token_id]) for token_id in sorted(tokens))
    yield from (RoleRecord(name) for name in sorted(image.roles))
    yield from (RoleMemberRecord(*each) for each in sorted(image.role_members))
    yield from (NamespaceRecord(image.namespaces[prefix]) for prefix in sorted(image.namespaces))


def broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    """The registration of a node."""
    return RegisterBrokerRecord(
        node_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        log_dir_ids=broker.log_dir_ids,
        broker_epoch=broker.broker_epoch,
        is_fenced=broker.is_fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        previous_epoch=broker.previous_epoch,
        listeners=broker.listeners,
        offline_replicas=broker.offline_replicas,
        features=broker.features,
    )


def topic_records(topic: TopicImage) -> list[MetadataRecord]:
    """A topic with its partitions."""
    records: list[MetadataRecord] = [TopicRecord(topic.name, topic.topic_id)]
    for number, partition in enumerate(topic.partitions):
        records.append(
            PartitionRecord(
                topic_id=topic.topic_id,
                partition=number,
                replicas=partition.replicas,
                isr=partition.isr,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                adding_replicas=partition.adding_replicas,
                removing_replicas=partition.removing_replicas,
                elr=partition.elr,
                last_known_elr=partition.last_known_elr,
                leader_recovery_state=partition.leader_recovery_state,
            )
        )
    return records
