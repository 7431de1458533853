"""What the end of a producer loses: delivery errors that no future has reported, and records without outcome.

`close` raises it where nothing else is raised, and logs it where another exception passes through. A producer
whose event loop ends without any of that reports it when it is collected, or at exit of the interpreter.
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
    """Of a batch, or of one record."""

    @property
    def is_reported(self) -> bool:
        """Whether a caller has asked for it."""

    @property
    def error(self) -> BaseException | None:
        """Why it was not delivered."""


class Losses:
    """Failed records of one producer whose error no caller has asked for. Thread-safe.

    Bound: the outcomes of the first MAX_UNREPORTED failed batches; what fails beyond is only counted.
    """

    def __init__(self) -> None:
        self._failed: list[tuple[Outcome, int]] = []
        self._further = 0
        self._lock = threading.Lock()

    def add(self, outcome: Outcome, count: int) -> None:
        """`count` records have failed."""
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
        """The first error that no caller has asked for, with a note of how many records failed so."""
        with self._lock:
            unreported = self._unreported()
        error = unreported[0][0].error if unreported else None
        if error is not None:
            count = sum(count for _, count in unreported) + self._further
            error.add_note(f"records that were not delivered, without a caller that asked why: {count}")
        return error

    def _unreported(self) -> list[tuple[Outcome, int]]:
        return [(outcome, count) for outcome, count in self._failed if not outcome.is_reported]


def record_count(batch: Batch) -> int:
    """How many records it holds now."""
    return batch.builder.count if batch.is_open and batch.builder is not None else batch.count


def counts_of(batches: Iterable[Batch]) -> Counter[str]:
    """Topic -> how many records of it are in `batches`."""
    counts: Counter[str] = Counter()
    for batch in batches:
        counts[batch.queue.topic.name] += record_count(batch)
    return counts


def counts_without_outcome(live: Iterable[Batch]) -> Counter[str]:
    """As `counts_of`, of the batches of an accumulator; what expired under way has its outcome."""
    return counts_of(batch for batch in list(live) if not batch.is_expired)


def undelivered(counts: Mapping[str, int], timeout_s: float | None) -> FlushTimeoutError:
    """The error of a `close` that ended records (topic -> how many) without an outcome."""
    total = sum(counts.values())
    limit = "before the producer ended" if timeout_s is None else f"within {timeout_s:.6g} s"
    text = f"{total} records were not acknowledged {limit}: {_by_topic(counts)}; they may be lost"
    return FlushTimeoutError(text, total)


def raise_unless(passing: BaseException | None, lost: BaseException) -> None:
    """At the end of a `with` block: raise what was lost, or log it while the block's own error passes."""
    if passing is None:
        raise lost
    log_loss(lost)


def raise_first(errors: Sequence[BaseException]) -> None:
    """When several clients were closed: raise the first of their errors, and log the others. An interrupt
    or a cancellation goes before the errors."""
    first = min(errors, key=lambda error: isinstance(error, Exception), default=None)
    for further in errors:
        if further is not first:
            log_loss(further)
    if first is not None:
        raise first


def log_loss(lost: BaseException) -> None:
    """An ERROR line with the error and its notes."""
    log.error("closing lost: %s", "; ".join([str(lost) or repr(lost), *getattr(lost, "__notes__", ())]))


def report_at_exit(lost: BaseException) -> None:
    """Nothing can be raised any more: an ERROR line and a ResourceWarning."""
    log_loss(lost)
    warnings.warn(f"a client was not closed: {lost}", ResourceWarning, stacklevel=2)


class Unfinished:
    """Reports the records that `counts` (topic -> how many) still names when the process or this object ends.

    For producers on an event loop of the user's, which may be closed, or given up, while records wait.
    """

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        self._counts, self._pid, self._is_over = counts, os.getpid(), False
        _unfinished.add(self)

    def over(self) -> None:
        """Every record has its outcome."""
        self._is_over = True
        _unfinished.discard(self)

    def report(self) -> None:
        """Once, and not in a forked child, whose parent still delivers them."""
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
