"""Fencing and unfencing of storage nodes, with the changes of leaders and ISRs that follow. Pure.

A registration, its broker epoch and whether it is fenced are in the image and change by records only.
Sessions and the reports of heartbeats are soft state, in `Sessions`. Invariant: a fenced node leads nothing.
Source: Kafka ClusterControlManager.java, BrokerHeartbeatManager.java; KIP-966 for restarts that lost records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.model import NO_NODE
from .broker_states import BrokerEvent, move
from .cluster_state import ClusterState, ReplicaKey, active_nodes
from .leader_and_isr import FENCED, LOST_RECORDS, UNFENCED, Reason, changes, changes_of
from .node_notes import NodeNotes, named, why_expired

if TYPE_CHECKING:
    from collections.abc import Set

    from ...protocol.metadata.image import BrokerRegistration, MetadataImage
    from ...protocol.metadata.records import MetadataRecord
    from ..config import ControllerConfig
    from .sessions import Sessions


@dataclass(slots=True)
class Fencing:
    """The sessions of nodes, and the records that fence and unfence them. `config` is replaced when it
    changes."""

    config: ControllerConfig
    sessions: Sessions
    notes: NodeNotes = field(default_factory=NodeNotes)
    timed_out: int = 0  # nodes that were fenced because no heartbeat came in time

    def cluster(self, image: MetadataImage, drained: int = NO_NODE) -> ClusterState:
        """The state of the cluster; `drained` is a node that may not lead any more."""
        sessions = self.sessions
        return ClusterState(
            image,
            self.config,
            active_nodes(image) - {drained},
            {
                node: frozenset(broker.offline_replicas)
                for node, broker in image.brokers.items()
                if broker.offline_replicas
            },
            sessions.full_replicas,
            cordoned=sessions.cordoned,
        )

    def fence(
        self, image: MetadataImage, broker: BrokerRegistration, why: str, *, is_warning: bool = False
    ) -> list[MetadataRecord]:
        """Fence the node and elect other leaders; nothing if it is fenced."""
        if broker.is_fenced:
            return []
        records = self._removed(image, broker, FENCED)
        self.notes.moved(image, f"fencing {named(broker)}: {why}", records, is_warning=is_warning)
        return records

    def unfence(self, image: MetadataImage, broker: BrokerRegistration) -> list[MetadataRecord]:
        """Unfence the node, and elect leaders for the partitions without one."""
        node_id, is_drained = broker.node_id, broker.in_controlled_shutdown
        event = BrokerEvent.CAUGHT_UP_DRAINED if is_drained else BrokerEvent.CAUGHT_UP
        records: list[MetadataRecord] = [move(broker, event)]
        records.extend(changes(self.cluster(image).including(node_id), UNFENCED, node_id))
        drained = ", still drained" if is_drained else ""
        self.notes.moved(image, f"unfencing {named(broker)}{drained}", records)
        return records

    def fence_replaced(
        self,
        image: MetadataImage,
        before: BrokerRegistration,
        previous_epoch: int,
        lost: frozenset[ReplicaKey],
    ) -> list[MetadataRecord]:
        """Fence the registration that another process of the node replaces.

        `previous_epoch` is the broker epoch of the node's last clean shutdown, -1 for none. After an unclean
        shutdown the node may have lost records in every log; after a clean one only in `lost`, the logs that
        were truncated or removed since. A process that never learned its own epoch has written nothing under
        it, and reports the epoch before.
        """
        clean_epochs = {before.broker_epoch, before.previous_epoch} - {-1}
        if previous_epoch not in clean_epochs:
            return self._removed(image, before, LOST_RECORDS)
        if before.is_fenced:
            return [*changes_of(self.cluster(image), LOST_RECORDS, before.node_id, lost)]
        return self._removed(image, before, FENCED, lost)

    def decide_expiry(self, image: MetadataImage, now_ms: int) -> tuple[MetadataRecord, ...]:
        """Fence one node whose session expired, and drop expired sessions of fenced nodes. Call until
        empty."""
        for node_id in self.sessions.expired(now_ms):
            broker, expiry = image.brokers.get(node_id), self.sessions.expiry(node_id, now_ms)
            self.sessions.expire(node_id)
            if broker is not None and not broker.is_fenced and expiry is not None:
                self.timed_out += not expiry.is_reported_dead
                return tuple(self.fence(image, broker, why_expired(expiry), is_warning=True))
        return ()

    def note_ended(self, image: MetadataImage, incarnation_ids: Set[bytes]) -> None:
        """Expire the sessions of processes that have ended. A process that was reported dead and is alive is
        unfenced by its next heartbeat."""
        for node_id, broker in image.brokers.items():
            if broker.incarnation_id in incarnation_ids:
                self.sessions.end(node_id)

    def note_disconnected(self, image: MetadataImage, node_id: int, broker_epoch: int, now_ms: int) -> None:
        """The connection on which this registration sent its heartbeats has closed."""
        broker = image.brokers.get(node_id)
        if broker is not None and broker.broker_epoch == broker_epoch:
            self.sessions.disconnected(node_id, now_ms)

    def _removed(
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
        records.extend(changes(self.cluster(image).without(node_id), reason, node_id, lost))
        return records
