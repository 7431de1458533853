"""By column as record by record: what both codecs append from columns."""

from array import array
from typing import Any

import column_bytes
import pytest
from column_bytes import BACKWARDS, BEYOND, NEGATIVE, SHORT_BITS, SHORT_OFFSETS
from column_tables import nullable, tables, timestamps
from headrace.protocol.records.codec import BinaryColumn, Columns, HeaderColumn, RecordCodec, pick_codec
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

PYTHON, COMPILED = pick_codec("python"), pick_codec("compiled")


def appended_one_by_one(builder: Any, rows: list[Any], start: int, stop_bytes: int) -> tuple[int, bool]:
    """The oracle: the position behind the last row that joined, and whether the next one was refused."""
    for position in range(start, len(rows)):
        try:
            if builder.append(*rows[position]) < 0:
                return position, False
        except ValueError:
            return position, True
        if builder.size_bytes > stop_bytes:
            return position + 1, False
    return len(rows), False


@given(
    tables,
    st.integers(0, 9),
    st.booleans(),
    st.integers(1, 4000),
    st.integers(0, 4000) | st.just(2**70),
    st.none() | st.integers(0, 2**63 - 1),
    st.data(),
)
@hypothesis_settings(max_examples=300)
def test_columns_and_records_build_equal_batches(
    table: list[Any],
    first: int,
    picks: bool,
    max_bytes: int,
    stop_bytes: int,
    horizon: int | None,
    data: st.DataObject,
) -> None:
    """Any rows, sliced columns, all rows or a selection of them: the batches of a record-by-record writer."""
    columns, numbers = column_bytes.columns(table, first), list(range(len(table)))
    if picks and table:
        numbers = data.draw(st.lists(st.sampled_from(numbers), max_size=40))
    rows = [(when, key, value, pairs or ()) for when, key, value, pairs in (table[n] for n in numbers)]
    selection = array("i", numbers) if picks else None
    start = 0
    for _ in range(6):
        settings: Any = {"max_bytes": max_bytes, "delete_horizon_ms": horizon}
        oracle = PYTHON.builder(**settings)
        position, is_refused = appended_one_by_one(oracle, rows, start, stop_bytes)
        for codec in (PYTHON, COMPILED):
            builder = codec.builder(**settings)
            arguments: Any = (columns, 7, selection, start, len(numbers), stop_bytes)
            if is_refused:
                with pytest.raises(ValueError, match="timestamp"):
                    builder.append_columns(*arguments)
            else:
                assert builder.append_columns(*arguments) == position
            assert (builder.count, builder.size_bytes) == (oracle.count, oracle.size_bytes)
            if oracle.count:
                assert builder.build() == oracle.build()
        start = position + is_refused


@given(
    timestamps, st.lists(nullable, max_size=30), st.integers(1, 4000), st.integers(0, 4000), st.integers(0, 5)
)
@hypothesis_settings(max_examples=100)
def test_values_and_records_build_equal_batches(
    timestamp: int, values: list[bytes | None], max_bytes: int, stop_bytes: int, start: int
) -> None:
    """A list or a tuple of values, from any position on."""
    start = min(start, len(values))
    oracle = PYTHON.builder(max_bytes=max_bytes)
    position, _ = appended_one_by_one(
        oracle, [(timestamp, None, value) for value in values], start, stop_bytes
    )
    for codec in (PYTHON, COMPILED):
        for sequence in (values, tuple(values)):
            builder = codec.builder(max_bytes=max_bytes)
            assert builder.append_values(timestamp, sequence, start, stop_bytes) == position
            assert builder.count == oracle.count
            if oracle.count:
                assert builder.build() == oracle.build()


def test_columns_that_are_absent(codec: RecordCodec) -> None:
    """No values: all null. No timestamps: that of the call. No buffers at all for no rows."""
    builder = codec.builder(max_bytes=1000)
    assert builder.append_columns(Columns(2, None), 5, None, 0, 2, 1000) == 2
    empty = BinaryColumn(b"", b"")
    no_rows = Columns(0, empty, empty, b"", HeaderColumn(b"", empty, empty))
    assert builder.append_columns(no_rows, 5, b"", 0, 0, 1000) == 0
    assert [(r.timestamp, r.key, r.value, r.headers) for r in codec.decode(builder.build())] == [
        (5, None, None, ())
    ] * 2


def test_unaligned_and_read_only_buffers(codec: RecordCodec) -> None:
    """Integers that start at any byte, as in a message just received."""
    offsets, when = array("i", [0, 1, 3]).tobytes(), array("q", [8, 9]).tobytes()
    column = BinaryColumn(memoryview(b"." + offsets)[1:], memoryview(b".abb")[1:])
    builder = codec.builder(max_bytes=1000)
    columns = Columns(2, column, None, memoryview(b"..." + when)[3:])
    selection = memoryview(b"." + array("i", [1, 0]).tobytes())[1:]
    assert builder.append_columns(columns, 0, selection, 0, 2, 1000) == 2
    assert [(r.timestamp, r.value) for r in codec.decode(builder.build())] == [(9, b"bb"), (8, b"a")]


VALUES = column_bytes.binary_column([b"a", b"bb", None])
NULL_KEY = HeaderColumn(
    array("i", [0, 0, 1, 1]), column_bytes.binary_column([None]), column_bytes.binary_column([b"v"])
)
BAD_KEY = NULL_KEY._replace(keys=column_bytes.binary_column([b"\xff"]))
NO_PAIR = NULL_KEY._replace(keys=column_bytes.binary_column([]))
WRONG_COLUMNS = {
    # name: (columns, how many rows join before the error)
    "offsets run backwards": (Columns(3, BACKWARDS), 1),
    "keys run backwards": (Columns(3, VALUES, BACKWARDS), 1),
    "offsets beyond the data": (Columns(3, BEYOND), 1),
    "negative offsets": (Columns(3, NEGATIVE), 1),
    "short offsets": (Columns(3, SHORT_OFFSETS), 0),
    "short bits": (Columns(3, SHORT_BITS), 0),
    "negative first": (Columns(3, VALUES._replace(first=-1)), 0),
    "first beyond": (Columns(3, VALUES._replace(first=1)), 0),
    "first far beyond": (Columns(3, VALUES._replace(first=2**70)), 0),
    "count": (Columns(-1, VALUES), 0),
    "count beyond": (Columns(2**70, VALUES), 0),
    "timestamps": (Columns(3, VALUES, None, array("q", [1, 1])), 0),
    "timestamp": (Columns(3, VALUES, None, array("q", [1, -2, 1])), 1),
    "null header key": (Columns(3, VALUES, None, None, NULL_KEY), 1),
    "header key not UTF-8": (Columns(3, VALUES, None, None, BAD_KEY), 1),
    "no pair there": (Columns(3, VALUES, None, None, NO_PAIR), 1),
    "pairs run backwards": (
        Columns(3, VALUES, None, None, NULL_KEY._replace(offsets=array("i", [0, 0, 1, 0]))),
        1,
    ),
    "gaps in a buffer": (Columns(2, BinaryColumn(memoryview(bytes(24))[::2], b"")), 0),
}


@pytest.mark.parametrize("name", WRONG_COLUMNS)
def test_wrong_columns(codec: RecordCodec, name: str) -> None:
    """ValueError; the rows before the first unfit one stay, and nothing of that one."""
    columns, joined = WRONG_COLUMNS[name]
    builder, oracle = codec.builder(max_bytes=1000), codec.builder(max_bytes=1000)
    if name == "null header key":
        columns = columns._replace(headers=NULL_KEY)
    with pytest.raises(ValueError):  # noqa: PT011
        builder.append_columns(columns, 1, None, 0, max(0, min(columns.count, 3)), 1000)
    assert builder.count == joined
    if joined:
        key, value = (None, b"a") if columns.keys is None else (b"a", b"a")
        oracle.append(1, key, value)
        assert builder.build() == oracle.build()


@pytest.mark.parametrize(
    ("rows", "start", "end"),
    [
        (None, -1, 1),
        (None, 2, 1),
        (None, 0, 4),
        (None, 0, 2**70),
        (array("i", [3]), 0, 1),
        (array("i", [-1]), 0, 1),
        (array("i", [0]), 0, 2),
        (b"\0\0\0", 0, 1),
    ],
)
def test_wrong_rows(codec: RecordCodec, rows: Any, start: int, end: int) -> None:
    """Rows that are not there."""
    builder = codec.builder(max_bytes=1000)
    with pytest.raises(ValueError, match="row"):
        builder.append_columns(Columns(3, VALUES), 1, rows, start, end, 1000)
    assert builder.count == 0


def test_wrong_calls(codec: RecordCodec) -> None:
    """As in `append`: a timestamp out of range, what is no bytes, a batch that is built."""
    builder = codec.builder(max_bytes=1000)
    for timestamp in (-2, 2**63):
        with pytest.raises(ValueError, match="timestamp"):
            builder.append_columns(Columns(3, VALUES), timestamp, None, 0, 3, 1000)
        with pytest.raises(ValueError, match="timestamp"):
            builder.append_values(timestamp, [b"a"], 0, 1000)
    for start in (-1, 2, 2**70):
        with pytest.raises(ValueError, match="values"):
            builder.append_values(1, [b"a"], start, 1000)
    with pytest.raises(TypeError, match="a value"):
        builder.append_values(1, [b"a", "b", b"c"], 0, 1000)  # type: ignore[list-item]
    assert builder.count == 1
    with pytest.raises(TypeError):
        builder.append_columns(Columns(1, BinaryColumn(None, b"")), 1, None, 0, 1, 1000)  # type: ignore[arg-type]
    builder.build()
    with pytest.raises(ValueError, match="built"):
        builder.append_values(1, [b"a"], 0, 1000)
    with pytest.raises(ValueError, match="built"):
        builder.append_columns(Columns(3, VALUES), 1, None, 0, 3, 1000)


def test_header_keys_are_utf8_as_python_has_it() -> None:
    """Every pair of bytes, and the edges of the longer forms: overlong, surrogates, beyond U+10FFFF."""
    names = [bytes([one, two]) for one in range(256) for two in range(256)]
    for lead in (*range(0xDF, 0xF8), 0xFF):
        for second in (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0):
            tails = (b"", b"\x80", b"\xbf", b"\x80\x80", b"\xc0\x80", b"\x80\x7f", b"\x80\x80\x80")
            names += [bytes([lead, second]) + tail for tail in tails]
    keys = column_bytes.binary_column(names)
    values = BinaryColumn(bytes(4 * len(names) + 4), b"")
    headers = HeaderColumn(array("i", range(len(names) + 1)), keys, values)
    columns = Columns(len(names), None, None, None, headers)
    for number, name in enumerate(names):
        builder = COMPILED.builder(max_bytes=1000)
        try:
            builder.append_columns(columns, 1, None, number, number + 1, 1000)
        except ValueError:
            with pytest.raises(UnicodeDecodeError):
                name.decode()
        else:
            assert name.decode().encode() == name
