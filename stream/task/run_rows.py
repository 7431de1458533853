"""Runs of input records: their columns go through processors that take rows; others get each record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..column_rows import Column, Rows
from ..records import RecordContext

if TYPE_CHECKING:
    from ..column_rows import ProcessRows
    from ..processing import Forward, InputRun, ProcessRun
    from .current_record import CurrentRecord


def run_by_rows(process: Forward, process_rows: ProcessRows, current: CurrentRecord) -> ProcessRun:
    """`process_rows` of the records of a run; `process` of each, where one has headers."""

    def process_run(run: InputRun) -> None:
        last = len(run.keys) - 1
        if run.has_headers():
            process_each(run, process)
            return
        run.begin(0)
        try:
            process_rows(_rows_of(run))
        except Exception:
            run.begin(_place_of(current, run))
            raise
        run.begin(last)

    return process_run


def process_each(run: InputRun, process: Forward) -> None:
    """`process` of each record, until the run is interrupted."""
    for place, (key, value, timestamp) in enumerate(zip(run.keys, run.values, run.timestamps, strict=True)):
        process(key, value, timestamp, run.begin(place))
        if run.is_interrupted():
            break


def _rows_of(run: InputRun) -> Rows:
    raws, timestamps = run.raws[: len(run.keys)], run.timestamps
    key_serde, value_serde = run.serdes
    return Rows(
        Column(run.keys, read=lambda: [raw.key for raw in raws], serde=key_serde),
        Column(run.values, read=lambda: [raw.value for raw in raws], serde=value_serde),
        timestamps,
        Column(make=lambda: list(map(_context_of, raws, timestamps))),
    )


def _context_of(raw: Any, timestamp: int) -> RecordContext:
    return RecordContext(timestamp, raw.offset, raw.topic, raw.partition, raw.headers, raw.key, raw.value)


def _place_of(current: CurrentRecord, run: InputRun) -> int:
    """Of the record that has failed: a processor has set its context. An error of an earlier record is that
    of the first."""
    context = current.context
    assert context is not None
    return next(place for place, raw in enumerate(run.raws) if raw.offset == context.offset)
