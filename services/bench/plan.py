"""What a benchmark is asked to do, as values that travel to its worker processes. Pure."""

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
    """How many of `total` records worker `index` of `workers` takes: those whose number modulo `workers` is
    its own."""
    return (total - index + workers - 1) // workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to: the topic, and how clients connect."""

    bootstrap: str | None
    config: dict[str, str] = field(default_factory=dict)
    topic: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPlan:
    """What is sent, by how many processes together.

    `throughput` (records/s, all processes together) None: as fast as it goes. `duration_s` ends it too.
    `warmup` records are sent and acknowledged before the clock starts. `stamp`, the number of the run, marks
    the records for the end-to-end measurement; the first `warmup` of `records` are not measured there.
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
        """Records of worker `index`, None: until the time is over."""
        total = self.records
        if self.duration_s is not None and self.throughput is not None:
            # the schedule ends at the duration; whoever lags behind still sends all of it
            timed = max(int(self.duration_s * self.throughput), 1)
            total = timed if total is None else min(total, timed)
        return None if total is None else share(total, index, self.workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What is read, by how many processes together; partitions are dealt out to them in turn.

    `timeout_s` without any record ends it; `max_records` are taken at a time.
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
