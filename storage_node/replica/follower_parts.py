"""What all fetchers of a node are given: their limits, and the parts of the node that they use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..configs.node_config import NodeConfig
    from ..counters import NodeCounters
    from .batch_traces import BatchTraces
    from .disk_failures import DiskFailures
    from .flush_scheduler import FlushScheduler
    from .log_starts import LogStarts
    from .moves import Moves
    from .partition_table import PartitionTable
    from .step_output import StepOutput
    from .throttle import Throttle


@dataclass(frozen=True, slots=True)
class FollowerLimits:
    """Sizes in bytes, times in ms; the keys replica.fetch.* of the config."""

    max_bytes: int
    response_max_bytes: int
    min_bytes: int
    wait_max_ms: int
    backoff_ms: int
    backoff_max_ms: int

    @classmethod
    def of(cls, config: NodeConfig) -> FollowerLimits:
        """As the node's configuration has them."""
        return cls(
            max_bytes=config.replica_fetch_max_bytes,
            response_max_bytes=config.replica_fetch_response_max_bytes,
            min_bytes=config.replica_fetch_min_bytes,
            wait_max_ms=config.replica_fetch_wait_max_ms,
            backoff_ms=config.replica_fetch_backoff_ms,
            backoff_max_ms=config.replica_fetch_backoff_max_ms,
        )

    def backoff_after(self, failures: int) -> int:
        """The pause after so many failures in a row."""
        return min(self.backoff_ms << min(failures - 1, 16), self.backoff_max_ms)


@dataclass(frozen=True, slots=True)
class FollowerParts:
    """The parts of the node that a fetcher uses. `throttle` limits what throttled followers fetch."""

    table: PartitionTable
    output: StepOutput
    disks: DiskFailures
    flushes: FlushScheduler
    log_starts: LogStarts
    moves: Moves
    throttle: Throttle
    counters: NodeCounters
    traces: BatchTraces | None = None
