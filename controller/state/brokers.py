"""Storage nodes: registration, heartbeats, fencing, controlled shutdown, removal. Pure.

Hard facts (registration, broker epoch, fenced or not) come from the image and change by records only; who was
heard when is soft and lives in `Sessions`. Invariants: a node that is not ACTIVE leads nothing; a broker
epoch never repeats, because it is the offset of the registration's record; one node id has one live process.
Source: Kafka ClusterControlManager.java, BrokerHeartbeatManager.java.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    StaleBrokerEpochError,
)
from ...protocol.messages.control import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ...protocol.metadata.records import (
    FenceBrokerRecord,
    MetadataRecord,
    NextNodeIdRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from ...runtime.config import MAX_INT
from .decision import Decision
from .elections import active_nodes, elect_all, node_back, node_gone

if TYPE_CHECKING:
    from ...protocol.metadata.image import BrokerRegistration, MetadataImage
    from ..config import ControllerConfig
    from .sessions import Sessions

ID_BYTES = 16
MAX_HOST_LENGTH = 255  # Bound: what DNS allows for a name
MAX_RACK_LENGTH = 255
MAX_LOG_DIRS = 100  # Bound: disks of one machine, with room


class BrokerState(Enum):
    """What the controller holds of a node id."""

    UNREGISTERED = "unregistered"
    FENCED = "fenced"
    ACTIVE = "active"


class BrokerEvent(Enum):
    """What may move a node from one state to another."""

    REGISTERED = "registered"
    CAUGHT_UP = "caught up with the metadata log"
    FENCED = "fenced: silent, asked for it, shutting down, or started anew"
    UNREGISTERED = "removed for good"


TRANSITIONS: dict[BrokerState, dict[BrokerEvent, BrokerState]] = {
    BrokerState.UNREGISTERED: {BrokerEvent.REGISTERED: BrokerState.FENCED},
    BrokerState.FENCED: {
        BrokerEvent.REGISTERED: BrokerState.FENCED,
        BrokerEvent.CAUGHT_UP: BrokerState.ACTIVE,
        BrokerEvent.UNREGISTERED: BrokerState.UNREGISTERED,
    },
    BrokerState.ACTIVE: {BrokerEvent.FENCED: BrokerState.FENCED},
}


def state_of(image: MetadataImage, node_id: int) -> BrokerState:
    """The state that the image gives a node id."""
    broker = image.brokers.get(node_id)
    if broker is None:
        return BrokerState.UNREGISTERED
    return BrokerState.FENCED if broker.is_fenced else BrokerState.ACTIVE


def next_state(state: BrokerState, event: BrokerEvent) -> BrokerState:
    """Where `event` leads from `state`. Errors: AssertionError if the table does not allow it: a bug."""
    assert event in TRANSITIONS[state], f"{event} is not possible in state {state}"
    return TRANSITIONS[state][event]


@dataclass(slots=True)
class Brokers:
    """Decides for storage nodes. `decide_*` change soft state only."""

    config: ControllerConfig
    sessions: Sessions

    def decide_registration(
        self, image: MetadataImage, request: BrokerRegistrationRequest, now_ms: int
    ) -> Decision:
        """Register, amend (same process), or refuse. Safe to repeat: a repeated request changes nothing.

        Errors: InconsistentClusterIdError, DuplicateBrokerRegistrationError while another process with this
        node id is live, InvalidRequestError.
        """
        _check_registration(image, request)
        before = _registration_before(image, request)
        node_id = before.node_id if before is not None else request.node_id
        records: list[MetadataRecord] = []
        if node_id < 0:
            node_id = max(image.next_node_id, self.config.reserved_broker_max_id + 1)
            records.append(NextNodeIdRecord(node_id + 1))
        self._check_node_id(image, node_id, is_generated=bool(records))
        is_same_process = before is not None and before.incarnation_id == request.incarnation_id
        if before is not None and not is_same_process:
            if self.sessions.is_live(node_id, now_ms):
                raise DuplicateBrokerRegistrationError(
                    f"node {node_id} is registered by a live process at {before.host}:{before.port}"
                )
            records.extend(_fencing(image, before))
        kept = before if is_same_process else None
        record = RegisterBrokerRecord(
            node_id=node_id,
            incarnation_id=request.incarnation_id,
            host=request.host,
            port=request.port,
            rack=request.rack,
            log_dir_ids=request.log_dir_ids,
            broker_epoch=kept.broker_epoch if kept else image.offset + 1 + len(records),
            is_fenced=kept.is_fenced if kept else True,
        )
        if kept is None or _differs(kept, record):
            records.append(record)
        self.sessions.touch(node_id, now_ms)
        return Decision(tuple(records), self._registered(image, node_id, record.broker_epoch))

    def _registered(
        self, image: MetadataImage, node_id: int, broker_epoch: int
    ) -> BrokerRegistrationResponse:
        return BrokerRegistrationResponse(
            error_code=0,
            node_id=node_id,
            broker_epoch=broker_epoch,
            cluster_id=image.cluster_id,
            heartbeat_interval_ms=self.config.broker_heartbeat_interval_ms,
            session_timeout_ms=self.config.broker_session_timeout_ms,
        )

    def _check_node_id(self, image: MetadataImage, node_id: int, *, is_generated: bool) -> None:
        if node_id > MAX_INT:
            raise InvalidRequestError(f"node id {node_id} is above {MAX_INT}")
        reserved = self.config.reserved_broker_max_id
        if not is_generated and node_id > reserved and node_id >= image.next_node_id:
            raise InvalidRequestError(
                f"node id {node_id} is above reserved.broker.max.id {reserved} and was never generated"
            )
        limit = self.config.max_storage_nodes
        if node_id not in image.brokers and len(image.brokers) >= limit:
            raise InvalidRequestError(f"{limit} storage nodes are registered, the most that are allowed")

    def decide_heartbeat(
        self, image: MetadataImage, request: BrokerHeartbeatRequest, now_ms: int
    ) -> Decision:
        """Keep the session, and move the node between FENCED and ACTIVE as it asks and as it has caught up.

        A node that wants to shut down is fenced, its partitions go to others or to nobody, and it is told to
        go on. Errors: BrokerIdNotRegisteredError, StaleBrokerEpochError, OffsetOutOfRangeError when the
        node has seen metadata that this log does not have.
        """
        broker = _registered_or_raise(image, request)
        self.sessions.touch(broker.node_id, now_ms)
        if request.want_shutdown:
            # The next process of this node need not wait until this session runs out.
            self.sessions.forget(broker.node_id)
            reply = BrokerHeartbeatResponse(error_code=0, is_fenced=True, should_shutdown=True)
            return Decision(tuple(_fencing(image, broker)), reply)
        if request.want_fence:
            return Decision(tuple(_fencing(image, broker)), BrokerHeartbeatResponse(0, is_fenced=True))
        if not broker.is_fenced:
            return Decision((), BrokerHeartbeatResponse(0, is_fenced=False))
        if request.metadata_offset < broker.broker_epoch:
            return Decision((), BrokerHeartbeatResponse(0, is_fenced=True))
        return Decision(tuple(_unfencing(image, broker)), BrokerHeartbeatResponse(0, is_fenced=False))

    def decide_unregistration(self, image: MetadataImage, request: UnregisterBrokerRequest) -> Decision:
        """Remove a fenced node that holds no replicas. Errors: BrokerIdNotRegisteredError,
        InvalidRequestError."""
        broker = image.brokers.get(request.node_id)
        if broker is None:
            raise BrokerIdNotRegisteredError(f"node {request.node_id} is not registered")
        if not broker.is_fenced:
            raise InvalidRequestError(f"node {broker.node_id} is active; stop it first")
        held = sum(
            broker.node_id in partition.replicas
            for topic in image.topics.values()
            for partition in topic.partitions
        )
        if held:
            raise InvalidRequestError(
                f"node {broker.node_id} holds replicas of {held} partitions; delete their topics first"
            )
        self.sessions.forget(broker.node_id)
        next_state(state_of(image, broker.node_id), BrokerEvent.UNREGISTERED)
        record = UnregisterBrokerRecord(broker.node_id, broker.broker_epoch)
        return Decision((record,), UnregisterBrokerResponse(0))

    def decide_expiry(self, image: MetadataImage, now_ms: int) -> tuple[MetadataRecord, ...]:
        """Fence one node whose session ran out, and forget the sessions of fenced ones. Call until empty."""
        for node_id in self.sessions.expired(now_ms):
            self.sessions.forget(node_id)
            broker = image.brokers.get(node_id)
            if broker is not None and not broker.is_fenced:
                return tuple(_fencing(image, broker))
        return ()


def _check_registration(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    if request.cluster_id and request.cluster_id != image.cluster_id:
        raise InconsistentClusterIdError(
            f"the node's disk belongs to cluster {request.cluster_id[:64]!r}, this is {image.cluster_id!r}"
        )
    if request.node_id < -1:
        raise InvalidRequestError(f"node id {request.node_id}")
    ids = (request.incarnation_id, *request.log_dir_ids)
    if any(len(each) != ID_BYTES for each in ids) or len(ids) > MAX_LOG_DIRS + 1:
        raise InvalidRequestError(f"ids have {ID_BYTES} bytes, and a node at most {MAX_LOG_DIRS} log dirs")
    if not 1 <= len(request.host) <= MAX_HOST_LENGTH or not 1 <= request.port <= 65_535:
        raise InvalidRequestError(f"endpoint {request.host[:MAX_HOST_LENGTH]!r}:{request.port}")
    if request.rack is not None and len(request.rack) > MAX_RACK_LENGTH:
        raise InvalidRequestError(f"a rack's name has at most {MAX_RACK_LENGTH} characters")


def _registration_before(
    image: MetadataImage, request: BrokerRegistrationRequest
) -> BrokerRegistration | None:
    """What is registered under the node id; or, if an id is to be generated, what this very process got when
    it asked before and the answer was lost."""
    if request.node_id >= 0:
        return image.brokers.get(request.node_id)
    same = (b for b in image.brokers.values() if b.incarnation_id == request.incarnation_id)
    return next(same, None)


def _differs(broker: BrokerRegistration, record: RegisterBrokerRecord) -> bool:
    registered = (broker.host, broker.port, broker.rack, broker.log_dir_ids)
    return registered != (record.host, record.port, record.rack, record.log_dir_ids)


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


def _fencing(image: MetadataImage, broker: BrokerRegistration) -> list[MetadataRecord]:
    if broker.is_fenced:
        return []
    next_state(state_of(image, broker.node_id), BrokerEvent.FENCED)
    active = active_nodes(image) - {broker.node_id}
    fence = FenceBrokerRecord(broker.node_id, broker.broker_epoch)
    return [fence, *elect_all(image, node_gone, broker.node_id, active)]


def _unfencing(image: MetadataImage, broker: BrokerRegistration) -> list[MetadataRecord]:
    next_state(state_of(image, broker.node_id), BrokerEvent.CAUGHT_UP)
    active = active_nodes(image) | {broker.node_id}
    unfence = UnfenceBrokerRecord(broker.node_id, broker.broker_epoch)
    return [unfence, *elect_all(image, node_back, broker.node_id, active)]
