"""Prepares a piece of a table for sending: bytes of each column, partition of each row, invalid rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import (
    HeadraceError,
    InvalidPartitionsError,
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
)
from ...protocol.records.columns import Columns
from ..producer.partitioner import murmur2_sticky
from ..producer.record_preparer_io import HEADER_OVERHEAD_BYTES, OVERHEAD_BYTES
from .columns import (
    TooWide,
    binary_column,
    buffer_of,
    header_column,
    int32s,
    lengths,
    milliseconds,
    to_binary,
)
from .library import pa, pc
from .tables import is_binary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...protocol.records.codec import RecordCodec
    from ..producer.partitioner import Partitioner
    from ..producer.record_preparer_io import Dumps
    from .columns import Headers
    from .tables import Rows


class Rules(NamedTuple):
    """Settings of the producer that apply to each record."""

    topic: str
    dumps_key: Dumps | None
    dumps_value: Dumps | None
    partitioner: Partitioner
    ignore_keys: bool
    max_bytes: int  # per record
    stick_bytes: int  # batch.size
    codec: RecordCodec


class Spread(NamedTuple):
    """The partition count of the topic, and the order of the sticky partitions, the current one first."""

    partition_count: int
    sticky_order: Sequence[int]


class Group(NamedTuple):
    """Rows at positions start .. end of a piece for one partition (None: the current sticky partition), or
    invalid rows."""

    partition: int | None
    start: int
    end: int
    error: BaseException | None = None


class Piece(NamedTuple):
    """Rows prepared for sending, by group. `rows`: row numbers in the order of the groups, int32; None: in
    row order."""

    columns: Columns
    rows: Any
    groups: list[Group]


class _Faults:
    """Invalid rows by error; the first error of a row counts."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.errors: list[BaseException] = []
        self._numbers: Any = None  # int32 per row: index of its error, null for none

    def add(self, mask: Any, error: BaseException) -> None:
        """Mark the rows where `mask` (without nulls) is true."""
        if not pc.any(mask).as_py():
            return
        none = pa.nulls(self._count, pa.int32())
        mine = pc.if_else(mask, pa.scalar(len(self.errors), pa.int32()), none)
        self._numbers = mine if self._numbers is None else pc.coalesce(self._numbers, mine)
        self.errors.append(error)

    def add_rows(self, errors: Sequence[tuple[int, BaseException]]) -> None:
        """Mark single rows, each with its own error."""
        if not errors:
            return
        numbers: list[int | None] = [None] * self._count
        for row, error in errors:
            numbers[row] = len(self.errors)
            self.errors.append(error)
        mine = pa.array(numbers, pa.int32())
        self._numbers = mine if self._numbers is None else pc.coalesce(self._numbers, mine)

    def over(self, targets: Any, partition_count: int) -> Any:
        """`targets` with the invalid rows in groups of their own per error, numbered after the partitions."""
        if self._numbers is None:
            return targets
        groups = pc.add(self._numbers, pa.scalar(partition_count, pa.int32()))
        if targets is None:
            targets = pa.repeat(pa.scalar(-1, pa.int32()), self._count)
        return pc.coalesce(groups, targets)


def ready_pieces(rows: Rows, rules: Rules, spread: Spread, now_ms: int) -> Iterator[tuple[Rows, Piece]]:
    """The rows as one piece, or as several if a column would exceed 2 GB."""
    try:
        piece = _ready(rows, rules, spread, now_ms)
    except TooWide:
        if rows.count > 1:
            half = rows.count // 2
            yield from ready_pieces(rows.slice(0, half), rules, spread, now_ms)
            yield from ready_pieces(rows.slice(half, rows.count - half), rules, spread, now_ms)
            return
        error = MessageTooLargeError(f"a record of more than 2 GB for {rules.topic!r}")
        piece = Piece(Columns(1, None), None, [Group(None, 0, 1, error)])
    yield rows, piece


def _ready(rows: Rows, rules: Rules, spread: Spread, now_ms: int) -> Piece:
    count, partition_count, faults = rows.count, spread.partition_count, _Faults(rows.count)
    pairs = _header_lists(rows, rules)
    key = None if rows.key is None else _bytes_of(rows.key, rules.dumps_key, rules.topic, pairs, faults)
    value = _bytes_of(rows.value, rules.dumps_value, rules.topic, pairs, faults)
    headers = None if rows.headers is None else header_column(rows.headers)
    timestamps = None
    if rows.timestamp is not None and rows.timestamp.null_count < count:
        times = milliseconds(rows.timestamp, now_ms)
        faults.add(pc.less(times, 0), ValueError("a timestamp must not be before 1970"))
        timestamps = buffer_of(times, 8)

    def sizes() -> Any:
        return _sizes(key, value, headers)

    if headers is not None or _longest(key, value) > rules.max_bytes - OVERHEAD_BYTES:
        _check_sizes(sizes(), rules, faults)
    keys = None if key is None else binary_column(key)
    targets = _targets(rows, key, keys, rules, partition_count, faults)
    if targets is not None:
        targets = _stick_among(targets, sizes, spread.sticky_order, rules.stick_bytes)
    targets = faults.over(targets, partition_count)
    columns = Columns(
        count, binary_column(value), keys, timestamps, None if headers is None else headers.column
    )
    if targets is None:
        return Piece(columns, None, [Group(None, 0, count)])
    order, starts = rules.codec.partition_rows(buffer_of(targets, 4), partition_count + len(faults.errors))
    return Piece(columns, order, _groups(starts, partition_count, faults.errors))


def _groups(starts: Sequence[int], partition_count: int, errors: list[BaseException]) -> list[Group]:
    groups = []
    for number in range(len(starts) - 1):
        start, end = starts[number], starts[number + 1]
        if start == end:
            continue
        if number < partition_count:
            groups.append(Group(number, start, end))
        elif number < partition_count + len(errors):
            groups.append(Group(None, start, end, errors[number - partition_count]))
        else:
            groups.append(Group(None, start, end))
    return groups


def _header_lists(rows: Rows, rules: Rules) -> list[Any] | None:
    """Headers for serdes; None without serdes."""
    has_serde = not is_binary(rows.value.type) or (rows.key is not None and not is_binary(rows.key.type))
    if rows.headers is None or not has_serde:
        return None
    found = rows.headers.to_pylist(maps_as_pydicts=None)
    return [tuple(_pair(pair) for pair in pairs or ()) for pairs in found]


def _pair(pair: Any) -> tuple[str, bytes | None]:
    name, value = (pair["key"], pair["value"]) if isinstance(pair, dict) else pair
    return name, value.encode() if isinstance(value, str) else value


def _bytes_of(column: Any, dumps: Dumps | None, topic: str, pairs: list[Any] | None, faults: _Faults) -> Any:
    if is_binary(column.type):
        return to_binary(column)
    assert dumps is not None, "Table has checked the types"
    found: list[bytes | None] = []
    errors: list[tuple[int, BaseException]] = []
    for row, item in enumerate(column.to_pylist()):
        data = None
        try:
            data = None if item is None else dumps(topic, item, () if pairs is None else pairs[row])
        except (HeadraceError, TypeError, ValueError) as error:
            errors.append((row, error))
        found.append(data)
    faults.add_rows(errors)
    if sum(len(data) for data in found if data is not None) > 2**31 - 1:
        raise TooWide
    return pa.array(found, pa.binary())


def _sizes(key: Any, value: Any, headers: Headers | None) -> Any:
    """Bytes of each row, int64."""
    sizes = lengths(value)
    if key is not None:
        sizes = pc.add(sizes, lengths(key))
    return sizes if headers is None else pc.add(sizes, headers.row_bytes(HEADER_OVERHEAD_BYTES))


def _longest(*columns: Any) -> int:
    """An upper bound of the bytes of a row: the longest value of each column, added up. Faster than the size
    of each row."""
    return sum(pc.max(pc.binary_length(column)).as_py() or 0 for column in columns if column is not None)


def _check_sizes(sizes: Any, rules: Rules, faults: _Faults) -> None:
    largest = rules.max_bytes - OVERHEAD_BYTES
    if pc.max(sizes).as_py() > largest:
        error = MessageTooLargeError(
            f"a record for {rules.topic!r} does not fit max.request.size ({rules.max_bytes})"
        )
        faults.add(pc.greater(sizes, largest), error)


def _stick_among(targets: Any, sizes: Callable[[], Any], order: Sequence[int], stick_bytes: int) -> Any:
    """Partition rows for the sticky partitioner that are mixed with partitioned rows: each gets its partition
    here, so that rows of a partition stay in order; the next one every `stick_bytes`."""
    is_free = pc.less(targets, 0)
    if not pc.any(is_free).as_py() or pc.all(is_free).as_py():
        return targets
    turns = pc.divide(pc.cumulative_sum(pc.if_else(is_free, sizes(), 0)), stick_bytes)
    turns = pc.subtract(turns, pc.multiply(pc.divide(turns, len(order)), len(order)))
    return pc.if_else(is_free, pc.take(pa.array(order, pa.int32()), turns), targets)


def _targets(rows: Rows, key: Any, keys: Any, rules: Rules, partition_count: int, faults: _Faults) -> Any:
    """The partition of each row, -1 for the sticky partitioner; None if all are -1."""
    targets = None
    if rules.partitioner is not murmur2_sticky:
        targets = _by_partitioner(rows, key, rules, partition_count, faults)
    elif keys is not None and not rules.ignore_keys:
        hashes = pa.Array.from_buffers(
            pa.uint32(), rows.count, [None, pa.py_buffer(rules.codec.hash_column(keys, rows.count))]
        )
        positive = pc.bit_wise_and(hashes, pa.scalar(0x7FFFFFFF, pa.uint32())).cast(pa.int32())
        whole = pc.multiply(pc.divide(positive, pa.scalar(partition_count, pa.int32())), partition_count)
        targets = pc.subtract(positive, whole.cast(pa.int32()))
        if key.null_count:
            targets = pc.if_else(pc.is_null(key), pa.scalar(-1, pa.int32()), targets)
    if rows.partition is None or rows.partition.null_count == rows.count:
        return targets
    given = int32s(rows.partition)
    is_bad = pc.fill_null(pc.or_(pc.less(given, 0), pc.greater_equal(given, partition_count)), False)
    text = f"the partitions of {rules.topic!r} are 0 to {partition_count - 1}; a row names another one"
    faults.add(is_bad, UnknownTopicOrPartitionError(text))
    return pc.coalesce(given, pa.scalar(-1, pa.int32()) if targets is None else targets)


def _by_partitioner(rows: Rows, key: Any, rules: Rules, partition_count: int, faults: _Faults) -> Any:
    """Call the partitioner row by row, as `send` does, except for rows with a partition."""
    found: list[int] = []
    errors: list[tuple[int, BaseException]] = []
    keys = [None] * rows.count if key is None else key.to_pylist()
    given = [None] * rows.count if rows.partition is None else rows.partition.to_pylist()
    for row, item in enumerate(keys):
        chosen: int | None = None
        if given[row] is None:
            try:
                chosen = rules.partitioner(rules.topic, item, partition_count)
                if chosen is not None and not 0 <= chosen < partition_count:
                    raise InvalidPartitionsError(
                        f"the partitioner chose {chosen} of {partition_count} partitions of {rules.topic!r}"
                    )
            except (HeadraceError, TypeError, ValueError) as error:
                errors.append((row, error))
                chosen = None
        found.append(-1 if chosen is None else chosen)
    faults.add_rows(errors)
    return pa.array(found, pa.int32())
