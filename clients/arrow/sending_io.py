"""`send_arrow` of both producers except the waiting: a generator that yields what it waits for.

It yields `Need`s; the caller waits as in `send`, and sends back None, or the error that ended the wait. Rows
are sent piece by piece, within a piece partition by partition, so their order in a partition is their order
in the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import TransactionAbortableError
from ...protocol.records.codec import active_codec
from ..producer.appending import NO_PARTITION, NO_TOPIC
from ..records import ProducerRecord
from .library import pc
from .pieces_io import Group, Piece, Rules, Spread, ready_pieces
from .result_io import ArrowResult, PieceResult
from .tables import Names, Table

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from ...protocol.errors import HeadraceError
    from ..config import ProducerConfig
    from ..producer.producer_io import ProducerEngine
    from ..producer.record_preparer_io import RecordPreparer
    from .tables import Rows

PAUSE = "pause"
# pyarrow.Table | pyarrow.RecordBatch | a data frame (pandas, or any with Arrow's C stream) | columns by name
ArrowData = Any


class Need(NamedTuple):
    """The missing resource: NO_TOPIC, NO_PARTITION (with a number), NO_MEMORY; or PAUSE: none, but other
    threads may run. `is_first`: rows were sent since the last need, so the wait starts again."""

    lacks: str
    partition: int | None = None
    is_first: bool = True


class ArrowSend:
    """One call. Errors: TypeError, ValueError for the table as a whole, before any row is sent."""

    def __init__(
        self, preparer: RecordPreparer, config: ProducerConfig, topic: str, data: Any, names: Names
    ) -> None:
        dumps_key, dumps_value = preparer.serializers()
        self.table = Table(data, names, key_serde=dumps_key is not None, value_serde=dumps_value is not None)
        self._preparer, self._topic = preparer, topic
        self._rules = Rules(
            topic,
            dumps_key,
            dumps_value,
            preparer.partitioner,
            config.partitioner_ignore_keys,
            config.max_request_size,
            max(config.batch_size, 1),
            active_codec(),
        )
        self._has_failed_rows = False
        # the buffer stayed full once: do not wait again for each piece
        self._error: HeadraceError | None = None
        self._may_grow = True  # False: waited once for more partitions, without result
        self._pieces: list[PieceResult] = []

    @property
    def needs_records(self) -> bool:
        """Whether rows have to be sent as single records, because of interceptors."""
        return self._preparer.is_intercepted

    def records(self) -> Iterator[ProducerRecord[Any, Any]]:
        """The rows as records for `send_many`."""
        plain_key, plain_value = (dumps is None for dumps in self._preparer.serializers())
        for row in self.table.records():
            key = row.key.encode() if plain_key and isinstance(row.key, str) else row.key
            value = row.value.encode() if plain_value and isinstance(row.value, str) else row.value
            pairs = row.headers or ()
            headers = [(p["key"], p["value"]) if isinstance(p, dict) else p for p in pairs]
            yield ProducerRecord(value, key, headers, row.partition, row.timestamp)

    def steps(self, engine: ProducerEngine) -> Generator[Need, HeadraceError | None, ArrowResult]:
        """Send all rows. Errors: the failure of the producer."""
        for rows in self.table.pieces():
            spread = yield from self._spread(engine, rows)
            now_ms = self._preparer.wall_ms()
            if spread is None:
                self._refuse(rows, now_ms)
                continue
            for part, piece in ready_pieces(rows, self._rules, spread, now_ms):
                yield from self._send_piece(engine, part, piece, now_ms)
            yield Need(PAUSE)
        return ArrowResult(self._pieces)

    def _spread(
        self, engine: ProducerEngine, rows: Rows
    ) -> Generator[Need, HeadraceError | None, Spread | None]:
        """The partitions of the topic; None if unknown."""
        if engine.spread(self._topic) is None and self._error is None:
            self._error = yield Need(NO_TOPIC)
        found = engine.spread(self._topic)
        if found is None:
            return None
        if rows.partition is not None and self._error is None:
            largest = pc.max(rows.partition).as_py()
            if largest is not None and found[0] <= largest < 2**31 and self._may_grow:
                # As in `send`: the topic may have grown. Rows with a partition that it does not have fail.
                self._may_grow = (yield Need(NO_PARTITION, largest)) is None
                found = engine.spread(self._topic) or found
        return Spread(*found)

    def _send_piece(
        self, engine: ProducerEngine, rows: Rows, piece: Piece, now_ms: int
    ) -> Generator[Need, HeadraceError | None, None]:
        columns = piece.columns
        result = PieceResult(rows.count, piece.rows, columns.timestamps, now_ms, columns.keys, columns.values)
        self._pieces.append(result)
        for group in piece.groups:
            if group.error is not None:
                self._fail(result, -1, group.end - group.start, group.error)
            else:
                yield from self._send_group(engine, piece, group, result, now_ms)

    def _send_group(
        self, engine: ProducerEngine, piece: Piece, group: Group, result: PieceResult, now_ms: int
    ) -> Generator[Need, HeadraceError | None, None]:
        start, partition, is_first = group.start, group.partition, True
        while start < group.end and self._error is None:
            try:
                runs, lacks = engine.append_rows(
                    self._topic, piece.columns, piece.rows, start, group.end, partition, now_ms
                )
            except TransactionAbortableError as error:
                if not self._has_failed_rows:
                    raise
                # Because of the failed row, which the IO thread may not have processed yet.
                self._error = error
                break
            except (TypeError, ValueError) as error:  # an error of this row only
                self._fail(result, -1 if partition is None else partition, 1, error)
                start += 1
                continue
            for delivery, first, count in runs:
                result.add(delivery, first, count)
                start += count
            is_first = is_first or bool(runs)
            if lacks is not None:
                self._error = yield Need(lacks, partition, is_first)
                is_first = False
        if start < group.end:
            assert self._error is not None
            failed = -1 if partition is None else partition
            self._fail(result, failed, group.end - start, self._error)

    def _fail(self, result: PieceResult, partition: int, count: int, error: BaseException) -> None:
        self._has_failed_rows = True
        self._preparer.tell_failed(error)
        result.add_failed(self._topic, partition, count, error)

    def _refuse(self, rows: Rows, now_ms: int) -> None:
        assert self._error is not None
        result = PieceResult(rows.count, None, None, now_ms, None, None)
        self._fail(result, -1, rows.count, self._error)
        self._pieces.append(result)


__all__ = ["PAUSE", "ArrowSend", "Names", "Need"]
