"""The states of an instance of an application, as Kafka Streams has them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class InstanceState(Enum):
    """The life of an instance. RUNNING: all of its tasks process records."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


INSTANCE_TRANSITIONS: Mapping[InstanceState, tuple[InstanceState, ...]] = {
    InstanceState.CREATED: (InstanceState.REBALANCING, InstanceState.PENDING_SHUTDOWN),
    InstanceState.REBALANCING: (
        InstanceState.RUNNING,
        InstanceState.PENDING_SHUTDOWN,
        InstanceState.PENDING_ERROR,
    ),
    InstanceState.RUNNING: (
        InstanceState.REBALANCING,
        InstanceState.PENDING_SHUTDOWN,
        InstanceState.PENDING_ERROR,
    ),
    InstanceState.PENDING_SHUTDOWN: (InstanceState.NOT_RUNNING,),
    InstanceState.PENDING_ERROR: (InstanceState.ERROR,),
    InstanceState.NOT_RUNNING: (),
    InstanceState.ERROR: (),
}
