"""What came of a write: counts and offsets per partition, and what is left to be ended. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.model import TopicPartition


class Written(NamedTuple):
    """Rows of one partition; they lie at offsets from `first` to `last`, with those of others among them."""

    rows: int
    first: int
    last: int


class WriteReport(NamedTuple):
    """Rows that are stored, in all and by partition."""

    rows: int = 0
    partitions: tuple[tuple[TopicPartition, Written], ...] = ()

    @classmethod
    def of(cls, runs: Iterable[tuple[TopicPartition, Written]]) -> WriteReport:
        """All of them together."""
        found: dict[TopicPartition, Written] = {}
        for tp, new in runs:
            old = found.get(tp, new)
            rows = new.rows if tp not in found else old.rows + new.rows
            found[tp] = Written(rows, min(old.first, new.first), max(old.last, new.last))
        return cls(sum(each.rows for each in found.values()), tuple(sorted(found.items())))


class PreparedWrite(NamedTuple):
    """A task's rows, stored in a transaction that is open: the commit message of the task. One without rows
    has nothing to end."""

    task: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    report: WriteReport

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to end."""
        return not self.report.rows
