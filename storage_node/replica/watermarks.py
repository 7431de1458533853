"""Up to which offset a leader responds to readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import OffsetNotAvailableError
from ...protocol.model import READ_COMMITTED

if TYPE_CHECKING:
    from ..log.log import Log
    from .partition import Partition


def readable_end(partition: Partition, log: Log, isolation: int) -> int:
    """The end of what readers with an isolation level receive, exclusive."""
    return log.last_stable_offset if isolation == READ_COMMITTED else partition.high_watermark


def check_watermark(partition: Partition) -> None:
    """Errors: OffsetNotAvailableError while the previous leader may have returned offsets above the high
    watermark: a response now could go back (KIP-207)."""
    if partition.high_watermark < partition.epoch_start_offset:
        raise OffsetNotAvailableError(
            f"{partition.topic_partition}: high watermark {partition.high_watermark} is below the start"
            f" {partition.epoch_start_offset} of its leader epoch"
        )
