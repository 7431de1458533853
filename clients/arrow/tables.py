"""Validates the argument of `send_arrow` and splits it into pieces of the used columns. Pure.

Errors of the table as a whole are raised here, before any row is sent: missing columns, invalid types, header
names that are not UTF-8, invalid offsets.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..records import normalize_headers
from .layout import HEADERS_TYPE
from .library import pa

if TYPE_CHECKING:
    from collections.abc import Iterator

# Bounds: a piece is encoded partition by partition, so this bounds how long one partition delays the others.
PIECE_ROWS = 65_536
PIECE_BYTES = 8 << 20
# Smaller chunks on average are concatenated first: the work per chunk would outweigh the rows.
FEW_ROWS = 256


class Names(NamedTuple):
    """The column name of each record field; None: not used. Only `value` is required."""

    key: str | None
    value: str | None
    headers: str | None
    partition: str | None
    timestamp: str | None


class Rows(NamedTuple):
    """Consecutive rows as Arrow arrays of one length; None for a missing column."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    key: Any
    value: Any
    headers: Any
    partition: Any
    timestamp: Any

    def slice(self, start: int, count: int) -> Rows:
        columns = (None if column is None else column.slice(start, count) for column in self[1:])
        return Rows(count, *columns)


class Table:
    """The used columns of the argument, validated. `key_serde`, `value_serde`: the producer has a serde for
    them, so other types than bytes and text are valid.

    Errors: TypeError for an argument that is not a table or an invalid column type; ValueError for a missing
    or duplicate column, columns of unequal length, invalid data.
    """

    def __init__(self, data: Any, names: Names, *, key_serde: bool, value_serde: bool) -> None:
        for field, name in zip(Names._fields, names, strict=True):
            if not (name is None or isinstance(name, str)):
                raise TypeError(f"{field}= must be a column name or None, not {type(name).__name__} {name!r}")
        if names.value is None:
            raise ValueError("value= must name the column of the values")
        table = _table(data, names)
        self.count: int = table.num_rows
        self._names = Names(*(_found(table, name) for name in names))
        for field, name, found in zip(Names._fields, names, self._names, strict=True):
            # columns with default names may be missing, but not explicitly named ones
            if found is None and name is not None and (field == "value" or name != field):
                raise ValueError(f"no column {name!r} for {field}=; the columns are {_known(data, table)}")
        used = [name for name in self._names if name is not None]
        self._table = table.select(list(dict.fromkeys(used)))
        self._check_types(key_serde, value_serde)
        try:
            self._table.validate(full=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"the columns {used} have invalid data: {error}") from error
        if self._names.headers is not None:
            _check_headers(self._names.headers, self._table.column(self._names.headers))

    def pieces(self) -> Iterator[Rows]:
        """The rows in order, at most PIECE_ROWS and, if of even size, PIECE_BYTES per piece."""
        table = self._table
        chunks = max((column.num_chunks for column in table.columns), default=0)
        if chunks > 1 and table.num_rows < FEW_ROWS * chunks:
            table = table.combine_chunks()
        for batch in table.to_batches():
            columns = {name: _plain(batch.column(name)) for name in batch.schema.names}
            picked = (None if name is None else columns[name] for name in self._names)
            rows = Rows(batch.num_rows, *picked)
            size_bytes = max(sum(_bytes(column) for column in columns.values()), 1)
            step = max(min(PIECE_ROWS, rows.count * PIECE_BYTES // size_bytes), 1)
            for start in range(0, rows.count, step):
                yield rows.slice(start, min(step, rows.count - start))

    def records(self) -> Iterator[Any]:
        """The rows as Python values in the fields of `Names`; for interceptors."""
        for rows in self.pieces():
            columns = [column if column is None else column.to_pylist() for column in rows[1:]]
            for index in range(rows.count):
                yield Names._make(None if column is None else column[index] for column in columns)

    def _check_types(self, key_serde: bool, value_serde: bool) -> None:
        schema, names = self._table.schema, self._names
        for field, name, has_serde in (("key", names.key, key_serde), ("value", names.value, value_serde)):
            if name is not None and not has_serde and not is_binary(schema.field(name).type):
                kind = schema.field(name).type
                raise TypeError(
                    f"column {name!r} has type {kind}: a {field} must be binary or text; cast it, or create"
                    " the"
                    f" producer with a serde, such as {field}=headrace.json"
                )
        if names.partition is not None:
            kind = schema.field(names.partition).type
            if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
                hint = "; pandas converts integers with missing values to floats: use its dtype 'Int64'"
                raise TypeError(
                    f"column {names.partition!r} has type {kind}: partitions must be integers"
                    f"{hint if pa.types.is_floating(kind) else ''}"
                )
        if names.timestamp is not None:
            _check_timestamp(names.timestamp, schema.field(names.timestamp).type)
        if names.headers is not None:
            _check_headers_type(names.headers, schema.field(names.headers).type)


def is_binary(kind: Any) -> bool:
    """Whether an Arrow type is bytes or text, in any layout."""
    types = pa.types
    kind = _bare(kind)
    return (
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind) or is_text(kind) or types.is_null(kind)
    )  # fmt: skip


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is a UTF-8 string, in any layout."""
    types = pa.types
    kind = _bare(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _bare(kind: Any) -> Any:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _table(data: Any, names: Names) -> Any:
    wanted = [name for name in dict.fromkeys(names) if name is not None]
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Mapping):
        return _from_mapping(data, wanted, names.headers)
    if type(data).__name__ == "DataFrame" and hasattr(data, "iloc"):  # pandas
        try:
            return _from_pandas(data[[name for name in wanted if name in data.columns]], names.headers)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise TypeError(f"the data frame cannot be converted to an Arrow table: {error}") from error
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        with contextlib.suppress(pa.ArrowInvalid):  # a single column has these attributes too
            return pa.table(data)
    raise TypeError(
        "send_arrow needs a pyarrow RecordBatch or Table, a data frame, or a dict of columns, not"
        f" {type(data).__name__}"
    )


def _from_pandas(frame: Any, headers: str | None) -> Any:
    if list(frame.columns).count(headers) != 1 or frame[headers].dtype != object:
        return pa.Table.from_pandas(frame, preserve_index=False)
    # pyarrow cannot convert pairs given as tuples, or dicts; pandas may represent None as a float
    found = [None if isinstance(item, float) else item for item in frame[headers]]
    column = pa.array(_header_lists(found), HEADERS_TYPE)
    others = pa.Table.from_pandas(frame.drop(columns=[headers]), preserve_index=False)
    return others.append_column(headers, column) if others.num_columns else pa.table({headers: column})


def _known(data: Any, table: Any) -> list[Any]:
    """All given columns; `table` may have the used ones only."""
    return list(data) if isinstance(data, Mapping) or hasattr(data, "iloc") else list(table.column_names)


def _from_mapping(data: Mapping[Any, Any], wanted: list[str], headers: str | None) -> Any:
    columns = {name: _column(name, data[name], name == headers) for name in wanted if name in data}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns have different lengths: {lengths}")
    return pa.table(columns)


def _column(name: str, given: Any, is_headers: bool) -> Any:
    if isinstance(given, (pa.Array, pa.ChunkedArray)):
        return given
    if isinstance(given, (str, bytes)) or not hasattr(given, "__len__"):
        raise TypeError(
            f"column {name!r} must be a sequence of values or an array, not {type(given).__name__}"
        )
    try:
        return pa.array(_header_lists(given), HEADERS_TYPE) if is_headers else pa.array(given)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise TypeError(f"column {name!r} cannot be converted to an Arrow array: {error}") from error


def _header_lists(given: Any) -> Any:
    """Headers in any form that `send` accepts, or in Arrow's own, as a list of pairs per row."""
    return [None if item is None else list(normalize_headers(_pairs(item))) for item in given]


def _pairs(headers: Any) -> Any:
    if isinstance(headers, Mapping) or not hasattr(headers, "__len__"):
        return headers
    return [
        (pair["key"], pair["value"]) if isinstance(pair, Mapping) and set(pair) == {"key", "value"} else pair
        for pair in headers
    ]


def _found(table: Any, name: str | None) -> str | None:
    if name is None:
        return None
    found = len(table.schema.get_all_field_indices(name))
    if found > 1:
        raise ValueError(f"there are {found} columns {name!r}")
    return name if found else None


def _check_timestamp(name: str, kind: Any) -> None:
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            raise TypeError(
                f"column {name!r} has no time zone: cast it to timestamp('us', tz='UTC') if it is UTC"
            )
    elif not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise TypeError(f"column {name!r} has type {kind}: timestamps must be Arrow timestamps or integer ms")


def _check_headers_type(name: str, kind: Any) -> None:
    types = pa.types
    if types.is_null(kind):
        return
    if types.is_map(kind):
        pair = (kind.key_type, kind.item_type)
    elif types.is_list(kind) or types.is_large_list(kind):
        inner = kind.value_type
        fields = [inner.field(index) for index in range(inner.num_fields)] if types.is_struct(inner) else []
        by_name = {field.name: field.type for field in fields}
        pair = (by_name.get("key"), by_name.get("value"))
    else:
        pair = (None, None)
    if pair[0] is None or pair[1] is None or not is_text(pair[0]) or not is_binary(pair[1]):
        raise TypeError(
            f"column {name!r} has type {kind}: headers must be list<struct<key: string, value: binary>>"
        )


def _check_headers(name: str, column: Any) -> None:
    for chunk in column.chunks:
        if pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type):
            pairs = chunk.flatten()  # of this slice only
            if pairs.null_count or pairs.field("key").null_count:
                raise ValueError(f"column {name!r} has headers without a name")


def _plain(column: Any) -> Any:
    """Without extension types and views, which hinder slicing."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_binary_view(column.type) or pa.types.is_string_view(column.type):
        return column.cast(pa.large_binary())
    return column


def _bytes(column: Any) -> int:
    if pa.types.is_dictionary(column.type):  # average bytes after decoding the dictionary
        words = column.dictionary
        return int(len(column) * words.nbytes // max(len(words), 1))
    return int(column.nbytes)
