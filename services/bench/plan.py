"""The settings of a benchmark, as values that are sent to its worker processes. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .payloads import Payload

SendApi = Literal["send", "send-many", "arrow"]
ReadApi = Literal["poll", "iterate", "batches", "arrow"]
SEND_APIS: tuple[SendApi, ...] = ("send", "send-many", "arrow")
READ_APIS: tuple[ReadApi, ...] = ("poll", "iterate", "batches", "arrow")

DEFAULT_RECORDS = 1_000_000


def share(total: int, index: int, workers: int) -> int:
    """The number of records that worker `index` of `workers` handles: those whose number modulo `workers` is
    `index`."""
    return (total - index + workers - 1) // workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The topic, and the connection settings of clients."""

    bootstrap: str | None
    config: dict[str, str] = field(default_factory=dict)
    topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPlan:
    """What all sending processes together send.

    `throughput` is records/s of all processes together, None for unlimited. The run also ends after
    `duration_s`. `warmup` records are sent and acknowledged before the measurement. `stamp`, the number of
    the run, marks records for the end-to-end measurement, which ignores the first `warmup` of `records`.
    """

    target: Target
    payload: Payload
    api: SendApi = "send"
    workers: int = 1
    records: int | None = DEFAULT_RECORDS
    duration_s: float | None = None
    throughput: float | None = None
    warmup: int = 0
    chunk: int = 500
    stamp: int | None = None

    def count(self, index: int) -> int | None:
        """Records of worker `index`; None: until `duration_s` has passed."""
        total = self.records
        if self.duration_s is not None and self.throughput is not None:
            # the schedule ends at the duration; a late worker still sends all of its records
            timed = max(int(self.duration_s * self.throughput), 1)
            total = timed if total is None else min(total, timed)
        return None if total is None else share(total, index, self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What all reading processes together read; partitions are assigned round-robin.

    The run ends after `timeout_s` without a record; `max_records` per poll.
    """

    target: Target
    partitions: int
    api: ReadApi = "poll"
    workers: int = 1
    from_end: bool = False
    max_records: int = 5000
    timeout_s: float = 10.0

    def partitions_of(self, index: int) -> range:
        """The partition numbers of worker `index`."""
        return range(index, self.partitions, self.workers)
