"""The errors of streams applications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocol.errors import HeadraceError

if TYPE_CHECKING:
    from .processing import TaskId


class StreamsError(HeadraceError):
    """A streams application cannot go on."""


class StateDirectoryError(StreamsError):
    """The folder of the stores cannot be used: another process has it, or it cannot be written."""


class InternalTopicError(StreamsError):
    """A source topic is missing, topics are not co-partitioned, or an internal topic does not fit."""


class ProcessingError(StreamsError):
    """A processor failed on a record. The cause is the exception of the processor."""

    def __init__(self, task_id: str, processor: str, topic: str, partition: int, offset: int) -> None:
        self.task_id = task_id
        self.processor = processor
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"processor {processor} of task {task_id} failed on offset {offset} of {topic}-{partition}"
        )

    def __reduce__(self) -> tuple[type[ProcessingError], tuple[str, str, str, int, int]]:
        return type(self), (self.task_id, self.processor, self.topic, self.partition, self.offset)


class ProcessorFailedError(StreamsError):
    """Inside a task: the processing handler decided to fail. The cause is the exception of the processor."""

    def __init__(self, processor: str) -> None:
        self.processor = processor
        super().__init__(f"processor {processor} failed")


class TaskMigratedError(StreamsError):
    """Another member of the group has tasks of this thread: the thread drops them and joins again."""


@dataclass(eq=False)
class TaskCorruptedError(StreamsError):
    """The stores of a task are damaged, or do not fit their changelogs: they are deleted and restored."""

    task_id: TaskId | None = None
