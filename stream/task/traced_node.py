"""A source node whose sampled records are processed inside spans. Pure: the caller makes the spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from .run_rows import process_each

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ...clients.records import Headers
    from ..processing import Forward, InputRun, ProcessRun
    from .current_record import CurrentRecord

    # What is around the processing of an input record; cheap for records that are not sampled.
    AroundRecord: TypeAlias = Callable[[Any], AbstractContextManager[Any]]


def traced(
    process_one: Forward, process_all: ProcessRun | None, around: AroundRecord, current: CurrentRecord
) -> tuple[Forward, ProcessRun]:
    """The functions of a node with spans. Runs whose records have headers are processed record by record."""

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if headers:
            with around(current.source):
                process_one(key, value, timestamp, headers)
        else:
            process_one(key, value, timestamp, headers)

    def process_run(run: InputRun) -> None:
        if run.has_headers():
            process_each(run, process)
        elif process_all is None:
            process_each(run, process_one)
        else:
            process_all(run)

    return process, process_run
