"""`write`: a Dataset into topics, at least once, or exactly once by the core's `Sink`.

Exactly once goes in two steps: each of Ray's write tasks leaves a transaction open, and the driver decides
about all of them. A task that runs again fences its first attempt off: Ray gives it the same number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.data import Datasink
from ray.data.block import BlockAccessor

from ...protocol.errors import ConfigError, HeadraceError
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
    """Write the rows of a Dataset: a column `value` and, if wanted, key, topic, partition, headers,
    timestamp; `topic` goes before the column. Other `options` are those of a write in docs/PIPELINE.md, and
    Ray's `concurrency` and `ray_remote_args`. Tasks take `rows_per_task` rows at least.

    Without `sink` at least once: tasks that run again write again. `sink` names the sink that decides: all
    rows are seen by readers of committed records, or none. With the number of the `batch`, which ascends, a
    driver that is started again writes it once: None, and nothing is run, if it was committed before.

    Errors: ConfigError for options; those of tasks come out of Ray, columns that cannot be records
    (TypeError, ValueError) among them; InvalidTxnStateError, ProducerFencedError, ApiTimeoutError and
    DataLossError as of `Sink`: nothing of the batch is seen then, unless it says that this is not known.
    """
    of_tasks, given = split(options, OF_WRITE_TASKS)
    checked = checked_options(topic, bootstrap_servers, given)
    if sink is None:
        if batch is not None:
            raise ConfigError("the number of a batch needs a sink that remembers it")
        plain = TopicDatasink(checked, rows_per_task=rows_per_task)
        dataset.write_datasink(plain, **of_tasks)
        return plain.report
    with Sink(checked, sink) as driver:
        number = batch if batch is not None else next_batch(driver)
        if driver.is_committed(number):
            return None
        driver.abort_leftovers()  # of a driver that is no more: their rows keep readers waiting
        gate = driver.open_gate()
        datasink = TopicDatasink(checked, sink=sink, gate=gate, rows_per_task=rows_per_task)
        prepare(dataset, datasink, driver, of_tasks)
        # Order: after Ray's part, which would abort what it takes for failed, and that may be decided.
        driver.commit(number, datasink.prepared)
        return datasink.report


def checked_options(topic: str | None, bootstrap: Any, given: dict[str, Any]) -> WriteOptions:
    """Options of a write, with an address. Errors: ConfigError, NoClusterError."""
    options = dict(given)
    if bootstrap is not None:
        options["bootstrap.servers"] = bootstrap
    if topic is not None:
        options["topic"] = topic
    return write_options(with_bootstrap(options))


def next_batch(driver: Sink) -> int:
    """The number after the last one that was committed."""
    return 0 if driver.last_batch is None else driver.last_batch + 1


def prepare(
    dataset: Dataset,
    datasink: TopicDatasink,
    driver: Sink,
    of_tasks: dict[str, Any],
    keep: Sequence[PreparedWrite] = (),
) -> None:
    """Run a Dataset; its rows lie in open transactions then. If it fails or is interrupted, all that tasks
    have left open is undone, but for what is to be kept."""
    try:
        dataset.write_datasink(datasink, **of_tasks)
    except BaseException as error:
        try:
            driver.abort_leftovers(keep)
        except HeadraceError as failed:
            error.add_note(f"what its tasks wrote could not be undone: {failed!r}")
        raise


def report_of(prepared: Iterable[PreparedWrite]) -> WriteReport:
    """What all of them wrote."""
    return WriteReport.of([run for each in prepared for run in each.report.partitions])


class TopicDatasink(Datasink[Any]):  # of reports, or with a sink of prepared writes
    """For `Dataset.write_datasink`. Small, and can be pickled.

    With the name of a `sink`, tasks leave transactions open, which `prepared` tells on the driver: whoever
    has opened the core's `Sink` of that name commits them, and gives a `gate` that shuts late attempts out;
    `name` keeps several writes of a batch apart.
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
            raise ConfigError(f"rows_per_task must be a whole number from 1 on, not {rows_per_task!r}")
        self._options, self._sink, self._gate, self._name = options, sink, gate, name
        self._rows_per_task = rows_per_task
        self.prepared: list[PreparedWrite] = []
        self.report = WriteReport()

    def get_name(self) -> str:
        """As Ray's own pages call it."""
        return "Topics"

    @property
    def min_rows_per_write(self) -> int | None:
        """How many rows a task has at least, if there are as many."""
        return self._rows_per_task

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> PreparedWrite | WriteReport:
        """In a task: its rows into topics."""
        if self._sink is None:
            return write_arrow(_tables(blocks), self._options)
        task = f"{self._name}{ctx.task_idx}"
        return prepare_arrow(_tables(blocks), self._options, query=self._sink, task=task, gate=self._gate)

    def on_write_complete(self, write_result: WriteResult[Any]) -> None:
        """On the driver: all tasks are done."""
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
