"""`write_arrow` and `prepare_arrow`: write the Arrow batches of one task to topics.

At least once: an idempotent producer, flushed at the end; a task that runs again writes again. Exactly once:
a task prepares its rows in a transaction that stays open, and the driver ends it, see `sink_io`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any

from ...protocol.errors import (
    HeadraceError,
    InvalidProducerEpochError,
    ProducerFencedError,
    TransactionAbortableError,
)
from ...protocol.model import TopicPartition
from ..arrow.library import pa, pc
from ..arrow.result_io import ArrowResult
from ..sync.producer_io import Producer
from .commits import Gate, attempt_name, task_id
from .gate_io import check_gates
from .measures_io import pipelines
from .pool_io import shared_cluster
from .sink_options import checked_names
from .written import PreparedWrite, WriteReport, Written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..arrow.tables import Names
    from ..producer.delivery_io import Delivery
    from .sink_options import WriteOptions


def write_arrow(batches: Iterable[Any], options: WriteOptions) -> WriteReport:
    """Write record batches or tables at least once; returns when all rows are acknowledged.

    Columns: `value` and optionally key, topic, partition, headers, timestamp; the option `topic` overrides
    the column. Errors: TypeError, ValueError for invalid columns; the first error of a row, after which other
    rows may be stored or not.
    """
    with shared_cluster(options.bootstrap, options.client) as cluster:
        producer = Producer(cluster)
        try:
            return _write(producer, batches, options)
        finally:
            with contextlib.suppress(HeadraceError):  # the first error of a row is raised, not this one
                producer.close(0)


def prepare_arrow(
    batches: Iterable[Any],
    options: WriteOptions,
    *,
    query: str,
    task: str | int,
    attempt: int = 0,
    gate: Gate | Iterable[Gate] | None = None,
) -> PreparedWrite:
    """Write in a transaction that stays open, for the driver's `Sink` of that `query` to commit or abort.

    An earlier attempt of the same task and number is fenced, and its rows are aborted. With the number of
    each `attempt` (0 is the first) a late one cannot fence its successor: each has a transactional id, and
    `Sink.commit` aborts those of the others. With the `gate` of its job (`Sink.open_gate`), or several gates,
    an attempt after the end of the job does neither, and writes nothing. Errors: as `write_arrow`;
    ProducerFencedError if a later attempt has started, or the attempt is too late; its rows are aborted then.
    """
    gates = (gate,) if isinstance(gate, Gate) else tuple(gate or ())
    own = attempt_name(task, attempt)
    name = task_id(query, own)
    with shared_cluster(options.bootstrap, options.client) as cluster:
        check_gates(cluster.io, options, gates)
        producer = Producer(cluster, transactional_id=name)
        try:
            producer.init_transactions()
            # Order: the driver closes the gate before it searches ids. An attempt that finds it open here is
            # found.
            check_gates(cluster.io, options, gates)
            producer.begin_transaction()
            report = _write(producer, batches, options)
            prepared = producer.prepare_transaction()
        except HeadraceError as error:
            if not _is_fenced(error):
                raise
            raise ProducerFencedError(
                f"task {task} of {query!r}: a later attempt has started, or its job has ended, or it took"
                f" longer than transaction.timeout.ms ({error})"
            ) from error
        finally:
            producer.close()  # aborts the transaction unless it is prepared
    return PreparedWrite(own, name, prepared.producer_id, prepared.producer_epoch, report, attempt > 0)


def _is_fenced(error: BaseException | None) -> bool:
    if isinstance(error, TransactionAbortableError):
        error = error.__cause__
    return isinstance(error, ProducerFencedError | InvalidProducerEpochError)


def _write(producer: Producer[bytes, bytes], batches: Iterable[Any], options: WriteOptions) -> WriteReport:
    outcomes = _Outcomes()
    schema: Any = None
    names: Names | None = None
    for batch in batches:
        if not isinstance(batch, pa.RecordBatch | pa.Table):
            raise TypeError(f"a task must write pyarrow record batches or tables, not {type(batch).__name__}")
        if names is None or batch.schema != schema:
            names, schema = checked_names(batch, options.topic), batch.schema
        for topic, rows in _by_topic(batch, options.topic):
            found = producer.send_arrow(topic, rows, **names._asdict())
            assert isinstance(found, ArrowResult), "there are no interceptors"
            pipelines.sent(topic, rows.nbytes)
            outcomes.add(found)
    producer.flush()
    return outcomes.finish()


def _by_topic(batch: Any, topic: str | None) -> Iterator[tuple[str, Any]]:
    """The rows of each topic in their order."""
    if not batch.num_rows:
        return
    if topic is not None:
        yield topic, batch
        return
    # As plain text: dictionaries hide nulls, and views cannot be compared or filtered.
    column = batch.column("topic").cast(pa.large_string())
    if column.null_count:
        raise ValueError("column 'topic' has a null, and the option topic is not set")
    names = pc.unique(column).to_pylist()
    if len(names) > 1:
        batch = batch.cast(pa.schema([_without_views(field) for field in batch.schema]))
    for name in names:
        yield name, batch if len(names) == 1 else batch.filter(pc.equal(column, name))


def _without_views(field: Any) -> Any:
    if pa.types.is_string_view(field.type):
        return field.with_type(pa.large_string())
    return field.with_type(pa.large_binary()) if pa.types.is_binary_view(field.type) else field


class _Outcomes:
    """Collects acknowledgements during the write, so that a long task does not keep an object per batch."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Delivery, int, int]] = deque()
        self._stored: dict[tuple[str, int], Written] = {}

    def add(self, result: ArrowResult) -> None:
        """Track sent rows. Errors: of rows that failed already."""
        waiting = self._waiting
        waiting.extend(result.runs())
        while waiting and waiting[0][0].is_done:
            self._settle(*waiting.popleft())

    def finish(self) -> WriteReport:
        """The report after a flush. Errors: the first one of a row."""
        while self._waiting:
            self._settle(*self._waiting.popleft())
        return WriteReport.of((TopicPartition(*place), found) for place, found in self._stored.items())

    def _settle(self, delivery: Delivery, index: int, count: int) -> None:
        first, _, error = delivery.outcome(index)
        last = first + count - 1
        if error is None and delivery.parts is not None:
            last, _, error = delivery.outcome(index + count - 1)
        if error is not None:
            raise error
        pipelines.stored(delivery.topic, count)
        place = delivery.topic, delivery.partition
        before = self._stored.get(place)
        if before is None:
            self._stored[place] = Written(count, first, last)
        else:
            self._stored[place] = Written(
                before.rows + count, min(before.first, first), max(before.last, last)
            )
