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

# Queries by cluster that this process has written for: it leaves nothing open itself.
_begun: set[tuple[str | None, str]] = set()


def write(df: Any, **options: Any) -> WriteReport:
    """Write the rows of a DataFrame, at least once: what a failed task had sent is there twice when Spark
    runs it again; the report tells of the attempts that count for Spark.

    Columns: as `write_arrow`; others are refused. Errors: ConfigError, TypeError, ValueError at once; the
    error of a task as it was there (see `write_arrow`), from the PythonException.
    """
    wanted = write_options(options)
    _check_columns(df, wanted)

    def store(batches: Iterator[Any]) -> Iterator[Any]:
        yield _message(write_arrow(batches, wanted))

    reports = _of_tasks(df, store)
    return WriteReport.of(run for report in reports for run in report.partitions)


def write_batch(df: Any, batch_id: int, *, query: str, **options: Any) -> bool:
    """Write the rows of a micro-batch exactly once, for `foreachBatch`; False for a batch that is committed
    already, and then nothing is done. Readers of committed records see all rows of a batch, or none.

    `query` names what is written, for ever: each sink of a stream has a name of its own, and a stream that
    begins anew, without its checkpoint, takes a new one, for its batches are counted from 0 again. Needs
    speculation off. Errors: as `write`, and those of `Sink`; the batch can be run again then.
    """
    wanted = write_options(options)
    _check_columns(df, wanted)

    def prepare(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        task = TaskContext.get().partitionId()
        yield _message(prepare_arrow(batches, wanted, query=query, task=task, gate=gate))

    with Sink(wanted, query) as sink:
        if sink.is_committed(batch_id):
            log.warning(
                "batch %d of %r is committed already, up to %s: not again", batch_id, query, sink.last_batch
            )
            return False
        if (wanted.bootstrap, query) not in _begun:  # what a driver before this one has left
            sink.abort_leftovers()
            _begun.add((wanted.bootstrap, query))
        gate = sink.open_gate()
        try:
            messages: list[PreparedWrite] = _of_tasks(df, prepare)
        except BaseException as error:
            try:
                sink.abort_leftovers()
            except HeadraceError as failed:
                error.add_note(f"what its tasks wrote could not be undone: {failed!r}")
            raise
        return sink.commit(batch_id, messages)


def _check_columns(df: Any, options: WriteOptions) -> None:
    """Before any task runs. Errors: TypeError, ValueError."""
    checked_names(arrow_schema(df.schema).empty_table(), options.topic)


def _message(content: Any) -> Any:
    from ..arrow.library import pa

    return pa.record_batch({"message": pa.array([pickle.dumps(content)], pa.binary())})


def _of_tasks(df: Any, work: Callable[[Iterator[Any]], Iterator[Any]]) -> list[Any]:
    """What each task has yielded. Errors: that of the task."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        freeze_imports()
        return work(batches)

    with readable():
        rows = df.mapInArrow(run, "message binary").collect()
    return [pickle.loads(row.message) for row in rows]  # noqa: S301  # by our own tasks
