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


INSTANCE_TRANSITIONS: Mapping[InstanceState, Mapping[InstanceState, str]] = {
    InstanceState.CREATED: {
        InstanceState.REBALANCING: "start",
        InstanceState.PENDING_SHUTDOWN: "close",
    },
    InstanceState.REBALANCING: {
        InstanceState.RUNNING: "all tasks are restored",
        InstanceState.PENDING_SHUTDOWN: "close",
        InstanceState.PENDING_ERROR: "a thread failed",
    },
    InstanceState.RUNNING: {
        InstanceState.REBALANCING: "tasks were assigned",
        InstanceState.PENDING_SHUTDOWN: "close",
        InstanceState.PENDING_ERROR: "a thread failed",
    },
    InstanceState.PENDING_SHUTDOWN: {InstanceState.NOT_RUNNING: "all threads have ended"},
    InstanceState.PENDING_ERROR: {InstanceState.ERROR: "all threads have ended"},
    InstanceState.NOT_RUNNING: {},
    InstanceState.ERROR: {},
}
