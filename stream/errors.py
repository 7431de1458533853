"""The errors of streams applications."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocol.errors import HeadraceError

if TYPE_CHECKING:
    from .records import TaskId


def is_retriable(error: BaseException) -> bool:
    """Whether the same call may succeed later: a timeout, or an error that its class says so of."""
    return isinstance(error, TimeoutError) or bool(getattr(error, "retriable", False))


class StreamsError(HeadraceError):
    """A streams application cannot go on."""


class StateDirectoryError(StreamsError):
    """The folder of the stores cannot be used: another process has it, or it cannot be written."""

    log_level = logging.INFO  # of a task that waits


class SnapshotLoadingError(StateDirectoryError):
    """The stores of a task are being loaded from a snapshot: the task waits."""

    log_level = logging.DEBUG


class WorkersError(StreamsError):
    """Workers on Ray: no Ray runs, there is no such application, or it was ended by an error."""


class InternalTopicError(StreamsError):
    """Topics are not co-partitioned, or an internal topic cannot be created or does not fit."""


class MissingSourceTopicError(InternalTopicError):
    """A source topic that the topology names does not exist, or was deleted while the application runs."""


class ProcessingError(StreamsError):
    """A processor failed on a record, or on a batch up to `last_offset`. The cause is the exception of the
    processor."""

    def __init__(
        self, task_id: str, processor: str, topic: str, partition: int, offset: int, last_offset: int = -1
    ) -> None:
        self.task_id = task_id
        self.processor = processor
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.last_offset = max(last_offset, offset)
        offsets = f"offset {offset}" if self.last_offset == offset else f"offsets {offset} to {last_offset}"
        super().__init__(
            f"processor {processor} of task {task_id} failed on {offsets} of {topic}-{partition}"
        )

    def __reduce__(self) -> tuple[type[ProcessingError], tuple[str, str, str, int, int, int]]:
        return (
            type(self),
            (self.task_id, self.processor, self.topic, self.partition, self.offset, self.last_offset),
        )


class ProcessorFailedError(StreamsError):
    """Inside a task: the processing handler decided to fail. The cause is the exception of the processor.

    `offsets`: topic, partition, first and last offset of a batch.
    """

    def __init__(self, processor: str) -> None:
        self.processor = processor
        self.offsets: tuple[str, int, int, int] | None = None
        super().__init__(f"processor {processor} failed")

    def __reduce__(self) -> tuple[type[ProcessorFailedError], tuple[str]]:
        return type(self), (self.processor,)


class IncompatibleTopologyError(StreamsError):
    """The topology differs from that of the running or stopped application in a way that needs a decision.
    The text has the differences and the ways out."""


class TaskMigratedError(StreamsError):
    """Another member of the group has tasks of this thread: the thread drops them and joins again."""


class TaskTimeoutError(StreamsError):
    """A task made no progress for task.timeout.ms. The cause is the last of its retriable errors."""


@dataclass(eq=False)
class TaskRetryError(StreamsError):
    """A retriable error: the task is processed again from its last commit, up to task.timeout.ms."""

    task_id: TaskId | None = None


@dataclass(eq=False)
class TaskCorruptedError(StreamsError):
    """The stores of a task are damaged, or do not fit their changelogs: they are deleted and restored."""

    task_id: TaskId | None = None
