"""`write` and `write_batch`: a DataFrame into topics, at least once or exactly once, by `mapInArrow`."""

from __future__ import annotations

import logging
import pickle
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError
from ..pipeline.sink_io import Sink
from ..pipeline.sink_options import checked_names, write_options
from ..pipeline.writing_io import prepare_arrow, write_arrow
from ..pipeline.written import WriteReport
from .schemas import arrow_schema
from .task_errors import readable
from .worker_garbage_io import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..pipeline.sink_options import WriteOptions
    from ..pipeline.written import PreparedWrite

log = logging.getLogger("headrace.client.spark")

# Queries by cluster that this process has written for: it leaves no transactions open itself.
_begun: set[tuple[str | None, str]] = set()


def write(df: Any, **options: Any) -> WriteReport:
    """Write the rows of a DataFrame at least once: rows of a failed task are duplicated when Spark runs it
    again; the report covers the successful attempts.

    Columns: as for `write_arrow`; others are rejected. Errors: ConfigError, TypeError, ValueError at once;
    the error of a task (see `write_arrow`), from the PythonException.
    """
    wanted = write_options(options)
    _check_columns(df, wanted)

    def store(batches: Iterator[Any]) -> Iterator[Any]:
        yield _message(write_arrow(batches, wanted))

    reports = _of_tasks(df, store)
    return WriteReport.of(run for report in reports for run in report.partitions)


def write_batch(df: Any, batch_id: int, *, query: str, **options: Any) -> bool:
    """Write the rows of a micro-batch exactly once, for `foreachBatch`; False, without an effect, for a batch
    that was committed before. read_committed consumers see all rows of a batch, or none.

    `query` is the permanent name of the output: each sink of a stream has its own, and a stream that starts
    without its checkpoint needs a new one, because its batch numbers start at 0 again. Needs speculation to
    be off. Errors: as `write`, and those of `Sink`; the batch can be run again then.
    """
    wanted = write_options(options)
    _check_columns(df, wanted)

    def prepare(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        own = TaskContext.get()
        task, attempt = own.partitionId(), own.attemptNumber()
        write = prepare_arrow(batches, wanted, query=query, task=task, attempt=attempt, gate=gate)
        yield _message(write)

    with Sink(wanted, query) as sink:
        if sink.is_committed(batch_id):
            log.warning(
                "batch %d of %r was committed before (last batch %s): skipped",
                batch_id,
                query,
                sink.last_batch,
            )
            return False
        if (wanted.bootstrap, query) not in _begun:  # abort transactions of a previous driver
            sink.abort_leftovers()
            _begun.add((wanted.bootstrap, query))
        gate = sink.open_gate()
        try:
            messages: list[PreparedWrite] = _of_tasks(df, prepare)
        except BaseException as error:
            try:
                sink.abort_leftovers()
            except HeadraceError as failed:
                error.add_note(f"the rows of its tasks could not be aborted: {failed!r}")
            raise
        return sink.commit(batch_id, messages)


def _check_columns(df: Any, options: WriteOptions) -> None:
    """Before any task runs. Errors: TypeError, ValueError."""
    checked_names(arrow_schema(df.schema).empty_table(), options.topic)


def _message(content: Any) -> Any:
    from ..arrow.library import pa

    return pa.record_batch({"message": pa.array([pickle.dumps(content)], pa.binary())})


def _of_tasks(df: Any, work: Callable[[Iterator[Any]], Iterator[Any]]) -> list[Any]:
    """The results of all tasks. Errors: that of a failed task."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        freeze_imports()
        return work(batches)

    with readable():
        rows = df.mapInArrow(run, "message binary").collect()
    return [pickle.loads(row.message) for row in rows]  # noqa: S301  # by our own tasks
