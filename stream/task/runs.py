"""Processing records of one partition as a run: without looking for the next partition after each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from .context import TaskContext
    from .partition_group import PartitionGroup
    from .record_queue import InputRecord


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
    process, current, punctuators = queue.process, context.current, context.stream_punctuators
    stream_time = group.stream_time
    count, last = 0, len(run.raws) - 1
    try:
        for raw, key, value, timestamp in zip(*run, strict=True):
            if count == last:
                break
            count += 1
            if timestamp > stream_time:
                group.stream_time = stream_time = timestamp
            current.start(raw, timestamp)
            process(key, value, timestamp, raw.headers)
            if punctuators:
                break  # the record has scheduled the first one
    except Exception as error:  # noqa: BLE001  # of the user's function; the cause is kept
        group.end_run(queue, run, count)
        fail(error, run.raws[count - 1])
    group.end_run(queue, run, count)
    current.finish()
    queue.consumed = run.raws[count - 1].offset
    return count
