"""AlterPartition: a leader proposes the ISR of its partition, the controller decides. Pure.

Only the current leader with the current state may change an ISR (leader epoch and partition epoch); a node
that is fenced, shutting down, or registered again since the leader's last fetch from it may not join one
(KIP-841, 903); the leader itself stays a member. A reassignment whose target is in sync completes in the same
decision. Source: Kafka ReplicationControlManager.java alterPartition, KIP-497.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    KafkaError,
    NewLeaderElectedError,
    NotControllerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from ...protocol.messages.control import (
    AlteredPartition,
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from ...protocol.metadata.image import RECOVERED, RECOVERING
from ...protocol.metadata.replay import changed_partition
from .cluster_state import check_broker_epoch
from .decision import Decision
from .elections import drain, offline, reassignment
from .partition_changes import Target, change_partition

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage, PartitionRegistration, TopicImage
    from ...protocol.metadata.records import PartitionChangeRecord
    from .cluster_state import ClusterState

UNCHECKED_EPOCH = -1


def decide_alter_partition(
    cluster: ClusterState, request: AlterPartitionRequest, max_partitions: int
) -> Decision:
    """Each partition succeeds or fails on its own. Errors of the whole request: StaleBrokerEpochError,
    InvalidRequestError."""
    image = cluster.image
    check_broker_epoch(image, request.node_id, request.broker_epoch)
    if len(request.partitions) > max_partitions:
        raise InvalidRequestError(
            f"{len(request.partitions)} partitions in one request, at most {max_partitions}"
        )
    counts = Counter((item.topic_id, item.partition) for item in request.partitions)
    records: list[PartitionChangeRecord] = []
    results = []
    for item in request.partitions:
        try:
            if counts[item.topic_id, item.partition] > 1:
                raise InvalidRequestError("the partition is named twice in one request")
            topic = _topic(image, item)
            _check(cluster, topic.partitions[item.partition], request.node_id, item)
        except KafkaError as error:
            results.append(_refused(image, item, error))
        else:
            result, record = _altered(cluster, topic, request.node_id, item)
            results.append(result)
            if record is not None:
                records.append(record)
    return Decision(tuple(records), AlterPartitionResponse(0, "", tuple(results)))


def _topic(image: MetadataImage, item: AlterPartitionItem) -> TopicImage:
    name = image.topic_names.get(item.topic_id)
    if name is None:
        raise UnknownTopicIdError(f"topic id {item.topic_id[:16].hex()}")
    topic = image.topics[name]
    if not 0 <= item.partition < len(topic.partitions):
        raise UnknownTopicOrPartitionError(f"topic {name} has no partition {item.partition}")
    return topic


def _check(
    cluster: ClusterState, partition: PartitionRegistration, node_id: int, item: AlterPartitionItem
) -> None:
    _check_versions(partition, node_id, item)
    isr = [member for member, _ in item.isr]
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas):
        raise InvalidRequestError(f"ISR {isr[:20]} is not a set of replicas out of {partition.replicas}")
    if node_id not in isr:
        raise InvalidRequestError(f"ISR {isr} is without its leader {node_id}")
    if item.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise InvalidRequestError(f"leader recovery state {item.leader_recovery_state}")
    if item.leader_recovery_state == RECOVERING:
        if len(isr) > 1:
            raise InvalidRequestError(f"the ISR cannot grow to {isr} while its leader recovers")
        if partition.leader_recovery_state == RECOVERED:
            raise InvalidRequestError("a recovered leader cannot be RECOVERING again")
    for member, broker_epoch in item.isr:
        _check_eligible(cluster.image, partition, member, broker_epoch)
    joining = cluster.full_nodes((item.topic_id, item.partition)) & {*isr} - {*partition.isr}
    if joining:
        raise IneligibleReplicaError(f"the disks of nodes {sorted(joining)} are full")


def _check_versions(partition: PartitionRegistration, node_id: int, item: AlterPartitionItem) -> None:
    # A leader with newer epochs knows a newer controller: it has to look for that.
    if item.leader_epoch > partition.leader_epoch or item.partition_epoch > partition.partition_epoch:
        raise NotControllerError(
            f"leader epoch {item.leader_epoch} and partition epoch {item.partition_epoch} are ahead of "
            f"{partition.leader_epoch} and {partition.partition_epoch}"
        )
    if item.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpochError(f"the leader epoch is {partition.leader_epoch}, not {item.leader_epoch}")
    if node_id != partition.leader:
        raise InvalidRequestError(f"the leader is {partition.leader}, not {node_id}")
    if item.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersionError(
            f"the partition epoch is {partition.partition_epoch}, not {item.partition_epoch}"
        )


def _check_eligible(
    image: MetadataImage, partition: PartitionRegistration, member: int, broker_epoch: int
) -> None:
    broker = image.brokers.get(member)
    if broker is None:
        raise IneligibleReplicaError(f"node {member} is not registered")
    if broker.is_fenced:
        raise IneligibleReplicaError(f"node {member} is fenced")
    # A drained node that still leads must be able to add others to the ISR, or its drain would never end.
    if broker.in_controlled_shutdown and member != partition.leader:
        raise IneligibleReplicaError(f"node {member} is shutting down")
    if broker_epoch not in (UNCHECKED_EPOCH, broker.broker_epoch):
        raise IneligibleReplicaError(
            f"node {member} has broker epoch {broker.broker_epoch}, not {broker_epoch}: it was restarted"
        )


def _altered(
    cluster: ClusterState, topic: TopicImage, node_id: int, item: AlterPartitionItem
) -> tuple[AlteredPartition, PartitionChangeRecord | None]:
    partition = topic.partitions[item.partition]
    isr = tuple(sorted(member for member, _ in item.isr))
    rules = cluster.rules(topic, item.partition)
    strategy = reassignment if partition.adding_replicas or partition.removing_replicas else offline
    if node_id not in cluster.active:
        isr = tuple(member for member in isr if member != node_id) or isr
        strategy = drain
    target = Target(isr=isr, recovery_state=item.leader_recovery_state, elect=strategy)
    record = change_partition(topic.topic_id, item.partition, partition, target, rules)
    after = partition if record is None else changed_partition(partition, record)
    if after.leader == node_id:
        return _described(item, after), record
    error = NewLeaderElectedError(f"node {after.leader} leads from now on")
    return _described(item, after, error), record


def _refused(image: MetadataImage, item: AlterPartitionItem, error: KafkaError) -> AlteredPartition:
    name = image.topic_names.get(item.topic_id)
    partitions = image.topics[name].partitions if name is not None else ()
    if not 0 <= item.partition < len(partitions):
        return AlteredPartition(item.topic_id, item.partition, error.code, str(error))
    return _described(item, partitions[item.partition], error)


def _described(
    item: AlterPartitionItem, partition: PartitionRegistration, error: KafkaError | None = None
) -> AlteredPartition:
    return AlteredPartition(
        topic_id=item.topic_id,
        partition=item.partition,
        error_code=0 if error is None else error.code,
        error_detail="" if error is None else str(error),
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        partition_epoch=partition.partition_epoch,
        leader_recovery_state=partition.leader_recovery_state,
    )
