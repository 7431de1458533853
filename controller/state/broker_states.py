"""The states of a node id, as the controller holds them, and the records that move it between them. Pure.

The table decides: `move` makes the record of the state that the table gives, and nothing else makes one, but
for a drain that is noted at a fenced node. Source: Kafka ClusterControlManager.java and
BrokerHeartbeatManager.java.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ...protocol.metadata.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from ...protocol.metadata.image import BrokerRegistration, MetadataImage
    from ...protocol.metadata.records import MetadataRecord


class BrokerState(Enum):
    """What the controller holds of a node id."""

    UNREGISTERED = "unregistered"
    FENCED = "fenced"
    ACTIVE = "active"
    SHUTTING_DOWN = "shutting_down"


class BrokerEvent(Enum):
    """What may move a node from one state to another."""

    REGISTERED = "registered"
    CAUGHT_UP = "caught up with the metadata log"
    CAUGHT_UP_DRAINED = "caught up, still drained"
    SHUTDOWN_BEGUN = "asked to shut down, or drained"
    RESUMED = "drain taken back"
    FENCED = "fenced: session expired, requested by the node, shut down, or registered again"
    UNREGISTERED = "removed for good"


TRANSITIONS: dict[BrokerState, dict[BrokerEvent, BrokerState]] = {
    BrokerState.UNREGISTERED: {BrokerEvent.REGISTERED: BrokerState.FENCED},
    BrokerState.FENCED: {
        BrokerEvent.REGISTERED: BrokerState.FENCED,
        BrokerEvent.CAUGHT_UP: BrokerState.ACTIVE,
        BrokerEvent.CAUGHT_UP_DRAINED: BrokerState.SHUTTING_DOWN,
        BrokerEvent.UNREGISTERED: BrokerState.UNREGISTERED,
    },
    BrokerState.ACTIVE: {
        BrokerEvent.SHUTDOWN_BEGUN: BrokerState.SHUTTING_DOWN,
        BrokerEvent.FENCED: BrokerState.FENCED,
    },
    BrokerState.SHUTTING_DOWN: {
        BrokerEvent.RESUMED: BrokerState.ACTIVE,
        BrokerEvent.FENCED: BrokerState.FENCED,
    },
}


def state_of(image: MetadataImage, node_id: int) -> BrokerState:
    """The state that the image gives a node id."""
    broker = image.brokers.get(node_id)
    return BrokerState.UNREGISTERED if broker is None else _state_of(broker)


def _state_of(broker: BrokerRegistration) -> BrokerState:
    if broker.is_fenced:
        return BrokerState.FENCED
    return BrokerState.SHUTTING_DOWN if broker.in_controlled_shutdown else BrokerState.ACTIVE


def next_state(state: BrokerState, event: BrokerEvent) -> BrokerState:
    """Where `event` leads from `state`. Errors: AssertionError if the table does not allow it: a bug."""
    assert event in TRANSITIONS[state], f"{event} is not possible in state {state}"
    return TRANSITIONS[state][event]


def move(broker: BrokerRegistration, event: BrokerEvent) -> MetadataRecord:
    """The record by which `event` brings a registered node into its next state. Errors: as `next_state`."""
    before = _state_of(broker)
    after = next_state(before, event)
    node_id, epoch = broker.node_id, broker.broker_epoch
    if after is BrokerState.UNREGISTERED:
        return UnregisterBrokerRecord(node_id, epoch)
    if after is BrokerState.FENCED:
        return FenceBrokerRecord(node_id, epoch)
    if before is BrokerState.FENCED:
        return UnfenceBrokerRecord(node_id, epoch)
    is_leaving = after is BrokerState.SHUTTING_DOWN
    return BrokerRegistrationChangeRecord(node_id, epoch, in_controlled_shutdown=is_leaving)
