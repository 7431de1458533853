"""`write`: a Dataset into topics, at least once, or exactly once with a `Sink`.

Exactly once has two steps: each of Ray's write tasks leaves a transaction open, and the driver decides on all
of them. A task that runs again has the same number, so it fences its first attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.data import Datasink
from ray.data.block import BlockAccessor

from ...protocol.errors import ConfigError, HeadraceError
from ...runtime.tracing.carrying_io import below, carried
from ..pipeline.sink_io import Sink
from ..pipeline.sink_options import write_options
from ..pipeline.writing_io import prepare_arrow, write_arrow
from ..pipeline.written import WriteReport
from .arguments import OF_WRITE_TASKS, split
from .planning_io import with_bootstrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ray.data import Dataset
    from ray.data._internal.execution.interfaces import TaskContext
    from ray.data.datasource import WriteResult

    from ..pipeline.commits import Gate
    from ..pipeline.sink_options import WriteOptions
    from ..pipeline.written import PreparedWrite


def write(
    dataset: Dataset,
    topic: str | None = None,
    *,
    bootstrap_servers: str | list[str] | None = None,
    sink: str | None = None,
    batch: int | None = None,
    rows_per_task: int | None = None,
    **options: Any,
) -> WriteReport | None:
    """Write the rows of a Dataset: a column `value` and optionally key, topic, partition, headers, timestamp;
    `topic` overrides the column. Other `options` are those of a write in docs/PIPELINE.md, and Ray's
    `concurrency` and `ray_remote_args`. Tasks get at least `rows_per_task` rows.

    Without `sink` at least once: tasks that run again write again. `sink` names the sink that decides: all
    rows become visible to read_committed consumers, or none. With the number of the `batch`, which must
    increase, a restarted driver writes it once: None, without running the Dataset, if it was committed
    before.

    Errors: ConfigError for options; errors of tasks are raised by Ray, including TypeError and ValueError for
    invalid columns; InvalidTxnStateError, ProducerFencedError, ApiTimeoutError and DataLossError as for
    `Sink`: the batch is not visible then, unless the error says that this is unknown.
    """
    of_tasks, given = split(options, OF_WRITE_TASKS)
    checked = checked_options(topic, bootstrap_servers, given)
    if sink is None:
        if batch is not None:
            raise ConfigError("batch needs a sink, which stores its number")
        plain = TopicDatasink(checked, rows_per_task=rows_per_task)
        dataset.write_datasink(plain, **of_tasks)
        return plain.report
    with Sink(checked, sink) as driver:
        number = batch if batch is not None else next_batch(driver)
        if driver.is_committed(number):
            return None
        # of a previous driver: its open transactions keep read_committed consumers waiting
        driver.abort_leftovers()
        gate = driver.open_gate()
        datasink = TopicDatasink(checked, sink=sink, gate=gate, rows_per_task=rows_per_task)
        prepare(dataset, datasink, driver, of_tasks)
        # Order: outside of Ray's write, which would abort transactions after a failure, although the batch
        # may be decided.
        driver.commit(number, datasink.prepared)
        return datasink.report


def checked_options(topic: str | None, bootstrap: Any, given: dict[str, Any]) -> WriteOptions:
    """Options of a write with resolved addresses. Errors: ConfigError, NoClusterError."""
    options = dict(given)
    if bootstrap is not None:
        options["bootstrap.servers"] = bootstrap
    if topic is not None:
        options["topic"] = topic
    return write_options(with_bootstrap(options))


def next_batch(driver: Sink) -> int:
    """The number after the last committed batch."""
    return 0 if driver.last_batch is None else driver.last_batch + 1


def prepare(
    dataset: Dataset,
    datasink: TopicDatasink,
    driver: Sink,
    of_tasks: dict[str, Any],
    keep: Sequence[PreparedWrite] = (),
) -> None:
    """Run a Dataset whose rows are then in open transactions. If it fails or is interrupted, all open
    transactions of its tasks are aborted, except `keep`."""
    try:
        dataset.write_datasink(datasink, **of_tasks)
    except BaseException as error:
        try:
            driver.abort_leftovers(keep)
        except HeadraceError as failed:
            error.add_note(f"the rows of its tasks could not be aborted: {failed!r}")
        raise


def report_of(prepared: Iterable[PreparedWrite]) -> WriteReport:
    """The combined report of prepared writes."""
    return WriteReport.of([run for each in prepared for run in each.report.partitions])


class TopicDatasink(Datasink[Any]):  # of reports, or with a sink of prepared writes
    """For `Dataset.write_datasink`. Small, and can be pickled.

    With a `sink`, tasks leave transactions open, which the driver finds in `prepared`: the owner of the
    `Sink` with that name commits them, and gives a `gate` that excludes late attempts; `name` distinguishes
    several writes of a batch.
    """

    def __init__(
        self,
        options: WriteOptions,
        *,
        sink: str | None = None,
        gate: Gate | None = None,
        name: str = "",
        rows_per_task: int | None = None,
    ) -> None:
        if rows_per_task is not None and rows_per_task < 1:
            raise ConfigError(f"rows_per_task must be an integer >= 1, not {rows_per_task!r}")
        self._options, self._sink, self._gate, self._name = options, sink, gate, name
        self._rows_per_task = rows_per_task
        self._caller = carried()  # the tasks' spans are below that of the driver
        self.prepared: list[PreparedWrite] = []
        self.report = WriteReport()

    def get_name(self) -> str:
        """The name in Ray's dashboard."""
        return "Topics"

    @property
    def min_rows_per_write(self) -> int | None:
        """The minimum number of rows per task."""
        return self._rows_per_task

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> PreparedWrite | WriteReport:
        """Write the rows of one task."""
        with below(self._caller):
            if self._sink is None:
                return write_arrow(_tables(blocks), self._options)
            task = f"{self._name}{ctx.task_idx}"
            return prepare_arrow(_tables(blocks), self._options, query=self._sink, task=task, gate=self._gate)

    def on_write_complete(self, write_result: WriteResult[Any]) -> None:
        """On the driver, after all tasks."""
        found = write_result.write_returns
        if self._sink is None:
            self.report = WriteReport.of([run for each in found for run in each.partitions])
        else:
            self.prepared = list(found)
            self.report = report_of(self.prepared)


def _tables(blocks: Iterable[Any]) -> Iterator[Any]:
    for block in blocks:
        table = BlockAccessor.for_block(block).to_arrow()
        if table.num_rows:
            yield table
