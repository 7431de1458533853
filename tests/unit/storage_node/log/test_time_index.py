"""The time index: up to which offset every record is older than a timestamp."""

import struct

import pytest
from headrace.storage_node.log.time_index import TimeIndex, TimestampOffset


def index_of(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(100)
    for timestamp, offset in entries:
        index.maybe_append(timestamp, offset)
    return index


def test_only_rising_timestamps_get_an_entry() -> None:
    """A batch without a larger timestamp adds no entry."""
    index = index_of((5, 101), (5, 102), (4, 103), (9, 104))
    assert index.entries() == [(5, 101), (9, 104)]
    assert index.last == TimestampOffset(9, 104)


def test_records_without_timestamps_leave_the_index_empty() -> None:
    assert len(index_of((-1, 100))) == 0
    assert TimeIndex(100).last == TimestampOffset(-1, 100)


def test_lookups() -> None:
    """`lookup` includes the timestamp, `lookup_before` does not."""
    index = index_of((5, 101), (9, 104))
    assert index.lookup(4) == index.lookup_before(5) == (-1, 100)
    assert index.lookup(5) == index.lookup(8) == index.lookup_before(9) == (5, 101)
    assert index.lookup(9) == index.lookup_before(10) == (9, 104)


def test_bytes_on_disk() -> None:
    """(timestamp i64, relative offset i32) big-endian; a partial last entry is ignored."""
    index = index_of((5, 101), (2**40, 104))
    assert index.to_bytes() == struct.pack(">qi", 5, 1) + struct.pack(">qi", 2**40, 4)
    assert index.size_bytes == 24
    assert TimeIndex.from_bytes(100, index.to_bytes()).entries() == index.entries()
    assert TimeIndex.from_bytes(100, index.to_bytes()[:-1]).entries() == index.entries()[:1]


def test_truncate() -> None:
    """Entries at and above the end offset are removed."""
    index = index_of((5, 101), (9, 104))
    index.truncate(104)
    assert index.entries() == [(5, 101)]


@pytest.mark.parametrize("pairs", [[(5, 1), (5, 2)], [(5, 3), (6, 2)], [(-5, 1)], [(5, -1)]])
def test_damaged_file_has_a_fault(pairs: list[tuple[int, int]]) -> None:
    """Timestamps must rise, offsets must not fall, nothing is negative."""
    data = b"".join(struct.pack(">qi", *pair) for pair in pairs)
    assert TimeIndex.from_bytes(0, data).fault()
    assert TimeIndex.from_bytes(0, struct.pack(">qiqi", 1, 1, 2, 1)).fault() is None
