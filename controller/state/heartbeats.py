"""Heartbeats of storage nodes: sessions, reports of disks, unfencing and controlled shutdown. Pure.

Invariant: a node is allowed to shut down only when it leads nothing and every active node has applied the
metadata that says so. Source: Kafka BrokerHeartbeatManager.java, ClusterControlManager.java.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...protocol.errors import (
    BrokerIdNotRegisteredError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    StaleBrokerEpochError,
)
from ...protocol.messages.control import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ...protocol.metadata.records import BrokerRegistrationChangeRecord
from .broker_states import shutdown_flag
from .cluster_state import active_nodes, led_by
from .decision import Decision
from .leader_and_isr import DISK_FAILED, SHUTTING_DOWN, UNFENCED, changes, changes_of, moves_off_full_disks
from .node_notes import named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...protocol.metadata.image import BrokerRegistration, MetadataImage
    from ...protocol.metadata.records import MetadataRecord, PartitionChangeRecord
    from .fencing import Fencing


def decide_heartbeat(
    fencing: Fencing, image: MetadataImage, request: BrokerHeartbeatRequest, now_ms: int
) -> Decision:
    """Extend the session, and fence, unfence or shut down the node as it asks and has caught up.

    Errors: BrokerIdNotRegisteredError, StaleBrokerEpochError, OffsetOutOfRangeError when the node has applied
    metadata that this log does not have, InvalidRequestError.
    """
    broker = _registered_or_raise(image, request)
    for replicas in (request.offline_replicas, request.full_replicas):
        if len(replicas) > fencing.config.max_partitions:
            raise InvalidRequestError(f"{len(replicas)} replicas, more than max.partitions")
    _note_reports(fencing, broker, request, now_ms)
    log_dirs = set(broker.log_dir_ids)
    has_no_disk = bool(log_dirs) and log_dirs <= set(request.offline_log_dirs)
    if request.want_shutdown and (broker.is_fenced or request.want_fence):
        return _complete_shutdown(fencing, image, broker)
    if request.want_fence or has_no_disk:
        why = "all its log dirs are offline" if has_no_disk else "requested by the node"
        records = tuple(fencing.fence(image, broker, why))
        return Decision(records, BrokerHeartbeatResponse(0, is_fenced=True))
    if request.want_shutdown:
        return _shut_down(fencing, image, broker)
    return _keep_alive(fencing, image, broker, request)


def _note_reports(
    fencing: Fencing, broker: BrokerRegistration, request: BrokerHeartbeatRequest, now_ms: int
) -> None:
    sessions, node_id = fencing.sessions, broker.node_id
    sessions.touch(node_id, now_ms, request.metadata_offset)
    sessions.note_full(node_id, request.full_replicas)
    online_dirs = set(broker.log_dir_ids) - set(request.offline_log_dirs)
    is_cordoned = bool(online_dirs) and online_dirs <= set(request.cordoned_log_dirs)
    (sessions.cordoned.add if is_cordoned else sessions.cordoned.discard)(node_id)


def _keep_alive(
    fencing: Fencing, image: MetadataImage, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> Decision:
    is_behind = broker.is_fenced and request.metadata_offset < broker.broker_epoch
    image, disk_records = _with_offline_replicas(image, broker, request)
    records: list[MetadataRecord] = [*_disk_changes(fencing, image, broker)] if disk_records else []
    if broker.is_fenced and not is_behind:
        # A fenced node is in no ISR, so that its disks alone change no partition.
        records = fencing.unfence(image, broker)
    if not records and not broker.is_fenced and request.full_replicas:
        # Each heartbeat tries again: other replicas may have joined the ISR since.
        full = frozenset(request.full_replicas)
        records = [*moves_off_full_disks(fencing.cluster(image), broker.node_id, full)]
    records = [*disk_records, *records]
    reply = BrokerHeartbeatResponse(0, is_fenced=is_behind, metadata_offset=image.offset + len(records))
    return Decision(tuple(records), reply)


def _shut_down(fencing: Fencing, image: MetadataImage, broker: BrokerRegistration) -> Decision:
    """One step of the controlled shutdown of an unfenced node."""
    node_id, sessions = broker.node_id, fencing.sessions
    others = active_nodes(image) - {node_id}
    if not others or not (broker.in_controlled_shutdown or led_by(image, node_id)):
        return _complete_shutdown(fencing, image, broker)
    moved = list(changes(fencing.cluster(image).without(node_id), SHUTTING_DOWN, node_id))
    records = [*shutdown_flag(broker, in_controlled_shutdown=True), *moved]
    if records:
        fencing.notes.moved(image, f"controlled shutdown of {named(broker)}", records)
    needed = sessions.shutdown_offset(node_id, image.offset + len(records), is_moved=bool(moved))
    if sessions.lowest_applied(others) < needed:
        return Decision(tuple(records), BrokerHeartbeatResponse(0, is_fenced=False))
    return _complete_shutdown(fencing, image, broker)


def _complete_shutdown(fencing: Fencing, image: MetadataImage, broker: BrokerRegistration) -> Decision:
    """Fence the node and end its session, so that its next process can register at once."""
    records = fencing.fence(image, broker, "its controlled shutdown is complete")
    fencing.sessions.forget(broker.node_id)
    return Decision(tuple(records), BrokerHeartbeatResponse(0, is_fenced=True, should_shutdown=True))


def _disk_changes(
    fencing: Fencing, image: MetadataImage, before: BrokerRegistration
) -> Iterator[PartitionChangeRecord]:
    """The changes of partitions whose replicas on the node went offline since `before`, or came back."""
    if before.is_fenced:
        return
    node_id, cluster = before.node_id, fencing.cluster(image)
    was_offline = frozenset(before.offline_replicas)
    is_offline = cluster.offline_replicas.get(node_id, frozenset())
    yield from changes_of(cluster, DISK_FAILED, node_id, is_offline - was_offline)
    yield from changes_of(cluster, UNFENCED, node_id, was_offline - is_offline)


def _with_offline_replicas(
    image: MetadataImage, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> tuple[MetadataImage, list[MetadataRecord]]:
    """The image with the node's offline replicas, and the record of them if they changed."""
    offline = tuple(sorted({*request.offline_replicas}))
    if offline == broker.offline_replicas:
        return image, []
    record = BrokerRegistrationChangeRecord(broker.node_id, broker.broker_epoch, offline_replicas=offline)
    changed = {**image.brokers, broker.node_id: replace(broker, offline_replicas=offline)}
    return replace(image, brokers=changed), [record]


def _registered_or_raise(image: MetadataImage, request: BrokerHeartbeatRequest) -> BrokerRegistration:
    broker = image.brokers.get(request.node_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(f"node {request.node_id} is not registered")
    if broker.broker_epoch != request.broker_epoch:
        raise StaleBrokerEpochError(
            f"node {request.node_id} has broker epoch {broker.broker_epoch}, not {request.broker_epoch}"
        )
    if request.metadata_offset > image.offset:
        raise OffsetOutOfRangeError(
            f"node {request.node_id} has metadata up to {request.metadata_offset}, "
            f"the controller only up to {image.offset}: metadata was lost"
        )
    return broker
