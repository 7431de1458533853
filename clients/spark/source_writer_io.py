"""Writers of batches and streams: a transaction per task, committed by the driver.

A micro-batch belongs to its query, by the id in Spark's checkpoint. A task's transactional id includes the
run of the query: when a batch is replayed after a restart, tasks must not fence transactions that the
previous driver decided to commit and could not complete; the next `Sink` does that.

Spark does not pass query and run to the driver of a stream: they come with messages of tasks, or, if no task
has sent one, from the transactional ids of tasks, which contain a hash of the checkpoint.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ...protocol.errors import ConfigError
from ..pipeline.commits import Gate, driver_id, task_id
from ..pipeline.pool_io import shared_cluster
from ..pipeline.sink_io import Sink
from ..pipeline.sink_options import checked_names, write_options
from ..pipeline.writing_io import prepare_arrow, write_arrow
from ..sync.admin_io import Admin
from .schemas import arrow_schema
from .worker_garbage_io import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..pipeline.sink_options import WriteOptions
    from ..pipeline.written import PreparedWrite

log = logging.getLogger("headrace.client.spark")

# Properties that Spark sets for tasks of a streaming query.
_QUERY, _RUN, _BATCH = "sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId"
_cleaned: set[str] = set()  # runs of this process whose predecessors' open transactions were aborted


class Delivery(NamedTuple):
    """Settings of a write."""

    options: WriteOptions
    is_exactly_once: bool
    mark: str = ""  # hash of a stream's checkpoint location, if Spark passes it


def delivery(given: Mapping[str, str], schema: Any) -> Delivery:
    """Validated settings, for the columns of a pyspark StructType. Errors: ConfigError, TypeError,
    ValueError."""
    freeze_imports()
    own = {name: value for name, value in given.items() if name.lower() == "exactlyonce"}
    text = "".join(own.values()).strip().lower() or "true"
    if text not in ("true", "false"):
        raise ConfigError(f"exactlyOnce must be true or false, not {text!r}")
    options = write_options({name: value for name, value in given.items() if name not in own})
    checked_names(arrow_schema(schema).empty_table(), options.topic)
    place = "".join(value for name, value in given.items() if name.lower() == "checkpointlocation")
    mark = hashlib.sha256(place.encode()).hexdigest()[:16] if place else ""
    return Delivery(options, text == "true", mark)


class Message(WriterCommitMessage):
    """The commit message of a task. `query` and `run` are those of the stream, or of the single write of a
    batch."""

    def __init__(self, query: str = "", run: str = "", write: PreparedWrite | None = None) -> None:
        self.query, self.run, self.write = query, run, write


class BatchWriter(DataSourceArrowWriter):
    """Writes one batch: all of its rows, or an error and, for read_committed consumers, none."""

    def __init__(self, how: Delivery) -> None:
        self._how, self._query = how, f"spark-batch-{uuid.uuid4()}"

    def write(self, iterator: Iterator[Any]) -> Message:
        """In a task. Errors: those of `write_arrow` and `prepare_arrow`."""
        # No other driver opens its sink before the job has ended.
        return _write(iterator, self._how, self._query, "", [Gate(driver_id(self._query))])

    def commit(self, messages: list[Message | None]) -> None:
        """On the driver. Errors: those of `Sink.commit`."""
        freeze_imports()
        writes = _writes(messages)
        if writes:
            with Sink(self._how.options, self._query, is_first=True) as sink:
                sink.commit(0, writes)
                sink.forget()

    def abort(self, messages: list[Message | None]) -> None:
        """On the driver. Errors: those of `Sink`."""
        if self._how.is_exactly_once:
            with Sink(self._how.options, self._query) as sink:
                sink.abort_leftovers()
                sink.forget()


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes each micro-batch of a query once."""

    def __init__(self, how: Delivery) -> None:
        self._how = how

    def write(self, iterator: Iterator[Any]) -> Message:
        """In a task. Errors: those of `write_arrow` and `prepare_arrow`; ConfigError if Spark does not pass
        the query."""
        if not self._how.is_exactly_once:
            return _write(iterator, self._how, "", "", ())
        context = TaskContext.get()
        assert context is not None, "only called in a task"
        query, run, batch = (context.getLocalProperty(name) for name in (_QUERY, _RUN, _BATCH))
        if not query or not run or not batch:
            raise ConfigError(
                f"Spark does not pass {_QUERY}, {_RUN} and {_BATCH} to its tasks, which identify a replayed"
                " batch: exactlyOnce=false writes at least once"
            )
        query, run = f"spark-{query}", f"{run}@{self._how.mark}"
        gates = [Gate(task_id(query, name)) for name in (run, _gate_of_batch(run, int(batch)))]
        return _write(iterator, self._how, query, run, gates)

    def commit(self, messages: list[Message | None], batchId: int) -> None:
        """On the driver. Errors: those of `Sink.commit`."""
        for query, run in _queries(messages):
            with Sink(self._how.options, query) as sink:
                writes = _writes(messages)
                if any(each.is_retry for each in writes):
                    # Order: as in `abort`. The next batch of the run has tasks with the same ids, which an
                    # earlier attempt that is late would fence.
                    sink.fence([_gate_of_batch(run, batchId)])
                if run not in _cleaned:
                    sink.abort_leftovers(keep=writes)
                if not sink.commit(batchId, writes):
                    log.warning("batch %d of %r was committed before: skipped", batchId, query)
            _cleaned.add(run)

    def abort(self, messages: list[Message | None], batchId: int) -> None:
        """On the driver. Errors: those of `Sink`."""
        for query, run in _queries(messages) or _queries_at(self._how):
            with Sink(self._how.options, query) as sink:
                # Spark also aborts after a failed commit, which may be decided.
                if not sink.is_committed(batchId):
                    # Order: the id of the run is the gate of its tasks. Tasks that have passed it are found.
                    sink.fence([run])
                    sink.abort_leftovers()


def _write(batches: Iterator[Any], how: Delivery, query: str, run: str, gates: Sequence[Gate]) -> Message:
    freeze_imports()
    if not how.is_exactly_once:
        write_arrow(batches, how.options)
        return Message()
    context = TaskContext.get()
    assert context is not None, "only called in a task"
    task, attempt = _task(run, context.partitionId()), context.attemptNumber()
    write = prepare_arrow(batches, how.options, query=query, task=task, attempt=attempt, gate=gates)
    return Message(query, run, write)


def _task(run: str, partition: int) -> str:
    return f"{run}/{partition}"


def _gate_of_batch(run: str, batch: int) -> str:
    """Closed when a batch with several attempts of a task is committed, for no other batch: each closed gate
    is an id that the cluster keeps for days."""
    return f"{run}/batch-{batch}"


def _writes(messages: Sequence[Message | None]) -> list[PreparedWrite]:
    return [each.write for each in messages if each is not None and each.write is not None]


def _queries(messages: Sequence[Message | None]) -> set[tuple[str, str]]:
    """The query and run of the messages; empty if all tasks failed, or without exactly once."""
    return {(each.query, each.run) for each in messages if each is not None and each.query}


def _queries_at(how: Delivery) -> set[tuple[str, str]]:
    """Query and run of unfinished runs at this checkpoint, from the transactional ids of their tasks. Others
    are left to the next run, and to transaction.timeout.ms."""
    if not how.mark or not how.is_exactly_once:
        return set()
    pattern = f"{driver_id('spark-')}[^/]*/[^/]*%40{how.mark}(%2F[0-9]+(%2Fattempt-[0-9]+)?)?"
    with shared_cluster(how.options.bootstrap, how.options.client) as cluster, Admin(cluster) as admin:
        names = [each.transactional_id for each in admin.list_transactions(pattern=pattern)]
    parts = [[unquote(part) for part in name.split("/")[1:]] for name in names]
    runs = {(query, task.partition("/")[0]) for query, task in parts}
    return runs - {(query, task) for query, task in parts}  # a run whose own id is in use has ended
