"""Processing records of one partition as a run: without looking for the next partition after each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from .record_queue import NO_TIMESTAMP
from .run_rows import process_each

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.records import Headers
    from .context import TaskContext
    from .partition_group import PartitionGroup
    from .record_queue import InputRecord, Run


class BegunRun:
    """The records of a run that are to be processed, without the one behind them. See InputRun.

    `count`: those that have been begun; `latest`: the largest timestamp of these.
    """

    __slots__ = (
        "_current", "_group", "_punctuators", "count", "keys", "latest", "raws", "serdes", "timestamps",
        "values",
    )  # fmt: skip

    def __init__(
        self, run: Run, group: PartitionGroup, context: TaskContext, serdes: tuple[Any, Any]
    ) -> None:
        self.serdes = serdes
        self._group, self._current = group, context.current
        self._punctuators = context.stream_punctuators.elements
        self.raws = run.raws
        self.keys, self.values = run.keys[:-1], run.values[:-1]
        self.timestamps = run.timestamps[:-1]
        self.count, self.latest = 0, NO_TIMESTAMP

    def has_headers(self) -> bool:
        return any(raw.headers for raw in self.raws)

    def begin(self, place: int) -> Headers:
        raw, timestamps, group = self.raws[place], self.timestamps, self._group
        if place >= self.count:
            latest = max(timestamps[self.count : place + 1])
            if latest > self.latest:
                self.latest = latest
                if latest > group.stream_time:
                    group.stream_time = latest
        self.count = place + 1
        self._current.start(raw, timestamps[place])
        return raw.headers

    def is_interrupted(self) -> bool:
        return len(self._punctuators) > 0  # the record has scheduled the first one


def process_next_run(
    group: PartitionGroup,
    context: TaskContext,
    most: int,
    fail: Callable[[Exception, InputRecord], NoReturn],
) -> int:
    """Process records that are next as `Task.process` does. The number of those that were processed:
    punctuators may be due after the last one. `fail` raises the error of a record."""
    # A run that ends after each record would be read again and again.
    goes_record_by_record = context.calls.has_operators or bool(context.stream_punctuators)
    found = None if goes_record_by_record else group.next_run(most)
    if found is None:
        return 0
    queue, run = found
    begun = BegunRun(run, group, context, queue.serdes)
    try:
        if queue.process_run is None:
            process_each(begun, queue.process)
        else:
            queue.process_run(begun)
    except Exception as error:  # noqa: BLE001  # of the user's function; the cause is kept
        group.end_run(queue, run, begun.count, begun.latest)
        fail(error, run.raws[begun.count - 1])
    group.end_run(queue, run, begun.count, begun.latest)
    context.current.finish()
    queue.consumed = run.raws[begun.count - 1].offset
    return begun.count
