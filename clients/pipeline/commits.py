"""The commit log of queries: the last decided batch, and whether all of its transactions have ended. Pure.

One record per query in a compacted topic. It is written before any transaction of the batch is committed, so
that the next driver can complete the batch, and again when all are committed.
"""

from __future__ import annotations

import json
import re
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
# Errors after which the transaction can never be committed: it has ended, or does not exist.
GONE = (ProducerFencedError, InvalidTxnStateError, InvalidProducerIdMappingError)
_FORM = 1
_ATTEMPT = re.compile("%2Fattempt-[0-9]+$")


class Decision(NamedTuple):
    """A batch that is decided to be committed. Unless `is_done`, some of `writes` may still be open."""

    batch: int
    is_done: bool
    writes: tuple[PreparedWrite, ...] = ()


class Gate(NamedTuple):
    """Open while the transactional id of the driver has the producer id and epoch of the job's start:
    `producer`, None for an unused id. A closed gate never opens again."""

    transactional_id: str
    producer: tuple[int, int] | None = None

    def check(self, now: tuple[int, int] | None) -> None:
        """`now`: the current producer of the id. Errors: ProducerFencedError if the job has ended."""
        if now != self.producer:
            raise ProducerFencedError(
                "this attempt is too late: its job has ended, or another driver has started"
                f" (the producer of {self.transactional_id} is {now}, not {self.producer})"
            )


def driver_id(query: str) -> str:
    """The transactional id of a query's driver. Errors: ConfigError for an empty name."""
    if not query:
        raise ConfigError("the name of the query must not be empty")
    return f"headrace-sink/{quote(query, safe='')}"


def task_id(query: str, task: str | int) -> str:
    """The transactional id of a task, the same for each batch of a query: a new attempt fences the previous
    one.

    Errors: ConfigError for empty names.
    """
    if task == "":
        raise ConfigError("the name of the task must not be empty")
    return f"{driver_id(query)}/{quote(str(task), safe='')}"


def attempt_name(task: str | int, attempt: int) -> str:
    """The name of a task in its `attempt`: attempts with different numbers do not fence each other.

    Errors: ConfigError for an empty task, or if `attempt` is not an integer >= 0.
    """
    if task == "":
        raise ConfigError("the name of the task must not be empty")
    number = _checked(attempt, "attempt")
    return f"{task}/attempt-{number}" if number else str(task)


def first_attempt(transactional_id: str) -> str:
    """The transactional id of attempt 0 of the task that has this id in one of its attempts."""
    return _ATTEMPT.sub("", transactional_id)


def checked_batch(batch: int) -> int:
    """Errors: ConfigError for an invalid batch number."""
    return _checked(batch, "the batch number")


def _checked(value: int, name: str) -> int:
    try:
        number = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise ConfigError(f"{name} must be an integer >= 0, not {value!r}")
    return number


def encoded(decision: Decision) -> bytes:
    """The value of a query's record."""
    writes = [
        [each.task, each.producer_id, each.producer_epoch, *_facts(each.report)] for each in decision.writes
    ]
    facts = {"form": _FORM, "batch": decision.batch, "done": decision.is_done, "writes": writes}
    return json.dumps(facts, separators=(",", ":")).encode()


def decoded(query: str, value: bytes) -> Decision:
    """The decision of a query's record. Errors: CorruptMessageError."""
    try:
        facts: dict[str, Any] = json.loads(value)
        if facts["form"] != _FORM:
            raise CorruptMessageError(f"the decision has format {facts['form']}, this version reads {_FORM}")
        writes = tuple(
            PreparedWrite(str(task), task_id(query, task), int(producer), int(epoch), _report(*report))
            for task, producer, epoch, *report in facts["writes"]
        )
        return Decision(int(facts["batch"]), bool(facts["done"]), writes)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptMessageError(f"{value[:200]!r} is not a decision about a batch: {error!r}") from error


def _facts(report: WriteReport) -> tuple[Any, ...]:
    """Of the first partition only: it shows whether the rows are committed."""
    tp, written = report.partitions[0]
    return report.rows, *tp, *written


def _report(rows: int, topic: str, partition: int, *written: int) -> WriteReport:
    return WriteReport(
        int(rows), ((TopicPartition(str(topic), int(partition)), Written(*map(int, written))),)
    )


def check_all_prepared(writes: Iterable[PreparedWrite], errors: Mapping[str, BaseException]) -> None:
    """`errors`: by transactional id, why a transaction could not be prepared. Errors: InvalidTxnStateError
    with the tasks whose rows cannot be committed any more; UnsupportedVersionError."""
    failed = [each for each in writes if each.transactional_id in errors]
    faults = [(each.task, errors[each.transactional_id]) for each in failed]
    for _, error in faults:
        if isinstance(error, UnsupportedVersionError):
            raise UnsupportedVersionError(
                "the batch is not committed: a node has a version that cannot prepare transactions;"
                f" upgrade nodes before drivers ({error})"
            )
    if faults:
        reasons = [f"task {task}: {_reason(error)}" for task, error in faults[:5]]
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise InvalidTxnStateError(f"the batch is not committed: {'; '.join(reasons)}{more}")


def _reason(error: BaseException) -> str:
    if not isinstance(error, GONE):
        return str(error)
    return f"a later attempt has started, or transaction.timeout.ms has passed since its first row ({error})"
