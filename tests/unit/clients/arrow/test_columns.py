"""Arrow arrays in every layout become the codec's columns with the same values."""

from typing import Any

import pyarrow as pa
import pytest
from headrace.clients.arrow import columns
from headrace.clients.arrow.columns import (
    TooWide,
    binary_column,
    header_column,
    int32s,
    milliseconds,
    to_binary,
)
from headrace.clients.arrow.layout import HEADERS_TYPE
from headrace.protocol.records.codec import pick_codec
from headrace.protocol.records.columns import Columns

WORDS = [b"a", None, b"", b"dd", b"\xc3\xa9", None, b"f"]
TEXTS = [None if word is None else word.decode() for word in WORDS]
PAIRS = [[("a", b"1")], None, [], [("b", None), ("c", b"xx")], [("d", b"")]]


def read_back(count: int, **given: Any) -> list[Any]:
    """The columns of a batch built from these columns."""
    codec = pick_codec("python")
    builder = codec.builder(max_bytes=1 << 20)
    made = Columns(count, **{"values": None, **given})
    assert builder.append_columns(made, 7, None, 0, count, 1 << 20) == count
    return codec.decode(builder.build())


@pytest.mark.parametrize(
    "array",
    [
        pa.array(WORDS, pa.binary()),
        pa.array(WORDS, pa.large_binary()),
        pa.array(WORDS, pa.large_binary()).cast(pa.binary_view()),
        pa.array(TEXTS, pa.string()),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string()).cast(pa.string_view()),
        pa.array(TEXTS).dictionary_encode(),
        pa.array(WORDS).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize("cut", [(0, 7), (1, 5), (2, 3), (3, 4)])
def test_binary_layouts_and_slices(array: Any, cut: tuple[int, int]) -> None:
    """Nulls, empty values, and slices that start inside a byte of the bitmap."""
    start, count = cut
    column = binary_column(to_binary(array.slice(start, count)))
    assert [record.value for record in read_back(count, values=column)] == WORDS[start : start + count]


def test_fixed_size_and_null_columns() -> None:
    """Two further layouts."""
    fixed = pa.array([b"ab", None, b"cd"], pa.binary(2)).slice(1)
    assert [r.value for r in read_back(2, values=binary_column(to_binary(fixed)))] == [None, b"cd"]
    assert binary_column(to_binary(pa.nulls(3))) is None
    assert binary_column(to_binary(pa.nulls(3, pa.string()))) is None


@pytest.mark.parametrize(
    "kind",
    [
        HEADERS_TYPE,
        pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
        pa.list_(pa.struct([("value", pa.binary()), ("more", pa.int32()), ("key", pa.string())])),
        pa.map_(pa.string(), pa.binary()),
    ],
    ids=str,
)
@pytest.mark.parametrize("cut", [(0, 5), (1, 3), (3, 2), (4, 1), (1, 2)])
def test_header_layouts_and_slices(kind: Any, cut: tuple[int, int]) -> None:
    """Lists of structs and maps; null rows and empty ones have none."""
    start, count = cut
    given = PAIRS if pa.types.is_map(kind) else [
        None if pairs is None else [{"key": key, "value": value} for key, value in pairs] for pairs in PAIRS
    ]  # fmt: skip
    found = header_column(pa.array(given, kind).slice(start, count))
    expected = [tuple(pairs or ()) for pairs in PAIRS[start : start + count]]
    if found is None:
        assert not any(expected)
        return
    assert [record.headers for record in read_back(count, headers=found.column)] == expected
    sizes = [sum(len(key) + len(value or b"") + 10 for key, value in pairs) for pairs in expected]
    assert found.row_bytes(10).to_pylist() == sizes


def test_far_offsets_of_large_columns_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice far inside a long buffer; a slice that is too long itself raises TooWide."""
    monkeypatch.setattr(columns, "MAX_COLUMN_BYTES", 10)
    array = pa.array([b"xxxx"] * 9, pa.large_binary())
    assert to_binary(array.slice(7)).to_pylist() == [b"xxxx"] * 2
    for wide in (
        array.slice(5),
        pa.array([b"abc"] * 4).dictionary_encode(),
        pa.array([b"abc"] * 4, pa.binary(3)),
    ):
        with pytest.raises(TooWide):
            to_binary(wide)


def test_timestamps_of_every_unit() -> None:
    """Floored to ms; null is the present; before 1970, or above 64 bits of ms, is negative."""
    for unit, per_ms in (("ms", 1), ("us", 1000), ("ns", 1_000_000)):
        array = pa.array([5 * per_ms, None, -1, 6 * per_ms + per_ms // 2], pa.timestamp(unit, tz="UTC"))
        assert milliseconds(array, 99).to_pylist() == [5, 99, -1, 6]
    seconds = pa.array([5, None, -5, 2**62], pa.timestamp("s", tz="Europe/Berlin"))
    assert milliseconds(seconds, 99).to_pylist() == [5000, 99, -1, -1]
    assert milliseconds(pa.array([1, None, -3]), 99).to_pylist() == [1, 99, -3]
    assert milliseconds(pa.array([1, None, 2**63], pa.uint64()), 99).to_pylist() == [1, 99, -1]
    assert milliseconds(pa.array([1], pa.int16()), 99).to_pylist() == [1]


def test_partitions_of_every_width() -> None:
    """Values outside of 32 bits stay invalid."""
    assert int32s(pa.array([1, None, 2**40, -(2**40)])).to_pylist() == [1, None, 2**31 - 1, -(2**31)]
    assert int32s(pa.array([1, None, 2**63 + 1], pa.uint64())).to_pylist() == [1, None, 2**31 - 1]
    assert int32s(pa.array([1, None, -1], pa.int8())).to_pylist() == [1, None, -1]
