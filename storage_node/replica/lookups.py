"""What ListOffsets and CountRecords share: a leader responds from its log, at once where nothing must be
read, otherwise after work on the thread of lookups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptMessageError, KafkaStorageError
from ...runtime.files.file_layer import FileGoneError

if TYPE_CHECKING:
    from ...protocol.errors import KafkaError
    from ...protocol.transport.replies import Replies
    from .disk_failures import DiskFailures
    from .partition import Partition
    from .partition_table import PartitionTable
    from .step_output import StepOutput


@dataclass(eq=False)
class LookupHandler:
    """Base of the handlers. `_running`: requests whose work is not done."""

    _table: PartitionTable
    _disks: DiskFailures
    _output: StepOutput
    _replies: Replies
    max_partitions: int
    _running: int = field(default=0, init=False)

    def _report(self, partition: Partition, error: KafkaError, now_ms: int) -> None:
        """The work on the log of a partition failed: a failed disk takes its log dir offline."""
        if isinstance(error, FileGoneError):
            return  # the segment was deleted meanwhile: the client retries
        if isinstance(error, KafkaStorageError):
            self._disks.failed(partition, error, now_ms)
        elif isinstance(error, CorruptMessageError):
            self._disks.found_damage(partition, error)
