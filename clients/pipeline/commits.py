"""What the commit log says of a query: its last batch, and whether all of it is ended. Pure.

One record per query in a compacted topic. It is written before any transaction of the batch is committed, so
that a driver which starts anew finishes the rest, and once more when all are.
"""

from __future__ import annotations

import json
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ...protocol.errors import (
    ConfigError,
    CorruptMessageError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    UnsupportedVersionError,
)
from ...protocol.model import TopicPartition
from .written import PreparedWrite, WriteReport, Written

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COMMITS_TOPIC = "__pipeline_commits"
# Who says one of these will never commit the transaction: it is over, or it never was.
GONE = (ProducerFencedError, InvalidTxnStateError, InvalidProducerIdMappingError)
_FORM = 1


class Decision(NamedTuple):
    """A batch that is committed, whatever comes. Unless `is_done`, `writes` may still be open."""

    batch: int
    is_done: bool
    writes: tuple[PreparedWrite, ...] = ()


class Gate(NamedTuple):
    """Open as long as the id of a driver stands as it did when a job began: at `producer`, which is a
    producer id and epoch, or None for an id that nobody has used. Once it is shut it stays so."""

    transactional_id: str
    producer: tuple[int, int] | None = None

    def check(self, now: tuple[int, int] | None) -> None:
        """`now` is how the id stands. Errors: ProducerFencedError if the job is over."""
        if now != self.producer:
            raise ProducerFencedError(
                "this attempt came too late: its job has ended, or another driver has begun"
                f" ({self.transactional_id} is at {now}, not at {self.producer})"
            )


def driver_id(query: str) -> str:
    """The transactional id under which a query's driver decides. Errors: ConfigError for an empty name."""
    if not query:
        raise ConfigError("a query has a name")
    return f"headrace-sink/{quote(query, safe='')}"


def task_id(query: str, task: str | int) -> str:
    """The id of a task's transactions, the same for each batch of a query: an attempt fences the one before.

    Errors: ConfigError for empty names.
    """
    if task == "":
        raise ConfigError("a task has a name, or a number")
    return f"{driver_id(query)}/{quote(str(task), safe='')}"


def checked_batch(batch: int) -> int:
    """Errors: ConfigError for what is no number of a batch."""
    try:
        number = -1 if isinstance(batch, bool) else index(batch)
    except TypeError:
        number = -1
    if number < 0:
        raise ConfigError(f"a batch has a number, which is whole and from 0 on, not {batch!r}")
    return number


def encoded(decision: Decision) -> bytes:
    """The value of a query's record."""
    writes = [
        [each.task, each.producer_id, each.producer_epoch, *_facts(each.report)] for each in decision.writes
    ]
    facts = {"form": _FORM, "batch": decision.batch, "done": decision.is_done, "writes": writes}
    return json.dumps(facts, separators=(",", ":")).encode()


def decoded(query: str, value: bytes) -> Decision:
    """Out of a query's record. Errors: CorruptMessageError."""
    try:
        facts: dict[str, Any] = json.loads(value)
        if facts["form"] != _FORM:
            raise CorruptMessageError(f"a decision of form {facts['form']}: this version knows {_FORM}")
        writes = tuple(
            PreparedWrite(str(task), task_id(query, task), int(producer), int(epoch), _report(*report))
            for task, producer, epoch, *report in facts["writes"]
        )
        return Decision(int(facts["batch"]), bool(facts["done"]), writes)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptMessageError(f"{value[:200]!r} is no decision about a batch: {error!r}") from error


def _facts(report: WriteReport) -> tuple[Any, ...]:
    """Of the first partition alone: there it can be seen whether the rows are committed."""
    tp, written = report.partitions[0]
    return report.rows, *tp, *written


def _report(rows: int, topic: str, partition: int, *written: int) -> WriteReport:
    return WriteReport(
        int(rows), ((TopicPartition(str(topic), int(partition)), Written(*map(int, written))),)
    )


def check_all_prepared(writes: Iterable[PreparedWrite], errors: Mapping[str, BaseException]) -> None:
    """`errors` has by transactional id why a transaction could not be prepared. Errors: InvalidTxnStateError
    naming the tasks whose rows cannot be committed any more; UnsupportedVersionError."""
    failed = [each for each in writes if each.transactional_id in errors]
    faults = [(each.task, errors[each.transactional_id]) for each in failed]
    for _, error in faults:
        if isinstance(error, UnsupportedVersionError):
            raise UnsupportedVersionError(
                "nothing of the batch is committed: a node is of a version that cannot prepare transactions;"
                f" nodes are upgraded before drivers ({error})"
            )
    if faults:
        told = [f"task {task}: {_reason(error)}" for task, error in faults[:5]]
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise InvalidTxnStateError(f"nothing of the batch is committed: {'; '.join(told)}{more}")


def _reason(error: BaseException) -> str:
    if not isinstance(error, GONE):
        return str(error)
    return (
        f"a later attempt of it has begun, or transaction.timeout.ms has passed since its first row ({error})"
    )
