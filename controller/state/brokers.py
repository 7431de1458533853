"""Storage nodes: registration, heartbeats, fencing, controlled shutdown, removal. Pure.

Hard facts (registration, broker epoch, fenced or not) come from the image and change by records only; who was
heard when is soft and lives in `Sessions`. Invariants: a node that is not ACTIVE leads nothing; a broker
epoch never repeats, because it is the offset of the registration's record; one node id has one live process;
a node is told to end only when it leads nothing and every active node knows that.
Source: Kafka ClusterControlManager.java, BrokerHeartbeatManager.java, KIP-966 for the restart that lost
records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...protocol.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    StaleBrokerEpochError,
)
from ...protocol.messages.control import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    DrainNodeRequest,
    DrainNodeResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ...protocol.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    NextNodeIdRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from ...protocol.model import NO_NODE
from ...runtime.config import MAX_INT
from .broker_states import BrokerEvent, BrokerState, move, next_state
from .decision import Decision
from .draining import below_min_isr, stops_acks_all
from .node_notes import NodeNotes, named, why_silent
from .registration import check_registration, differs, lost_keys, registration_before
from .standing import (
    DISK_FAILED,
    DRAINED,
    FENCED,
    LOST_RECORDS,
    SHUTTING_DOWN,
    UNFENCED,
    Reason,
    ReplicaKey,
    Standing,
    active_nodes,
    changes,
    changes_of,
    leads_any,
    led_by,
    relieved,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from ...protocol.metadata.image import BrokerRegistration, MetadataImage
    from ..config import ControllerConfig
    from .sessions import Sessions


@dataclass(slots=True)
class Brokers:
    """Decides for storage nodes. `decide_*` change soft state only."""

    config: ControllerConfig
    sessions: Sessions
    notes: NodeNotes = field(default_factory=NodeNotes)

    def decide_registration(
        self, image: MetadataImage, request: BrokerRegistrationRequest, now_ms: int
    ) -> Decision:
        """Register, amend (same process), or refuse. Safe to repeat: a repeated request changes nothing.

        Errors: InconsistentClusterIdError, DuplicateBrokerRegistrationError while another process with this
        node id is live, InvalidRequestError.
        """
        check_registration(image, request)
        if len(request.lost_replicas) > self.config.max_partitions:
            raise InvalidRequestError(f"{len(request.lost_replicas)} replicas, more than the cluster has")
        before = registration_before(image, request)
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
            records.extend(self._ended(image, before, request))
            self.sessions.forget(node_id)
        kept = before if is_same_process else None
        # Another process before this one is fenced by now, by the records above or earlier.
        state = BrokerState.UNREGISTERED if before is None else BrokerState.FENCED
        begins_fenced = next_state(state, BrokerEvent.REGISTERED) is BrokerState.FENCED
        record = RegisterBrokerRecord(
            node_id=node_id,
            incarnation_id=request.incarnation_id,
            host=request.host,
            port=request.port,
            rack=request.rack,
            log_dir_ids=request.log_dir_ids,
            broker_epoch=kept.broker_epoch if kept else image.offset + 1 + len(records),
            is_fenced=kept.is_fenced if kept else begins_fenced,
            in_controlled_shutdown=kept.in_controlled_shutdown if kept else False,
            previous_epoch=kept.previous_epoch if kept else max(request.previous_broker_epoch, -1),
            listeners=request.listeners,
            offline_replicas=kept.offline_replicas if kept else (),
        )
        if kept is None or differs(kept, record):
            records.append(record)
            self.notes.moved(
                image,
                f"registering node {node_id} at {request.host}:{request.port} as broker epoch "
                f"{record.broker_epoch}, {_process_before(before, request)}",
                records,
            )
        self.sessions.register(node_id, now_ms)
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
        """Keep the session, and move the node between its states as it asks and as it has caught up.

        A node that wants to shut down hands its partitions over, and is told to go on once the others know.
        Errors: BrokerIdNotRegisteredError, StaleBrokerEpochError, OffsetOutOfRangeError when the node has
        seen metadata that this log does not have, InvalidRequestError.
        """
        broker = _registered_or_raise(image, request)
        if len(request.offline_replicas) > self.config.max_partitions:
            raise InvalidRequestError(f"{len(request.offline_replicas)} replicas, more than the cluster has")
        if len(request.full_replicas) > self.config.max_partitions:
            raise InvalidRequestError(f"{len(request.full_replicas)} replicas, more than the cluster has")
        self.sessions.touch(broker.node_id, now_ms, request.metadata_offset)
        self.sessions.note_full(broker.node_id, request.full_replicas)
        dirs = set(broker.log_dir_ids) - set(request.offline_log_dirs)
        is_cordoned = bool(dirs) and dirs <= set(request.cordoned_log_dirs)
        (self.sessions.cordoned.add if is_cordoned else self.sessions.cordoned.discard)(broker.node_id)
        has_no_disk = bool(broker.log_dir_ids) and set(broker.log_dir_ids) <= set(request.offline_log_dirs)
        if request.want_shutdown and (broker.is_fenced or request.want_fence):
            return self._end(image, broker)
        if request.want_fence or has_no_disk:
            why = "all its log dirs are offline" if has_no_disk else "it asks for it"
            return Decision(
                tuple(self._fencing(image, broker, why)), BrokerHeartbeatResponse(0, is_fenced=True)
            )
        if request.want_shutdown:
            return self._shut_down(image, broker)
        is_behind = broker.is_fenced and request.metadata_offset < broker.broker_epoch
        image, told = _with_disks(image, broker, request)
        records: list[MetadataRecord] = [*self._disk_news(image, broker)] if told else []
        if broker.is_fenced and not is_behind:
            # It leads nothing yet and is in no ISR, so news of its disks alone have changed nothing.
            records = self._unfencing(image, broker)
        if not records and not broker.is_fenced and request.full_replicas:
            # Where it stayed it may be relieved later, when others are in sync: each heartbeat tries again.
            records = [*relieved(self.standing(image), broker.node_id, frozenset(request.full_replicas))]
        records = [*told, *records]
        decided = image.offset + len(records)
        return Decision(
            tuple(records), BrokerHeartbeatResponse(0, is_fenced=is_behind, metadata_offset=decided)
        )

    def _shut_down(self, image: MetadataImage, broker: BrokerRegistration) -> Decision:
        """One step towards the end of an unfenced node."""
        node_id = broker.node_id
        others = active_nodes(image) - {node_id}
        if not others or not (broker.in_controlled_shutdown or leads_any(image, node_id)):
            return self._end(image, broker)
        moved = list(changes(self.standing(image).without(node_id), SHUTTING_DOWN, node_id))
        records = [*_flagged(broker, in_controlled_shutdown=True), *moved]
        if records:
            self.notes.moved(image, f"controlled shutdown of {named(broker)}", records)
        needed = self.sessions.shutdown_offset(node_id, image.offset + len(records), is_moved=bool(moved))
        if self.sessions.lowest_seen(others) < needed:
            return Decision(tuple(records), BrokerHeartbeatResponse(0, is_fenced=False))
        return self._end(image, broker)

    def _end(self, image: MetadataImage, broker: BrokerRegistration) -> Decision:
        """The node may end now. Its next process need not wait until this session runs out."""
        records = self._fencing(image, broker, "its controlled shutdown is complete")
        self.sessions.forget(broker.node_id)
        return Decision(tuple(records), BrokerHeartbeatResponse(0, is_fenced=True, should_shutdown=True))

    def _disk_news(self, image: MetadataImage, before: BrokerRegistration) -> Iterator[PartitionChangeRecord]:
        """What changes because disks of the node failed since `before`, or came back."""
        if before.is_fenced:
            return
        node_id, standing = before.node_id, self.standing(image)
        broken, now = (
            frozenset(before.offline_replicas),
            standing.offline_replicas.get(before.node_id, frozenset()),
        )
        yield from changes_of(standing, DISK_FAILED, node_id, now - broken)
        yield from changes_of(standing, UNFENCED, node_id, broken - now)

    def decide_drain(self, image: MetadataImage, request: DrainNodeRequest) -> Decision:
        """Hand over what the node leads and keep it out of ISRs where others stay, or take that back. Safe to
        repeat: what could not be moved before is tried again. Errors: BrokerIdNotRegisteredError."""
        broker = image.brokers.get(request.node_id)
        if broker is None:
            raise BrokerIdNotRegisteredError(f"node {request.node_id} is not registered")
        node_id = broker.node_id
        moved: list[PartitionChangeRecord] = []
        if not broker.is_fenced:
            standing, reason = self.standing(image).including(node_id), UNFENCED
            if request.is_drained:
                standing, reason = self.standing(image, drained=node_id), DRAINED
            moved = list(changes(standing, reason, node_id))
        records = (*_flagged(broker, in_controlled_shutdown=request.is_drained), *moved)
        left = led_by(image, node_id) + sum(_gain(image, node_id, change) for change in moved)
        below, topics = below_min_isr(self.standing(image), node_id, moved) if request.is_drained else (0, ())
        if records:
            what = "draining" if request.is_drained else "ending the drain of"
            self.notes.moved(image, f"{what} {named(broker)}", records)
        if records and below:
            self.notes.say(stops_acks_all(named(broker), below, topics), is_warning=True)
        reply = DrainNodeResponse(0, "", left, image.offset + len(records), below, topics)
        return Decision(records, reply)

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
                f"node {broker.node_id} holds replicas of {held} partitions; reassign them first"
            )
        self.sessions.forget(broker.node_id)
        self.notes.say(f"unregistering {named(broker)}")
        return Decision((move(broker, BrokerEvent.UNREGISTERED),), UnregisterBrokerResponse(0))

    def note_ended(self, image: MetadataImage, incarnation_ids: Set[bytes]) -> None:
        """These processes have ended: whatever they registered is not waited for any longer. A process that
        was declared dead and lives comes back with its next heartbeat."""
        for node_id, broker in image.brokers.items():
            if broker.incarnation_id in incarnation_ids:
                self.sessions.end(node_id)

    def decide_expiry(self, image: MetadataImage, now_ms: int) -> tuple[MetadataRecord, ...]:
        """Fence one node whose session ran out, and forget the sessions of fenced ones. Call until empty."""
        for node_id in self.sessions.expired(now_ms):
            broker, silence = image.brokers.get(node_id), self.sessions.silence(node_id, now_ms)
            self.sessions.run_out(node_id)
            if broker is not None and not broker.is_fenced and silence is not None:
                return tuple(self._fencing(image, broker, why_silent(silence), is_warning=True))
        return ()

    def note_disconnected(self, image: MetadataImage, node_id: int, broker_epoch: int, now_ms: int) -> None:
        """The connection on which this registration of the node sent its heartbeats has ended."""
        broker = image.brokers.get(node_id)
        if broker is not None and broker.broker_epoch == broker_epoch:
            self.sessions.disconnected(node_id, now_ms)

    def standing(self, image: MetadataImage, drained: int = NO_NODE) -> Standing:
        """How the nodes stand now; `drained` is one that will not get leadership any more."""
        sessions = self.sessions
        active = active_nodes(image) - {drained}
        return Standing(
            image,
            self.config,
            active,
            {
                node: frozenset(at.offline_replicas)
                for node, at in image.brokers.items()
                if at.offline_replicas
            },
            sessions.full_replicas,
            cordoned=sessions.cordoned,
        )

    def _fencing(
        self, image: MetadataImage, broker: BrokerRegistration, why: str, *, is_warning: bool = False
    ) -> list[MetadataRecord]:
        if broker.is_fenced:
            return []
        records = self._leaving(image, broker, FENCED)
        self.notes.moved(image, f"fencing {named(broker)}: {why}", records, is_warning=is_warning)
        return records

    def _ended(
        self, image: MetadataImage, before: BrokerRegistration, request: BrokerRegistrationRequest
    ) -> list[MetadataRecord]:
        """The process before is gone. If it did not end in order, records that it had may be gone as well;
        else only those of the logs that were cut or removed since. One that never heard its epoch has written
        nothing under it, and hands on the one that was handed to it."""
        ended_in_order = {before.broker_epoch, before.previous_epoch} - {-1}
        if request.previous_broker_epoch not in ended_in_order:
            return self._leaving(image, before, LOST_RECORDS)
        lost = lost_keys(image, request)
        if before.is_fenced:
            return [*changes_of(self.standing(image), LOST_RECORDS, before.node_id, lost)]
        return self._leaving(image, before, FENCED, lost)

    def _leaving(
        self,
        image: MetadataImage,
        broker: BrokerRegistration,
        reason: Reason,
        lost: frozenset[ReplicaKey] = frozenset(),
    ) -> list[MetadataRecord]:
        node_id = broker.node_id
        records: list[MetadataRecord] = []
        if not broker.is_fenced:
            records.append(move(broker, BrokerEvent.FENCED))
        records.extend(changes(self.standing(image).without(node_id), reason, node_id, lost))
        return records

    def _unfencing(self, image: MetadataImage, broker: BrokerRegistration) -> list[MetadataRecord]:
        node_id, is_drained = broker.node_id, broker.in_controlled_shutdown
        event = BrokerEvent.CAUGHT_UP_DRAINED if is_drained else BrokerEvent.CAUGHT_UP
        records: list[MetadataRecord] = [move(broker, event)]
        records.extend(changes(self.standing(image).including(node_id), UNFENCED, node_id))
        drained = ", still drained" if is_drained else ""
        self.notes.moved(image, f"unfencing {named(broker)}{drained}", records)
        return records


def _process_before(before: BrokerRegistration | None, request: BrokerRegistrationRequest) -> str:
    if before is None:
        return "the first process of this node"
    if before.incarnation_id == request.incarnation_id:
        return "the same process with other facts"
    if request.previous_broker_epoch in {before.broker_epoch, before.previous_epoch} - {-1}:
        return f"whose process before, epoch {before.broker_epoch}, ended in order"
    return f"whose process before, epoch {before.broker_epoch}, ended without a controlled shutdown"


def _with_disks(
    image: MetadataImage, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> tuple[MetadataImage, list[MetadataRecord]]:
    """The image as it will be, and the record of which replicas of the node are in log dirs that failed, if
    that is news."""
    now = tuple(sorted({*request.offline_replicas}))
    if now == broker.offline_replicas:
        return image, []
    record = BrokerRegistrationChangeRecord(broker.node_id, broker.broker_epoch, offline_replicas=now)
    changed = {**image.brokers, broker.node_id: replace(broker, offline_replicas=now)}
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


def _gain(image: MetadataImage, node_id: int, change: PartitionChangeRecord) -> int:
    """1 if the change gives the node a leadership, -1 if it takes one, else 0."""
    if change.leader is None:
        return 0
    before = image.topics[image.topic_names[change.topic_id]].partitions[change.partition].leader
    return (change.leader == node_id) - (before == node_id)


def _flagged(broker: BrokerRegistration, *, in_controlled_shutdown: bool) -> list[MetadataRecord]:
    """The record that the node is or is not on its way out, if that is news."""
    if broker.in_controlled_shutdown == in_controlled_shutdown:
        return []
    if not broker.is_fenced:
        return [move(broker, BrokerEvent.SHUTDOWN_BEGUN if in_controlled_shutdown else BrokerEvent.RESUMED)]
    # It stays fenced; the flag counts when it has caught up: CAUGHT_UP_DRAINED.
    return [
        BrokerRegistrationChangeRecord(
            broker.node_id, broker.broker_epoch, in_controlled_shutdown=in_controlled_shutdown
        )
    ]
