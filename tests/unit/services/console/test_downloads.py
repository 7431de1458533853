"""Files of records, made piece by piece."""

import csv
import io
import json
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from headrace.services.console.decoding import decode
from headrace.services.console.downloads import COLUMNS, FILES
from headrace.services.console.masking import Masks
from headrace.services.console.search import RecordRow, row_of

VALUES = (
    b'{"id": 1, "text": "<b>"}',
    b"=HYPERLINK(1)",
    b"-12.5",
    b'two\nlines, "quoted"',
    b"\xff\xfe",
    b"some red words \x1b[31m",
    None,
)


def rows() -> list[RecordRow]:
    """A row for each of VALUES."""
    made = []
    for offset, value in enumerate(VALUES):
        record: Any = SimpleNamespace(
            topic="t",
            partition=3,
            offset=offset,
            timestamp=1_000 + offset,
            key=b"k",
            value=value,
            headers=[("h", b"@x")],
        )
        made.append(row_of(record, decode(record.key), decode(value), Masks((), "t")))
    return made


def file_of(kind: str) -> bytes:
    """The file in two pieces."""
    _, make = FILES[kind]
    writer, every = make(), rows()
    return writer.add(every[:3]) + writer.add(every[3:]) + writer.end()


def test_json_lines_have_structures() -> None:
    found = [json.loads(line) for line in file_of("jsonl").splitlines()]
    assert [list(each) for each in found] == [list(COLUMNS)] * len(VALUES)
    assert found[0]["value"] == {"id": 1, "text": "<b>"}
    assert found[4]["value"] == "fffe"
    assert found[6]["value"] is None
    assert found[0]["headers"] == [{"name": "h", "value": "@x"}]


def test_csv_has_no_formulas() -> None:
    """A spreadsheet evaluates no text of a record; numbers stay numbers, and control characters are shown."""
    names, *found = csv.reader(io.StringIO(file_of("csv").decode(), newline=""))
    assert tuple(names) == COLUMNS
    values = [line[names.index("value")] for line in found]
    assert values == [
        *('{"id":1,"text":"<b>"}', "'=HYPERLINK(1)", "-12.5", 'two\nlines, "quoted"', "fffe"),
        *("some red words \\x1b[31m", ""),
    ]


def test_parquet_is_one_file() -> None:
    """With a row group for each piece."""
    file = pq.ParquetFile(io.BytesIO(file_of("parquet")))
    assert file.num_row_groups == 2
    table: list[dict[str, Any]] = file.read().to_pylist()
    assert [each["offset"] for each in table] == list(range(len(VALUES)))
    assert table[0]["value"] == '{"id":1,"text":"<b>"}'
    assert table[1]["value"] == "=HYPERLINK(1)"
    assert table[6]["value"] is None
    assert table[0]["timestamp"].timestamp() == 1.0
    assert table[0]["headers"] == [{"name": "h", "value": "@x"}]


@pytest.mark.parametrize("kind", sorted(FILES))
def test_file_without_records(kind: str) -> None:
    """It can be read."""
    _, make = FILES[kind]
    writer = make()
    data = writer.add(()) + writer.end()
    if kind == "csv":
        assert data.decode().strip() == ",".join(COLUMNS)
    elif kind == "parquet":
        assert pq.read_table(io.BytesIO(data)).num_rows == 0
    else:
        assert data == b""
