"""The states of a node id at the controller, and the records that change them. Pure.

All such records are made here, by `move`, from the table; the one exception is `shutdown_flag` of a fenced
node. Source: Kafka ClusterControlManager.java and
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
    """The state of a node id."""

    UNREGISTERED = "unregistered"
    FENCED = "fenced"
    ACTIVE = "active"
    SHUTTING_DOWN = "shutting_down"


class BrokerEvent(Enum):
    """Events that change the state of a node."""

    REGISTERED = "registered"
    CAUGHT_UP = "caught up with the metadata log"
    CAUGHT_UP_DRAINED = "caught up, still drained"
    SHUTDOWN_BEGUN = "controlled shutdown requested, or drained"
    RESUMED = "drain ended"
    FENCED = "fenced: session expired, requested by the node, shut down, or registered again"
    UNREGISTERED = "unregistered"


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
    """The state of a node id in the image."""
    broker = image.brokers.get(node_id)
    return BrokerState.UNREGISTERED if broker is None else _state_of(broker)


def _state_of(broker: BrokerRegistration) -> BrokerState:
    if broker.is_fenced:
        return BrokerState.FENCED
    return BrokerState.SHUTTING_DOWN if broker.in_controlled_shutdown else BrokerState.ACTIVE


def next_state(state: BrokerState, event: BrokerEvent) -> BrokerState:
    """The state after `event`. Errors: AssertionError if the table does not allow it."""
    assert event in TRANSITIONS[state], f"{event} is not possible in state {state}"
    return TRANSITIONS[state][event]


def move(broker: BrokerRegistration, event: BrokerEvent) -> MetadataRecord:
    """The record of `event` for a registered node. Errors: as `next_state`."""
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


def shutdown_flag(broker: BrokerRegistration, *, in_controlled_shutdown: bool) -> list[MetadataRecord]:
    """The record that begins or ends a controlled shutdown or drain, if that changes anything."""
    if broker.in_controlled_shutdown == in_controlled_shutdown:
        return []
    if not broker.is_fenced:
        return [move(broker, BrokerEvent.SHUTDOWN_BEGUN if in_controlled_shutdown else BrokerEvent.RESUMED)]
    # The node stays fenced; the flag decides between CAUGHT_UP and CAUGHT_UP_DRAINED later.
    return [
        BrokerRegistrationChangeRecord(
            broker.node_id, broker.broker_epoch, in_controlled_shutdown=in_controlled_shutdown
        )
    ]
