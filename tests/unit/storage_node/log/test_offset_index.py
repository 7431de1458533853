"""The offset index finds the batch to start from, and detects damage."""

import struct

import pytest
from headrace.storage_node.log.offset_index import OffsetIndex, OffsetPosition


def index_of(*entries: tuple[int, int], base: int = 100) -> OffsetIndex:
    index = OffsetIndex(base)
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_lookup_in_an_empty_index() -> None:
    """Every lookup returns NO_OFFSET and position 0."""
    index = OffsetIndex(7)
    assert index.lookup(7) == index.last == OffsetPosition(-1, 0)
    assert (len(index), index.size_bytes, index.to_bytes()) == (0, 0, b"")


def test_lookup_returns_last_entry_at_or_below() -> None:
    """The start of the segment before the first entry."""
    index = index_of((110, 500), (120, 900))
    assert index.lookup(109) == OffsetPosition(-1, 0)
    assert index.lookup(110) == index.lookup(119) == OffsetPosition(110, 500)
    assert index.lookup(120) == index.lookup(10**15) == OffsetPosition(120, 900)


def test_bytes_on_disk_are_big_endian_pairs() -> None:
    """(relative offset i32, position i32), as Kafka writes them."""
    index = index_of((110, 500), (120, 70_000))
    assert index.to_bytes() == struct.pack(">iiii", 10, 500, 20, 70_000)
    assert OffsetIndex.from_bytes(100, index.to_bytes()).entries() == index.entries()
    assert OffsetIndex.from_bytes(100, index.to_bytes()[:-1]).entries() == index.entries()[:1]


def test_truncate_removes_entries_from_an_offset_on() -> None:
    """The entry at the end offset too: its batch is removed."""
    index = index_of((110, 500), (120, 900))
    index.truncate(120)
    assert index.entries() == [(110, 500)]
    index.truncate(100)
    assert index.entries() == []


def test_entries_must_rise() -> None:
    """Appending out of order is a bug."""
    index = index_of((110, 500))
    with pytest.raises(AssertionError):
        index.append(110, 600)
    with pytest.raises(AssertionError):
        index.append(111, 500)


@pytest.mark.parametrize(
    "pairs",
    [[(5, 100), (5, 200)], [(5, 100), (6, 100)], [(6, 200), (5, 300)], [(-1, 100)], [(5, -1)], [(5, 1000)]],
    ids=["same offset", "same position", "falling", "negative offset", "negative position", "behind the log"],
)
def test_damaged_file_has_a_fault(pairs: list[tuple[int, int]]) -> None:
    """Entries that fall or point outside the log."""
    data = b"".join(struct.pack(">ii", *pair) for pair in pairs)
    assert OffsetIndex.from_bytes(0, data).fault(1000)


def test_sound_file_has_no_fault() -> None:
    """Rising entries inside the log."""
    assert index_of((110, 500), (120, 900)).fault(1000) is None
