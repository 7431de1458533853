"""Rows of a search as a file: JSON Lines, CSV or Parquet, piece by piece. Pure."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .decoding import Shown
    from .search import RecordRow

COLUMNS = (
    *("topic", "partition", "offset", "timestamp", "key", "key_format", "value", "value_format"),
    *("is_truncated", "headers"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with these a spreadsheet evaluates a cell


class Writer(Protocol):
    """Makes the bytes of a file."""

    def add(self, rows: Sequence[RecordRow]) -> bytes:
        """The bytes that follow with these rows."""

    def end(self) -> bytes:
        """The last bytes."""


class JsonLines:
    """An object per line. JSON values are structures, other formats text."""

    def add(self, rows: Sequence[RecordRow]) -> bytes:
        return b"".join(msgspec.json.encode(_fields(row, _structure)) + b"\n" for row in rows)

    def end(self) -> bytes:
        return b""


class Csv:
    """A line per record, under a line with the names. JSON values and headers are JSON in a cell. Text that a
    spreadsheet would evaluate as a formula begins with an apostrophe."""

    def __init__(self) -> None:
        self._has_names = False

    def add(self, rows: Sequence[RecordRow]) -> bytes:
        text = io.StringIO(newline="")
        lines = csv.writer(text)
        if not self._has_names:
            self._has_names = True
            lines.writerow(COLUMNS)
        for row in rows:
            lines.writerow([_cell(value) for value in _fields(row, _text).values()])
        return text.getvalue().encode()

    def end(self) -> bytes:
        return b"" if self._has_names else self.add(())


class Parquet:
    """A row group for each piece. JSON values are JSON text."""

    def __init__(self) -> None:
        """Errors: ImportError without pyarrow."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        text = pa.string()
        header = pa.struct([("name", text), ("value", text)])
        types = (
            *(text, pa.int32(), pa.int64(), pa.timestamp("ms", "UTC"), text, text, text, text),
            *(pa.bool_(), pa.list_(header)),
        )
        self._pa = pa
        self._schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")

    def add(self, rows: Sequence[RecordRow]) -> bytes:
        if rows:
            fields = [_fields(row, _text) for row in rows]
            for each in fields:
                each["timestamp"] = each["timestamp"] if each["timestamp"] >= 0 else None
            self._writer.write_table(self._pa.Table.from_pylist(fields, self._schema))
        return self._taken()

    def end(self) -> bytes:
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        """The bytes since the last call. The writer counts positions itself and never goes back."""
        data = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return data


FILES: dict[str, tuple[str, Callable[[], Writer]]] = {
    "jsonl": ("application/x-ndjson", JsonLines),
    "csv": ("text/csv; charset=utf-8", Csv),
    "parquet": ("application/vnd.apache.parquet", Parquet),
}


def _fields(row: RecordRow, value_of: Callable[[Shown], Any]) -> dict[str, Any]:
    headers = [{"name": name, "value": value} for name, value in row.headers]
    is_cut = row.value.is_truncated and row.value.format != "json"
    values = (
        *(row.topic, row.partition, row.offset, row.timestamp),
        *(value_of(row.key), row.key.format, value_of(row.value), row.value.format, is_cut, headers),
    )
    return dict(zip(COLUMNS, values, strict=True))


def _structure(shown: Shown) -> Any:
    if shown.is_null:
        return None
    return shown.parsed if shown.format == "json" else shown.text


def _text(shown: Shown) -> str | None:
    value = _structure(shown)
    return value if value is None or shown.format != "json" else msgspec.json.encode(value).decode()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return msgspec.json.encode(value).decode()
    if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value):
        return "'" + value
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
