"""The buffer of suppress."""

from __future__ import annotations

from typing import Any

from headrace.clients.serdes import int64, utf8
from headrace.stream.records import Change, RecordContext
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.formats.windows import MAX_TIME
from headrace.stream.state.store_spec import StoreKind
from store_context import FakeStoreContext


def opened(context: FakeStoreContext) -> Any:
    buffer = StoreBuilder("buffer", StoreKind.SUPPRESS_BUFFER, utf8, int64).build()
    buffer.init(context)
    return buffer


def context_at(timestamp: int) -> RecordContext:
    return RecordContext(timestamp, timestamp, "topic", 0, (("h", b"x"),))


def test_changes_of_a_key_replace_each_other_at_the_first_place() -> None:
    """The new change keeps the time of the first one; the prior value is from before all of them."""
    buffer = opened(FakeStoreContext())
    buffer.put(10, "a", Change(2, 1), context_at(10))
    buffer.put(5, "b", Change(1, None), context_at(11))
    buffer.put(99, "a", Change(3, 2), context_at(12))
    assert buffer.prior_value_for_buffered("a") == (True, 1)
    assert buffer.prior_value_for_buffered("c") == (False, None)
    evicted: list[Any] = []
    buffer.evict_while(lambda: buffer.min_timestamp <= 10, evicted.append)
    assert [(each.key, each.value, each.context.timestamp) for each in evicted] == [
        ("b", Change(1, None), 11),
        ("a", Change(3, 2), 12),
    ]
    assert (buffer.num_records, buffer.buffer_size, buffer.min_timestamp) == (0, 0, MAX_TIME)


def test_size_is_kafkas_estimate() -> None:
    """Time, key, values (an old value that equals the prior one counts once) and context."""
    buffer = opened(FakeStoreContext())
    buffer.put(1, "key", Change(2, 1), context_at(1))
    assert buffer.buffer_size == 8 + 3 + 8 + 8 + (20 + 5 + 1 + 1)
    evicted: list[Any] = []
    buffer.evict_while(lambda: buffer.buffer_size > 0, evicted.append)
    assert len(evicted) == 1


def test_changelog() -> None:
    """The last state of each key that changed; a second buffer continues from it."""
    context = FakeStoreContext()
    buffer = opened(context)
    buffer.put(1, "a", Change(1, None), context_at(1))
    buffer.put(2, "b", Change(2, None), context_at(2))
    buffer.put(1, "a", Change(3, 1), context_at(3))
    buffer.flush()
    buffer.evict_while(lambda: buffer.min_timestamp <= 1, lambda _: None)
    buffer.flush()
    buffer.flush()
    assert [(record.key, record.value is None, record.headers) for record in context.changelog] == [
        (b"a", False, (("v", b"\x03"),)),
        (b"b", False, (("v", b"\x03"),)),
        (b"a", True, ()),
    ]
    other = opened(FakeStoreContext())
    other.restore(context.changelog[:2])
    assert (other.num_records, other.min_timestamp) == (2, 1)
    other.restore(context.changelog[2:])
    assert (other.num_records, other.min_timestamp, other.buffer_size) == (1, 2, buffer.buffer_size)
    evicted: list[Any] = []
    other.evict_while(lambda: True, evicted.append)
    assert [(each.key, each.value, each.context) for each in evicted] == [
        ("b", Change(2, None), context_at(2))
    ]
    other.close()
    assert other.num_records == 0
