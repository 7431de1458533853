"""Functions of the user on Arrow batches of a stream's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...clients.arrow.layout import ARROW_SCHEMA
from ...clients.arrow.library import pa
from ..errors import ProcessorFailedError
from ..processing import PunctuationType
from ..records import Record
from . import arrow_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...clients.records import Headers
    from ..processing import ProcessorContext
    from ..records import RecordContext

CREATE_TIME = 0


class KStreamArrow:
    """Forwards the rows that `function` returns for a batch of records.

    A batch has the records of one topic, at most `batch` and none that waits longer than `max_wait_ms` or
    than a commit. A serde that is None: columns have the types of the values.
    """

    is_arrow_section = True

    def __init__(
        self,
        function: Callable[[Any], Any],
        batch: int,
        max_wait_ms: int,
        key_serde: Any = None,
        value_serde: Any = None,
    ) -> None:
        self.function = function
        self.batch = batch
        self.max_wait_ms = max_wait_ms
        self.key_serde = key_serde
        self.value_serde = value_serde

    def create(self) -> ArrowSection:
        """The section of one task."""
        return ArrowSection(self)

    def stores(self) -> tuple[Any, ...]:
        """None."""
        return ()


class Rows:
    """Records of one topic that wait for their batch."""

    def __init__(self) -> None:
        self.records: list[Record[Any, Any]] = []
        self.contexts: list[RecordContext] = []

    def batch(self, key_type: Any, value_type: Any) -> Any:
        """In the layout of ARROW_SCHEMA, with keys and values of their own types."""
        keys, values, timestamps, headers = zip(*self.records, strict=True)
        contexts = self.contexts
        columns = {
            "key": pa.array(keys, key_type),
            "value": pa.array(values, value_type),
            "topic": pa.array([context.topic for context in contexts], pa.string()),
            "partition": pa.array([context.partition for context in contexts], pa.int32()),
            "offset": pa.array([context.offset for context in contexts], pa.int64()),
            "timestamp": arrow_columns.timestamps_of(timestamps),
            "timestampType": pa.array([CREATE_TIME] * len(timestamps), pa.int32()),
            "headers": arrow_columns.headers_of(headers),
        }
        assert list(columns) == ARROW_SCHEMA.names
        return pa.RecordBatch.from_pydict(columns)


class ArrowSection:
    """The section of one task. Rows that wait are processed before a commit: `flush`."""

    def __init__(self, supplier: KStreamArrow) -> None:
        self._supplier = supplier
        self._types = tuple(map(arrow_columns.type_of, (supplier.key_serde, supplier.value_serde)))
        self._waiting: dict[str, Rows] = {}

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._forward = context.forward_changed
        context.flush_before_commit(self)
        context.schedule(
            self._supplier.max_wait_ms, PunctuationType.WALL_CLOCK_TIME, lambda _now: self._flush_all()
        )

    def __bool__(self) -> bool:
        """Whether records wait."""
        return bool(self._waiting)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        where = self._context.record_context
        assert where is not None, "a record is processed"
        rows = self._waiting.get(where.topic)
        if rows is None:
            rows = self._waiting[where.topic] = Rows()
        rows.records.append(Record(key, value, timestamp, headers))
        rows.contexts.append(where)
        if len(rows.records) >= self._supplier.batch:
            self._run(where.topic)

    def flush(self) -> None:
        """Process what waits."""
        self._flush_all()

    def _flush_all(self) -> None:
        while self._waiting:
            self._run(next(iter(self._waiting)))

    def _run(self, topic: str) -> None:
        rows = self._waiting.pop(topic)
        context = self._context
        before = context.record_context
        result = self._call(rows)
        if result is not None:
            context.record_context = rows.contexts[-1]  # also for an error of what follows
            latest_ms = max(record.timestamp for record in rows.records)
            self.forward_rows(result, latest_ms)
        context.record_context = before

    def forward_rows(self, result: Any, latest_ms: int) -> None:
        """Forward what the function returned. `latest_ms`: the timestamp of rows without one."""
        for row in arrow_columns.rows_of(result, latest_ms):
            self._forward(*row)

    def _call(self, rows: Rows) -> Any:
        try:
            return arrow_columns.checked(self._supplier.function(rows.batch(*self._types)))
        except Exception as error:  # noqa: BLE001  # of the user's function; the handler decides
            self._fail(rows, error)
            return None

    def _fail(self, rows: Rows, error: Exception) -> None:
        """Ask the handler about each record of the batch: any of them may be the cause."""
        for record, where in zip(rows.records, rows.contexts, strict=True):
            self._context.record_context = where
            try:
                self._context.fail(record, error)
            except ProcessorFailedError as failure:
                first, last = rows.contexts[0], rows.contexts[-1]
                failure.offsets = (first.topic, first.partition, first.offset, last.offset)
                raise

    def close(self) -> None:
        self._waiting.clear()
