"""What each replica of a partition without a leader would lose if it were elected. Pure.

Two logs have the same records up to the first offset that different leader epochs wrote, or that one of them
lacks: one leader wrote all records of an epoch. The others truncate to that offset when they follow the
elected one. Source: KIP-101, KIP-966, KIP-1275.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NO_EPOCH = -1

Span = tuple[int, int, int]  # leader epoch, first offset, exclusive end


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """The log of one replica that answered. `epochs`: pairs of a leader epoch and the first offset written in
    it, rising."""

    node_id: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]
    size_bytes: int = 0
    last_timestamp_ms: int = -1

    @property
    def latest_epoch(self) -> int:
        """The epoch that wrote the last record; -1 without one."""
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote the record."""
        number = bisect_right(self.epochs, offset, key=lambda entry: entry[1]) - 1
        return self.epochs[number][0] if number >= 0 else NO_EPOCH

    def spans(self, start: int) -> Iterator[Span]:
        """The parts of the log from `start` on, by leader epoch."""
        at = max(start, self.log_start_offset)
        bounds = [offset for _, offset in self.epochs if offset > at]
        for end in (*(min(bound, self.log_end_offset) for bound in bounds), self.log_end_offset):
            if at < end:
                yield self.epoch_at(at), at, end
                at = end


@dataclass(frozen=True, slots=True)
class Verdict:
    """Electing the replica. `diverges_at`: the first offset at which another replica has something that this
    one has not; None if it has everything. `lost`: offsets that some replica has and that would be gone;
    `lost_committed`: those of them below the largest known high watermark, which consumers may have read."""

    log: ReplicaLog
    diverges_at: int | None
    lost: int
    lost_committed: int


def common_end(first: ReplicaLog, second: ReplicaLog) -> int:
    """The exclusive end of what both logs have in common, from the start of the one that starts later."""
    end = min(first.log_end_offset, second.log_end_offset)
    at = max(first.log_start_offset, second.log_start_offset)
    if at >= end:
        return end
    starts = {offset for log in (first, second) for _, offset in log.epochs if at < offset < end}
    for offset in (at, *sorted(starts)):
        if first.epoch_at(offset) != second.epoch_at(offset):
            return offset
    return end


def verdicts(logs: Sequence[ReplicaLog]) -> list[Verdict]:
    """The verdict on each replica, in the order of `logs`. Offsets that compaction has removed count."""
    watermark = max((log.high_watermark for log in logs), default=0)
    found = []
    for log in logs:
        spans = [span for other in logs if other is not log for span in other.spans(common_end(log, other))]
        merged = list(_merged(spans))
        found.append(
            Verdict(
                log,
                min((start for _, start, _ in merged), default=None),
                sum(end - start for _, start, end in merged),
                sum(max(min(end, watermark) - start, 0) for _, start, end in merged),
            )
        )
    return found


def best(found: Iterable[Verdict]) -> Verdict | None:
    """The replica to elect: it loses the fewest committed records; of several, the one that the newest leader
    wrote to last, then the one that loses least."""
    return min(
        found,
        key=lambda each: (
            each.lost_committed,
            -each.log.latest_epoch,
            each.lost,
            -each.log.log_end_offset,
            each.log.node_id,
        ),
        default=None,
    )


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    """The union of the spans: the same records of several replicas count once."""
    current: Span | None = None
    for epoch, start, end in sorted(spans):
        if current is not None and current[0] == epoch and start <= current[2]:
            current = (epoch, current[1], max(current[2], end))
        else:
            if current is not None:
                yield current
            current = (epoch, start, end)
    if current is not None:
        yield current
