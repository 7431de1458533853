"""Results of a write: counts and offsets per partition, and the transaction to end. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.model import TopicPartition


class Written(NamedTuple):
    """Rows of one partition; their offsets are within `first` to `last`, possibly with other records in
    between."""

    rows: int
    first: int
    last: int


class WriteReport(NamedTuple):
    """Stored rows, in total and by partition."""

    rows: int = 0
    partitions: tuple[tuple[TopicPartition, Written], ...] = ()

    @classmethod
    def of(cls, runs: Iterable[tuple[TopicPartition, Written]]) -> WriteReport:
        """The report of several runs."""
        found: dict[TopicPartition, Written] = {}
        for tp, new in runs:
            old = found.get(tp, new)
            rows = new.rows if tp not in found else old.rows + new.rows
            found[tp] = Written(rows, min(old.first, new.first), max(old.last, new.last))
        return cls(sum(each.rows for each in found.values()), tuple(sorted(found.items())))


class PreparedWrite(NamedTuple):
    """The rows of a task in an open transaction: the task's commit message. Without rows there is no
    transaction to end."""

    task: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    report: WriteReport
    is_retry: bool = False  # an earlier attempt of the task may still open a transaction of its own

    @property
    def is_empty(self) -> bool:
        """Whether there is no transaction to end."""
        return not self.report.rows
