"""Tasks of streams groups, and their forms in records and messages. Pure.

A task is a subtopology and a partition. A member has it in one role: as the active task, which processes
records, or as a standby or warm-up task, which only restore its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.streams_group_records import TaskIds

if TYPE_CHECKING:
    from collections.abc import Iterator

Task = tuple[str, int]  # subtopology id, partition


class Role(Enum):
    """The role of a member's task."""

    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


Tasks = Mapping[Task, Role]
NO_TASKS: Tasks = {}


class TasksByRole(NamedTuple):
    """Tasks in the form of records and messages, sorted."""

    active: tuple[TaskIds, ...]
    standby: tuple[TaskIds, ...]
    warmup: tuple[TaskIds, ...]


def by_role(tasks: Tasks, since: Mapping[Task, int] | None = None) -> TasksByRole:
    """The form in records and messages. `since`: the member epoch of each active task, for records."""
    return TasksByRole(
        _task_ids((task for task, role in tasks.items() if role is Role.ACTIVE), since),
        *(_task_ids((task for task in tasks if tasks[task] is role), None) for role in _RESTORING),
    )


_RESTORING = (Role.STANDBY, Role.WARMUP)


def _task_ids(tasks: Iterable[Task], since: Mapping[Task, int] | None) -> tuple[TaskIds, ...]:
    partitions: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        partitions.setdefault(subtopology_id, []).append(partition)
    return tuple(
        TaskIds(subtopology_id, tuple(each), _epochs(subtopology_id, each, since or {}))
        for subtopology_id, each in partitions.items()
    )


def _epochs(subtopology_id: str, partitions: list[int], since: Mapping[Task, int]) -> tuple[int, ...] | None:
    """The epoch of each task; None unless all are known."""
    known = [since[subtopology_id, each] for each in partitions if (subtopology_id, each) in since]
    return tuple(known) if len(known) == len(partitions) else None


def from_roles(
    active: Iterable[TaskIds], standby: Iterable[TaskIds], warmup: Iterable[TaskIds]
) -> dict[Task, Role]:
    """The tasks in a record or message. Of a task in two roles the first role counts."""
    tasks: dict[Task, Role] = {}
    for role, some in zip(Role, (active, standby, warmup), strict=True):
        for task in each_task(some):
            tasks.setdefault(task, role)
    return tasks


def each_task(tasks: Iterable[TaskIds]) -> Iterator[Task]:
    """A (subtopology, partition) pair for each partition of each entry."""
    return ((each.subtopology_id, partition) for each in tasks for partition in each.partitions)


def epochs_in(tasks: Iterable[TaskIds]) -> dict[Task, int]:
    """The assignment epochs in records, where present."""
    return {
        (each.subtopology_id, partition): epoch
        for each in tasks
        for partition, epoch in zip(each.partitions, each.epochs or (), strict=False)
    }
