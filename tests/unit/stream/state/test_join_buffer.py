"""The buffer of stream-table joins with grace."""

from __future__ import annotations

from typing import Any

from headrace.clients.serdes import int64, utf8
from headrace.stream.records import RecordContext
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.formats.windows import MAX_TIME
from headrace.stream.state.store_spec import StoreKind
from store_context import FakeStoreContext


def opened(context: FakeStoreContext) -> Any:
    buffer = StoreBuilder("buffer", StoreKind.JOIN_BUFFER, utf8, int64, grace_ms=10).build()
    buffer.init(context)
    return buffer


def put(buffer: Any, time: int, key: str, value: int) -> bool:
    is_buffered: bool = buffer.put(time, key, value, RecordContext(time, time, "topic", 0))
    return is_buffered


def evicted(buffer: Any) -> list[tuple[str, int, int]]:
    found: list[Any] = []
    buffer.evict_while(lambda: True, found.append)
    return [(each.key, each.value, each.context.timestamp) for each in found]


def test_records_leave_when_stream_time_has_passed_them_by_the_grace() -> None:
    """By time; duplicates are kept; late records are refused."""
    buffer = opened(FakeStoreContext())
    assert put(buffer, 5, "b", 1)
    assert put(buffer, 3, "a", 2)
    assert put(buffer, 3, "a", 3)
    assert evicted(buffer) == []
    assert put(buffer, 13, "c", 4)
    assert evicted(buffer) == [("a", 2, 3), ("a", 3, 3)]
    assert not put(buffer, 2, "d", 5)
    assert put(buffer, 30, "e", 6)
    assert evicted(buffer) == [("b", 1, 5), ("c", 4, 13)]
    assert (buffer.num_records, buffer.min_timestamp) == (1, 21)
    assert buffer.prior_value_for_buffered("e") == (False, None)


def test_changelog_and_reopened_files() -> None:
    """A buffer is continued from its changelog, or from its files after a commit."""
    context = FakeStoreContext()
    buffer = opened(context)
    put(buffer, 3, "a", 1)
    put(buffer, 20, "b", 2)
    assert evicted(buffer) == [("a", 1, 3)]
    assert [record.value is None for record in context.changelog] == [False, False, True]
    size = buffer.buffer_size
    buffer.commit(3)
    buffer.close()
    other = opened(FakeStoreContext())
    other.restore(context.changelog)
    assert (other.num_records, other.buffer_size) == (1, size)
    again = opened(context)
    assert (again.num_records, again.buffer_size, again.min_timestamp) == (1, size, 20)
    assert again.committed_offset() == 3
    for each in (other, again):
        put(each, 40, "c", 3)
        assert evicted(each) == [("b", 2, 20)]
    empty = opened(FakeStoreContext())
    assert (empty.min_timestamp, evicted(empty)) == (MAX_TIME, [])
