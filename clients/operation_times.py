"""Durations of a client's messaging operations, as `messaging.client.operation.duration` of OpenTelemetry's
semantic conventions has them. Pure: the caller measures.

One value per batch that is acknowledged, per poll that returns records, per commit request: nothing is done
per record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..runtime.telemetry.histogram import Histogram
from ..runtime.tracing.names import COMMIT, POLL, SEND

if TYPE_CHECKING:
    from collections.abc import Callable


class Operation(NamedTuple):
    """What was done; `topic` and `error` may be empty. `error`: the name of the exception's class."""

    name: str  # send, poll or commit
    topic: str = ""
    error: str = ""


_POLL = Operation(POLL)


class OperationTimes:
    """Those of one client. Each operation has one thread that records it; any thread reads."""

    def __init__(self) -> None:
        self._times: dict[Operation, Histogram] = {}  # Bound: topics of the client, and classes of errors
        self._observers: tuple[Callable[[Operation, float], None], ...] = ()

    def sent(self, topic: str, took_ms: float, error: BaseException | None) -> None:
        """A batch has its outcome."""
        self._record(Operation(SEND, topic, _name_of(error)), took_ms)

    def polled(self, took_ms: float) -> None:
        """A call returns records."""
        self._record(_POLL, took_ms)

    def committed(self, took_ms: float, error: BaseException | None) -> None:
        """A commit request has its outcome."""
        self._record(Operation(COMMIT, error=_name_of(error)), took_ms)

    def _record(self, operation: Operation, took_ms: float) -> None:
        times = self._times.get(operation)
        if times is None:
            times = self._times[operation] = Histogram()
        times.record(took_ms)
        for observer in self._observers:
            observer(operation, took_ms)

    def observe(self, observer: Callable[[Operation, float], None]) -> None:
        """Call it with each operation and its duration in ms from now on, on the thread that records it; it
        must not raise."""
        self._observers = (*self._observers, observer)

    def items(self) -> list[tuple[Operation, Histogram]]:
        """The durations so far."""
        return list(self._times.items())


def _name_of(error: BaseException | None) -> str:
    return "" if error is None else type(error).__name__
