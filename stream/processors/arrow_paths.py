"""Batches of a source topic through Arrow sections to the sink, without an object per record.

A shortcut for the processors of `arrow_sections`, with the same result. What fails here is processed by them
again, record by record: they know what an error handler needs.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from ...clients.arrow.library import pa, pc
from ..errors import StreamsError
from ..topology.serdes import resolve
from . import arrow_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..task.settings import TaskSettings
    from ..topology.column_paths import ColumnPath


class ColumnRecord(NamedTuple):
    """A record of a batch. It is an InputRecord."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Any


class PathResult(NamedTuple):
    """`rows` to send, or without a sink to forward; None if there are none. The latest timestamp of the input
    in ms."""

    rows: Any
    latest_ms: int


class ArrowPath:
    """The path of one source topic."""

    def __init__(self, path: ColumnPath, settings: TaskSettings) -> None:
        self._functions = [section.supplier.function for section in path.sections]  # type: ignore[attr-defined]
        self._key, self._value = serdes_of(path.source, settings)
        self.last_section = path.sections[-1].name
        self.sink_topic = ""
        if path.sink is not None:
            assert isinstance(path.sink.topic, str)
            self.sink_topic = path.sink.topic
            self._sink_key, self._sink_value = serdes_of(path.sink, settings)

    def run(self, batch: Any) -> PathResult:
        """`batch`: rows of one partition in the layout of ARROW_SCHEMA. Errors: any."""
        topic = batch.column("topic")[0].as_py()
        timestamps = batch.column("timestamp")
        if timestamps.null_count:
            raise StreamsError("a record has no timestamp")
        latest_ms = pc.max(timestamps).value // 1000
        rows = _replaced(
            batch,
            arrow_columns.decoded(batch.column("key"), self._key, topic, "key"),
            arrow_columns.decoded(batch.column("value"), self._value, topic, "value"),
        )
        is_first = True
        for function in self._functions:
            if not is_first:
                rows = _as_input(rows, batch, latest_ms)
            rows = arrow_columns.checked(function(rows))
            if rows is None:
                return PathResult(None, latest_ms)
            is_first = False
        return PathResult(self._to_send(rows, latest_ms) if self.sink_topic else rows, latest_ms)

    def _to_send(self, rows: Any, latest_ms: int) -> Any:
        topic = self.sink_topic
        columns = {
            "value": arrow_columns.encoded(rows.column("value"), self._sink_value, topic, "value"),
            "timestamp": arrow_columns.timestamps_ms(rows, latest_ms),
        }
        key, headers = arrow_columns.column(rows, "key"), arrow_columns.column(rows, "headers")
        if key is not None:
            columns["key"] = arrow_columns.encoded(key, self._sink_key, topic, "key")
        if headers is not None:
            columns["headers"] = headers
        return pa.RecordBatch.from_pydict(columns)


def serdes_of(node: Any, settings: TaskSettings) -> tuple[Any, Any]:
    """Of key and value of a source or sink."""
    defaults = {"key": settings.key_serde, "value": settings.value_serde}
    return resolve(node.key, "key", **defaults), resolve(node.value, "value", **defaults)


def _replaced(batch: Any, key: Any, value: Any) -> Any:
    columns = {name: batch.column(name) for name in batch.schema.names}
    return pa.RecordBatch.from_pydict({**columns, "key": key, "value": value})


def _as_input(rows: Any, batch: Any, latest_ms: int) -> Any:
    """What a section returned, as the input of the next one: at the position of the last record."""
    count = rows.num_rows
    last = batch.slice(batch.num_rows - 1)
    headers = arrow_columns.column(rows, "headers")
    key = arrow_columns.column(rows, "key")
    timestamps = arrow_columns.timestamps_ms(rows, latest_ms)
    columns = {
        "key": pa.nulls(count) if key is None else key,
        "value": rows.column("value"),
        **{name: pa.repeat(last.column(name)[0], count) for name in ("topic", "partition", "offset")},
        "timestamp": timestamps.cast(arrow_columns.MS).cast(arrow_columns.US),
        "timestampType": pa.repeat(pa.scalar(0, pa.int32()), count),
        "headers": arrow_columns.headers_of([()] * count) if headers is None else headers,
    }
    return pa.RecordBatch.from_pydict(columns)


def records_of(batch: Any) -> list[ColumnRecord]:
    """The rows of one partition in the layout of ARROW_SCHEMA as records."""
    offsets, keys, values = (batch.column(name).to_pylist() for name in ("offset", "key", "value"))
    timestamps = arrow_columns.timestamps_ms(batch, -1).to_pylist()
    topic, partition = repeat(batch.column("topic")[0].as_py()), repeat(batch.column("partition")[0].as_py())
    headers = arrow_columns.headers_from(batch)
    return list(map(ColumnRecord, topic, partition, offsets, timestamps, keys, values, headers))


def by_partition(batch: Any) -> Iterator[tuple[str, int, Any]]:
    """Topic, partition and rows, in the order of their offsets: a batch of a consumer has the rows of each
    partition in this order, in few runs."""
    runs: dict[tuple[str, int], list[Any]] = {}
    topics, partitions = batch.column("topic"), batch.column("partition")
    start = 0
    for end in _ends(topics, partitions):
        place = topics[start].as_py(), partitions[start].as_py()
        runs.setdefault(place, []).append(batch.slice(start, end - start))
        start = end
    for (topic, partition), rows in runs.items():
        yield topic, partition, rows[0] if len(rows) == 1 else pa.concat_batches(rows)


def _ends(topics: Any, partitions: Any) -> list[int]:
    """Where topic or partition change, and the end."""
    found: set[int] = set(pc.run_end_encode(partitions).run_ends.to_pylist())
    if not pc.all(pc.equal(topics, topics[0])).as_py():
        found.update(pc.run_end_encode(topics.dictionary_encode().indices).run_ends.to_pylist())
    return sorted(found)
