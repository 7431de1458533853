"""What an instance says of its threads, tasks and stores. Pure.

Source: Kafka ThreadMetadata.java, TaskMetadata.java, LagInfo.java.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..records import TaskId
    from ..task.states import TaskState
    from ..task.task import CommitOffset, Task


class ThreadState(Enum):
    """The life of a stream thread. STARTING: it joins its group; PARTITIONS_ASSIGNED: its tasks are opened
    and restored."""

    CREATED = "CREATED"
    STARTING = "STARTING"
    PARTITIONS_REVOKED = "PARTITIONS_REVOKED"
    PARTITIONS_ASSIGNED = "PARTITIONS_ASSIGNED"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    DEAD = "DEAD"


class TaskMetadata(NamedTuple):
    """A task. `committed`: the next offset of each input partition, absent until it is known."""

    id: TaskId
    state: TaskState
    partitions: tuple[TopicPartition, ...]
    committed: Mapping[TopicPartition, int]


class ThreadMetadata(NamedTuple):
    """A stream thread with its active and its standby tasks, by id; standby tasks have no `committed`."""

    name: str
    state: ThreadState
    tasks: tuple[TaskMetadata, ...]
    standby_tasks: tuple[TaskMetadata, ...] = ()


class LagInfo(NamedTuple):
    """How complete a store is: the next offset to restore, the end of its changelog, and their distance."""

    current: int
    end: int
    lag: int


def described(
    tasks: Iterable[Task], committed: Mapping[TopicPartition, CommitOffset]
) -> tuple[TaskMetadata, ...]:
    """The tasks, by id."""
    return tuple(
        TaskMetadata(
            task.id,
            task.state,
            task.partitions,
            {tp: committed[tp].offset for tp in task.partitions if tp in committed},
        )
        for task in sorted(tasks, key=lambda task: task.id)
    )


def changelogs_of(tasks: Iterable[Task]) -> list[tuple[str, TopicPartition]]:
    """The stores of these tasks that have changelogs, each with its partition."""
    return [
        (store, TopicPartition(topic, task.id.partition))
        for task in tasks
        for store, topic in task.topology.changelogs.items()
        if store in task.stores
    ]
