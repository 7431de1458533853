"""Records that a closed producer loses: delivery errors without a caller, and records without outcome.

`close` raises them if no other exception passes through, and logs them otherwise. A producer whose event loop
ends without `close` reports them when it is garbage-collected, or at interpreter exit.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from ..protocol.errors import FlushTimeoutError, HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .producer.batches import Batch

log = logging.getLogger("headrace.client")

MAX_UNREPORTED = 100


class Outcome(Protocol):
    """The outcome of a batch or a record."""

    @property
    def is_reported(self) -> bool:
        """Whether a caller has retrieved it."""

    @property
    def error(self) -> BaseException | None:
        """The delivery error, if any."""


class Losses:
    """Failed records of one producer whose error no caller has retrieved. Thread-safe.

    Bound: the outcomes of the first MAX_UNREPORTED failed batches; further failures are only counted.
    """

    def __init__(self) -> None:
        self._failed: list[tuple[Outcome, int]] = []
        self._further = 0
        self._lock = threading.Lock()

    def add(self, outcome: Outcome, count: int) -> None:
        """Add `count` failed records."""
        if outcome.is_reported:
            return
        with self._lock:
            if len(self._failed) >= MAX_UNREPORTED:
                self._failed = self._unreported()
            if len(self._failed) < MAX_UNREPORTED:
                self._failed.append((outcome, count))
            else:
                self._further += count

    def first(self) -> BaseException | None:
        """The first unretrieved error, with a note of the number of failed records."""
        with self._lock:
            unreported = self._unreported()
        error = unreported[0][0].error if unreported else None
        if error is not None:
            count = sum(count for _, count in unreported) + self._further
            error.add_note(f"records that were not delivered and whose futures were not checked: {count}")
        return error

    def _unreported(self) -> list[tuple[Outcome, int]]:
        return [(outcome, count) for outcome, count in self._failed if not outcome.is_reported]


def record_count(batch: Batch) -> int:
    """The current number of records of a batch."""
    return batch.builder.count if batch.is_open and batch.builder is not None else batch.count


def counts_of(batches: Iterable[Batch]) -> Counter[str]:
    """The number of records in `batches` by topic."""
    counts: Counter[str] = Counter()
    for batch in batches:
        counts[batch.queue.topic.name] += record_count(batch)
    return counts


def counts_without_outcome(live: Iterable[Batch]) -> Counter[str]:
    """As `counts_of`, for the batches of an accumulator without those that expired in flight."""
    return counts_of(batch for batch in list(live) if not batch.is_expired)


def undelivered(counts: Mapping[str, int], timeout_s: float | None) -> FlushTimeoutError:
    """The error of a `close` that ended with unacknowledged records (number by topic)."""
    total = sum(counts.values())
    limit = "before the producer ended" if timeout_s is None else f"within {timeout_s:.6g} s"
    text = f"{total} records were not acknowledged {limit}: {_by_topic(counts)}; they may be lost"
    return FlushTimeoutError(text, total)


def raise_unless(passing: BaseException | None, lost: BaseException) -> None:
    """At the end of a `with` block: raise the loss, or log it if the block raised an exception."""
    if passing is None:
        raise lost
    log_loss(lost)


def raise_first(errors: Sequence[BaseException]) -> None:
    """After closing several clients: raise the first of their errors, and log the others. An interrupt or a
    cancellation takes precedence."""
    first = min(errors, key=lambda error: isinstance(error, Exception), default=None)
    for further in errors:
        if further is not first:
            log_loss(further)
    if first is not None:
        raise first


def log_loss(lost: BaseException) -> None:
    """Log the error with its notes."""
    log.error(
        "records lost at close: %s", "; ".join([str(lost) or repr(lost), *getattr(lost, "__notes__", ())])
    )


def report_at_exit(lost: BaseException) -> None:
    """Report by an ERROR line and a ResourceWarning, where no exception can be raised any more."""
    log_loss(lost)
    warnings.warn(f"a client was not closed: {lost}", ResourceWarning, stacklevel=2)


class Unfinished:
    """Reports records without outcome, from `counts` (number by topic), when the process or this object ends.

    For producers on a user's event loop, which may be closed or abandoned while records wait.
    """

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts, self._pid, self._is_over = counts, os.getpid(), False
        _unfinished.add(self)

    def over(self) -> None:
        """Every record has its outcome: there is nothing to report."""
        self._is_over = True
        _unfinished.discard(self)

    def report(self) -> None:
        """Report once, and not in a forked child: the parent still delivers the records."""
        if self._is_over or os.getpid() != self._pid:
            return
        self._is_over = True
        counts = self._counts()
        if counts:
            total = sum(counts.values())
            text = (
                f"the event loop ended with {total} records not acknowledged: {_by_topic(counts)};"
                " await producer.close(), or use `async with`"
            )
            report_at_exit(HeadraceError(text))

    def __del__(self) -> None:
        self.report()


def _by_topic(counts: Mapping[str, int]) -> str:
    most = Counter(counts).most_common(10)
    named = ", ".join(f"{count} for {topic!r}" for topic, count in most)
    return named if len(counts) <= len(most) else f"{named}, and others"


_unfinished: WeakSet[Unfinished] = WeakSet()


def _report_all() -> None:
    for each in list(_unfinished):
        each.report()


atexit.register(_report_all)
