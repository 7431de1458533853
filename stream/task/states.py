"""The states of a task."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class TaskState(Enum):
    """The life of a task."""

    CREATED = "created"
    RESTORING = "restoring"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CLOSED = "closed"


TRANSITIONS: Mapping[TaskState, tuple[TaskState, ...]] = {
    TaskState.CREATED: (TaskState.RESTORING, TaskState.SUSPENDED),
    TaskState.RESTORING: (TaskState.RUNNING, TaskState.SUSPENDED),
    TaskState.RUNNING: (TaskState.SUSPENDED,),
    TaskState.SUSPENDED: (TaskState.RESTORING, TaskState.CLOSED),
    TaskState.CLOSED: (),
}
