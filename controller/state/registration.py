"""Registration of storage nodes, and their removal. Pure.

Invariants: a broker epoch never repeats, because it is the offset of its registration record; a node id
belongs to one live process. Source: Kafka ClusterControlManager.java registerBroker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRequestError,
)
from ...protocol.messages.control import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ...protocol.metadata.records import MetadataRecord, NextNodeIdRecord, RegisterBrokerRecord
from ...runtime.config import MAX_INT
from .broker_states import BrokerEvent, BrokerState, move, next_state
from .decision import Decision
from .features import check_supported
from .node_notes import named

if TYPE_CHECKING:
    from ...protocol.metadata.image import BrokerRegistration, MetadataImage
    from ...protocol.model import ListenerEndpoint
    from ..config import ControllerConfig
    from .cluster_state import ReplicaKey
    from .fencing import Fencing

ID_BYTES = 16
MAX_HOST_LENGTH = 255  # Bound: a DNS name
MAX_RACK_LENGTH = 255
MAX_LISTENERS = 16  # Bound: more than the networks of one machine
MAX_LOG_DIRS = 100  # Bound: more than the disks of one machine
MAX_FEATURES = 100  # Bound: many times the features that there are
MAX_FEATURE_LENGTH = 100


def decide_registration(
    fencing: Fencing, image: MetadataImage, request: BrokerRegistrationRequest, now_ms: int
) -> Decision:
    """Register the process, or update its own registration. A repeated request changes nothing.

    Errors: InconsistentClusterIdError, DuplicateBrokerRegistrationError while another process with this node
    id is live, UnsupportedVersionError for one that does not support the cluster's levels of features,
    InvalidRequestError.
    """
    config, sessions = fencing.config, fencing.sessions
    check_registration(image, request)
    if len(request.lost_replicas) > config.max_partitions:
        raise InvalidRequestError(f"{len(request.lost_replicas)} replicas, more than max.partitions")
    check_supported(image, request.features, f"node {request.node_id}")
    before = registration_before(image, request)
    node_id = before.node_id if before is not None else request.node_id
    records: list[MetadataRecord] = []
    if node_id < 0:
        node_id = max(image.next_node_id, config.reserved_broker_max_id + 1)
        records.append(NextNodeIdRecord(node_id + 1))
    _check_node_id(config, image, node_id, is_generated=bool(records))
    is_same_process = before is not None and before.incarnation_id == request.incarnation_id
    if before is not None and not is_same_process:
        if sessions.is_live(node_id, now_ms):
            raise DuplicateBrokerRegistrationError(
                f"node {node_id} is registered by a live process at {before.host}:{before.port}"
            )
        lost = lost_keys(image, request)
        records.extend(fencing.fence_replaced(image, before, request.previous_broker_epoch, lost))
        sessions.forget(node_id)
    record = _record(request, node_id, before, image.offset + 1 + len(records))
    if not (is_same_process and before is not None and _is_unchanged(before, record)):
        records.append(record)
        fencing.notes.moved(
            image,
            f"registering node {node_id} at {request.host}:{request.port} as broker epoch "
            f"{record.broker_epoch}, {_previous_process(before, request)}",
            records,
        )
    sessions.register(node_id, now_ms)
    reply = BrokerRegistrationResponse(
        error_code=0,
        node_id=node_id,
        broker_epoch=record.broker_epoch,
        cluster_id=image.cluster_id,
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        session_timeout_ms=config.broker_session_timeout_ms,
    )
    return Decision(tuple(records), reply)


def decide_unregistration(
    fencing: Fencing, image: MetadataImage, request: UnregisterBrokerRequest
) -> Decision:
    """Remove a fenced node that has no replicas. Errors: BrokerIdNotRegisteredError, InvalidRequestError."""
    broker = image.brokers.get(request.node_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(f"node {request.node_id} is not registered")
    if not broker.is_fenced:
        raise InvalidRequestError(f"node {broker.node_id} is active; stop it first")
    count = sum(
        broker.node_id in partition.replicas
        for topic in image.topics.values()
        for partition in topic.partitions
    )
    if count:
        raise InvalidRequestError(
            f"node {broker.node_id} holds replicas of {count} partitions; reassign them first"
        )
    fencing.sessions.forget(broker.node_id)
    fencing.notes.add(f"unregistering {named(broker)}")
    return Decision((move(broker, BrokerEvent.UNREGISTERED),), UnregisterBrokerResponse(0))


def check_registration(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """Errors: InconsistentClusterIdError, InvalidRequestError for a field that is out of its bounds."""
    if request.cluster_id and request.cluster_id != image.cluster_id:
        raise InconsistentClusterIdError(
            f"the node's log dirs belong to cluster {request.cluster_id[:64]!r}, not to {image.cluster_id!r}"
        )
    if request.node_id < -1:
        raise InvalidRequestError(f"node id {request.node_id} is negative; -1 asks for a generated one")
    ids = (request.incarnation_id, *request.log_dir_ids)
    if any(len(each) != ID_BYTES for each in ids) or len(ids) > MAX_LOG_DIRS + 1:
        raise InvalidRequestError(f"ids have {ID_BYTES} bytes, and a node at most {MAX_LOG_DIRS} log dirs")
    if not 1 <= len(request.host) <= MAX_HOST_LENGTH or not 1 <= request.port <= 65_535:
        raise InvalidRequestError(f"invalid address {request.host[:MAX_HOST_LENGTH]!r}:{request.port}")
    if len(request.listeners) > MAX_LISTENERS or not all(map(_is_endpoint, request.listeners)):
        raise InvalidRequestError(
            f"{len(request.listeners)} listeners: more than {MAX_LISTENERS}, or an invalid address among them"
        )
    if request.rack is not None and len(request.rack) > MAX_RACK_LENGTH:
        raise InvalidRequestError(f"a rack's name has at most {MAX_RACK_LENGTH} characters")
    if len(request.features) > MAX_FEATURES or any(
        len(each.name) > MAX_FEATURE_LENGTH for each in request.features
    ):
        raise InvalidRequestError(f"{len(request.features)} features: too many, or with names too long")


def registration_before(
    image: MetadataImage, request: BrokerRegistrationRequest
) -> BrokerRegistration | None:
    """The registration under the node id. If the request asks for a generated id: that of the same process,
    whose first response was lost."""
    if request.node_id >= 0:
        return image.brokers.get(request.node_id)
    same = (b for b in image.brokers.values() if b.incarnation_id == request.incarnation_id)
    return next(same, None)


def lost_keys(image: MetadataImage, request: BrokerRegistrationRequest) -> frozenset[ReplicaKey]:
    """The replicas that the node reports as lost, of existing topics. A topic that was deleted and created
    again since does not have the node in an ISR or ELR yet."""
    topics = image.topics
    return frozenset(
        (topics[name].topic_id, number) for name, number in request.lost_replicas if name in topics
    )


def _check_node_id(
    config: ControllerConfig, image: MetadataImage, node_id: int, *, is_generated: bool
) -> None:
    if node_id > MAX_INT:
        raise InvalidRequestError(f"node id {node_id} is above {MAX_INT}")
    reserved = config.reserved_broker_max_id
    if not is_generated and node_id > reserved and node_id >= image.next_node_id:
        raise InvalidRequestError(
            f"node id {node_id} is above reserved.broker.max.id {reserved} and was never generated"
        )
    limit = config.max_storage_nodes
    if node_id not in image.brokers and len(image.brokers) >= limit:
        raise InvalidRequestError(f"{limit} storage nodes are registered: max.storage.nodes is reached")


def _record(
    request: BrokerRegistrationRequest,
    node_id: int,
    before: BrokerRegistration | None,
    epoch: int,
) -> RegisterBrokerRecord:
    """The registration, with the epoch and state of `before` if that is the same process."""
    kept = before if before is not None and before.incarnation_id == request.incarnation_id else None
    # Another process before this one is fenced by now, by the records of this decision or earlier.
    state = BrokerState.UNREGISTERED if before is None else BrokerState.FENCED
    return RegisterBrokerRecord(
        node_id=node_id,
        incarnation_id=request.incarnation_id,
        host=request.host,
        port=request.port,
        rack=request.rack,
        log_dir_ids=request.log_dir_ids,
        broker_epoch=kept.broker_epoch if kept else epoch,
        is_fenced=kept.is_fenced if kept else next_state(state, BrokerEvent.REGISTERED) is BrokerState.FENCED,
        in_controlled_shutdown=kept.in_controlled_shutdown if kept else False,
        previous_epoch=kept.previous_epoch if kept else max(request.previous_broker_epoch, -1),
        listeners=request.listeners,
        offline_replicas=kept.offline_replicas if kept else (),
        features=request.features,
    )


def _is_unchanged(broker: BrokerRegistration, record: RegisterBrokerRecord) -> bool:
    registered = (
        broker.host,
        broker.port,
        broker.rack,
        broker.log_dir_ids,
        broker.listeners,
        broker.features,
    )
    asked = (record.host, record.port, record.rack, record.log_dir_ids, record.listeners, record.features)
    return registered == asked


def _is_endpoint(listener: ListenerEndpoint) -> bool:
    lengths = range(1, MAX_HOST_LENGTH + 1)
    return len(listener.name) in lengths and len(listener.host) in lengths and 1 <= listener.port <= 65_535


def _previous_process(before: BrokerRegistration | None, request: BrokerRegistrationRequest) -> str:
    if before is None:
        return "the first process of this node"
    if before.incarnation_id == request.incarnation_id:
        return "the same process with a changed address, rack or log dirs"
    if request.previous_broker_epoch in {before.broker_epoch, before.previous_epoch} - {-1}:
        return f"whose previous process, epoch {before.broker_epoch}, shut down cleanly"
    return f"whose previous process, epoch {before.broker_epoch}, ended without a controlled shutdown"
