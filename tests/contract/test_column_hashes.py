"""Hashes of a column, and its rows by partition: both codecs alike."""

from array import array
from itertools import pairwise

import column_bytes
import pytest
from column_bytes import BACKWARDS, BEYOND, NEGATIVE, SHORT_BITS, SHORT_OFFSETS
from headrace.protocol.records.codec import BinaryColumn, RecordCodec, pick_codec
from hypothesis import given
from hypothesis import strategies as st

PYTHON, COMPILED = pick_codec("python"), pick_codec("compiled")


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 9))
def test_hashes_of_a_column(values: list[bytes | None], first: int) -> None:
    """Each value's murmur2, 0 for null."""
    column = column_bytes.binary_column(values, first)
    expected = [0 if value is None else PYTHON.murmur2(value) for value in values]
    for codec in (PYTHON, COMPILED):
        assert array("I", bytes(codec.hash_column(column, len(values)))).tolist() == expected
        assert [codec.murmur2(value) for value in values if value is not None] == [
            PYTHON.murmur2(value) for value in values if value is not None
        ]


@pytest.mark.parametrize("column", [BACKWARDS, BEYOND, NEGATIVE, SHORT_OFFSETS, SHORT_BITS], ids=range(5))
def test_hashes_of_wrong_columns(codec: RecordCodec, column: BinaryColumn) -> None:
    """ValueError, as in append_columns."""
    with pytest.raises(ValueError):  # noqa: PT011
        codec.hash_column(column, 3)
    with pytest.raises(ValueError):  # noqa: PT011
        codec.hash_column(column, -1)


def test_only_bytes_are_hashed(codec: RecordCodec) -> None:
    """A str has no bytes of its own."""
    for wrong in ("key", None, bytearray(b"key")):
        with pytest.raises(TypeError):
            codec.murmur2(wrong)  # type: ignore[arg-type]


@given(st.integers(0, 9).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(-1, n - 1)))))
def test_rows_by_partition(case: tuple[int, list[int]]) -> None:
    """Stable, those with -1 last, and the starts that belong to it."""
    count, partitions = case
    expected = [
        [row for row, partition in enumerate(partitions) if partition == wanted]
        for wanted in (*range(count), -1)
    ]
    for codec in (PYTHON, COMPILED):
        buffer, starts = codec.partition_rows(array("i", partitions), count)
        rows = array("i", bytes(buffer)).tolist()
        assert len(starts) == count + 2
        assert [rows[low:high] for low, high in pairwise(starts)] == expected


def test_wrong_partitions(codec: RecordCodec) -> None:
    """Neither -1 nor below the count; or a count that no topic has."""
    for partitions in ([0, 3], [-2], [0, -(2**31)], [2**31 - 1]):
        with pytest.raises(ValueError, match="partition"):
            codec.partition_rows(array("i", partitions), 3)
    for count in (-1, 2**24 + 1, 2**70):
        with pytest.raises(ValueError, match="partitions"):
            codec.partition_rows(array("i"), count)
