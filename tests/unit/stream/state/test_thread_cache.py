"""The record cache: sizes, order of flushes, eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.stream.records import RecordContext
from headrace.stream.state.thread_cache import ThreadCache

if TYPE_CHECKING:
    from headrace.stream.state.thread_cache import CacheEntry, NamedCache

CONTEXT = RecordContext(1, 2, "t", 0)


class Flushed:
    """A store that remembers what a cache flushes."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[bytes, bytes | None]]] = []

    def __call__(self, entries: list[tuple[bytes, CacheEntry]]) -> None:
        self.batches.append([(key, entry[0]) for key, entry in entries])


def put(cache: NamedCache, key: bytes, value: bytes | None, is_dirty: bool = True) -> None:
    cache.put(key, (value, CONTEXT, 22 + len(value or b""), None), is_dirty)


def test_dirty_entries_are_flushed_in_the_order_of_their_last_writes() -> None:
    """A second write of a key moves it behind the others; a flushed entry is clean."""
    flushed = Flushed()
    thread_cache = ThreadCache(1000)
    cache = thread_cache.open("0_0-store", flushed)
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3")):
        put(cache, key, value)
    cache.flush()
    cache.flush()
    assert flushed.batches == [[(b"b", b"2"), (b"a", b"3")]]
    thread_cache.check()


def test_deleted_entries_leave_the_cache_when_they_are_flushed() -> None:
    """A tombstone is kept until the store has it."""
    cache = ThreadCache(1000).open("0_0-store", Flushed())
    put(cache, b"a", None)
    assert cache.get(b"a") is not None
    cache.flush()
    assert cache.get(b"a") is None
    assert cache.size == 0


def test_evicting_a_dirty_entry_flushes_all_dirty_entries_of_the_store() -> None:
    """The evicted entry is the first of the batch; the others stay, clean."""
    flushed = Flushed()
    thread_cache = ThreadCache(3 * (1 + 24 + 23))
    cache = thread_cache.open("0_0-store", flushed)
    for key in (b"a", b"b", b"c"):
        put(cache, key, b"v")
    assert cache.get(b"a") is not None
    put(cache, b"d", b"v")
    assert flushed.batches == [[(b"b", b"v"), (b"a", b"v"), (b"c", b"v"), (b"d", b"v")]]
    assert list(cache.entries) == [b"c", b"a", b"d"]
    thread_cache.check()


def test_a_put_evicts_only_entries_of_its_own_store() -> None:
    """As in Java: the other store gives up its entries when it puts itself."""
    thread_cache = ThreadCache(100)
    one, two = thread_cache.open("one", Flushed()), thread_cache.open("two", Flushed())
    put(one, b"a", b"v")
    put(one, b"b", b"v")
    put(two, b"c", b"v")
    assert list(one.entries) == [b"a", b"b"]
    assert list(two.entries) == []
    thread_cache.check()


def test_a_cache_without_room_flushes_each_write() -> None:
    """statestore.cache.max.bytes=0."""
    flushed = Flushed()
    cache = ThreadCache(0).open("0_0-store", flushed)
    put(cache, b"a", b"1")
    put(cache, b"a", None)
    assert flushed.batches == [[(b"a", b"1")], [(b"a", None)]]


def test_shrinking_and_closing() -> None:
    """Stores give up entries in turns; a closed store no longer counts."""
    thread_cache = ThreadCache(1000)
    one, two = thread_cache.open("one", Flushed()), thread_cache.open("two", Flushed())
    for key in (b"a", b"b"):
        put(one, key, b"v")
        put(two, key, b"v")
    thread_cache.resize(100)
    assert (len(one.entries), len(two.entries)) == (1, 1)
    thread_cache.close("one")
    thread_cache.check()
    assert thread_cache.size == two.size


def test_ranges_of_keys() -> None:
    """In order, in both directions, with an exclusive end for prefixes; evicted keys are gone."""
    cache = ThreadCache(1000).open("0_0-store", Flushed())
    for key in (b"c", b"a", b"d"):
        put(cache, key, b"v")
    assert cache.keys(None, None) == [b"a", b"c", b"d"]
    put(cache, b"b", b"v")
    cache.evict()
    assert cache.keys(b"a", b"d") == [b"a", b"b", b"d"]
    assert cache.keys(b"a", b"d", to_inclusive=False, forward=False) == [b"b", b"a"]
    cache.clear()
    assert cache.keys(None, None) == []


def test_entries_read_by_an_eviction_are_counted_once() -> None:
    """A table joined with itself reads its store while an entry is flushed; Kafka's size grows each time."""
    thread_cache = ThreadCache(100)
    reads = thread_cache.open("0_0-store", lambda entries: reads.put_clean(b"read", entries[0][0]))
    for number in range(10):
        put(reads, b"%d" % number, b"value")
        thread_cache.check()
    assert thread_cache.size <= 100


def test_what_a_flush_does_to_other_caches_counts_when_the_limit_is_lowered() -> None:
    """As a table whose changes are aggregated: an eviction flushes, which puts, which evicts there."""
    thread_cache = ThreadCache(1000)
    above = thread_cache.open("above", lambda entries: [put(below, key, b"v") for key, _ in entries])
    below = thread_cache.open("below", Flushed())
    put(below, b"large", b"v" * 500)
    put(above, b"a", b"v")
    thread_cache.resize(500)
    thread_cache.check()
