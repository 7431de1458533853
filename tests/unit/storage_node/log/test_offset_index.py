"""The offset index finds the batch to start from, and knows when it cannot be trusted."""

from __future__ import annotations

import struct

import pytest
from headrace.storage_node.log.offset_index import OffsetIndex, OffsetPosition


def index_of(*entries: tuple[int, int], base: int = 100) -> OffsetIndex:
    index = OffsetIndex(base)
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_an_empty_index_starts_at_the_beginning() -> None:
    """Without entries every lookup says: no offset, position 0."""
    index = OffsetIndex(7)
    assert index.lookup(7) == index.last == OffsetPosition(-1, 0)
    assert (len(index), index.size_bytes, index.to_bytes()) == (0, 0, b"")


def test_lookup_gives_the_last_entry_at_or_below() -> None:
    """Between two entries the lower one counts; before the first one the start of the segment."""
    index = index_of((110, 500), (120, 900))
    assert index.lookup(109) == OffsetPosition(-1, 0)
    assert index.lookup(110) == index.lookup(119) == OffsetPosition(110, 500)
    assert index.lookup(120) == index.lookup(10**15) == OffsetPosition(120, 900)


def test_bytes_on_disk_are_big_endian_pairs() -> None:
    """(relative offset i32, position i32), as Kafka writes them, and back."""
    index = index_of((110, 500), (120, 70_000))
    assert index.to_bytes() == struct.pack(">iiii", 10, 500, 20, 70_000)
    assert OffsetIndex.from_bytes(100, index.to_bytes()).entries() == index.entries()
    assert OffsetIndex.from_bytes(100, index.to_bytes()[:-1]).entries() == index.entries()[:1]


def test_truncate_forgets_from_an_offset_on() -> None:
    """The entry at the end offset itself goes too: its batch is gone."""
    index = index_of((110, 500), (120, 900))
    index.truncate(120)
    assert index.entries() == [(110, 500)]
    index.truncate(100)
    assert index.entries() == []


def test_entries_must_rise() -> None:
    """Appending out of order is a bug of ours."""
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
def test_a_damaged_file_is_noticed(pairs: list[tuple[int, int]]) -> None:
    """Entries that do not rise or point out of the log cannot be right."""
    data = b"".join(struct.pack(">ii", *pair) for pair in pairs)
    assert OffsetIndex.from_bytes(0, data).fault(1000)


def test_a_sound_file_is_trusted() -> None:
    """Rising entries inside the log raise no suspicion."""
    assert index_of((110, 500), (120, 900)).fault(1000) is None
