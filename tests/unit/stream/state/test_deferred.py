"""Writes that wait in front of the cache of a store."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import Serde, bytes_, int64, json, utf8
from headrace.protocol.errors import SerializationError
from headrace.stream.records import RecordContext, ValueAndTimestamp
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.deferred import PAUSE
from headrace.stream.state.store_spec import StoreKind
from headrace.stream.testing.topics import StoredRecord
from store_context import FakeStoreContext

KV, WINDOWS = StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW
RECORD = StoredRecord("in", 2, 3, 5, b"a", b"v", (("h", b"x"),))


def opened(context: FakeStoreContext, value: Any = int64, kind: StoreKind = KV, key: Any = utf8) -> Any:
    facts = {"window_size_ms": 10, "retention_ms": 1000} if kind is WINDOWS else {}
    store = StoreBuilder("store", kind, key, value, is_cached=True, **facts).build()
    store.init(context)
    return store


def waiting(store: Any) -> list[Any]:
    return list(store._deferred.waiting)


def test_a_key_that_is_written_again_is_written_to_the_cache_once() -> None:
    """In the order of the last writes, each with the context of its last record."""
    context = FakeStoreContext()
    store = opened(context)
    forwarded: list[Any] = []
    store.set_flush_listener(lambda *change: forwarded.append(change), True)
    for timestamp, key in ((1, "a"), (2, "b"), (3, "a")):
        store.put(key, ValueAndTimestamp(timestamp, timestamp))
        context.at(timestamp + 1)
    assert store.get("a") == ValueAndTimestamp(3, 3)
    assert not store._cache.entries
    current = context.record_context
    store.flush()
    assert [(key, new, timestamp) for key, new, _, timestamp, _ in forwarded] == [
        ("b", ValueAndTimestamp(2, 2), 2),
        ("a", ValueAndTimestamp(3, 3), 3),
    ]
    assert [(record.key, record.timestamp) for record in context.changelog] == [(b"b", 2), (b"a", 3)]
    assert context.record_context is current
    assert store.get("a") == ValueAndTimestamp(3, 3)


@pytest.mark.parametrize(
    ("serde", "value", "is_deferred"),
    [
        (int64, 2**63 - 1, True),
        (int64, True, False),
        (json, 2**63, False),
        (json, 0.5, True),
        (json, "text", True),
        (json, "\ud800", False),
        (json, [1], False),
        (utf8, "text", True),
        (bytes_, b"data", True),
        (bytes_, bytearray(b"data"), False),
        (Serde("own", lambda value: b"%d" % value, int), 1, False),
    ],
)
def test_only_values_that_round_trip_are_deferred(serde: Any, value: Any, is_deferred: bool) -> None:
    """A list may be changed by a user's function; another serde may lose something."""
    store = opened(FakeStoreContext(), serde)
    if value == "\ud800":
        with pytest.raises(SerializationError):
            store.put("a", ValueAndTimestamp(value, 1))
    else:
        store.put("a", ValueAndTimestamp(value, 1))
    assert bool(waiting(store)) is is_deferred
    assert opened(FakeStoreContext(), serde).deferred.put_of_run("a", "a", value, 1, RECORD) is is_deferred


@pytest.mark.parametrize("kind", [KV, WINDOWS])
def test_a_write_of_a_run_is_one_of_its_record(kind: StoreKind) -> None:
    """It reads as it was put, and is logged with the place and the headers of the input record."""
    context = FakeStoreContext()
    store = opened(context, kind=kind)
    contexts: list[Any] = []
    store.set_flush_listener(lambda *_: contexts.append(context.record_context), True)
    place = "a" if kind is KV else ("a", 10)
    assert store.deferred.put_of_run("a", place, 7, 6, RECORD)
    assert (store.get("a") if kind is KV else store.fetch("a", 10)) == ValueAndTimestamp(7, 6)
    assert store.deferred.peek("a", place) == store.deferred.snapshot()[place]
    store.flush()
    assert [record.value for record in context.changelog] == [int64.dumps(7)]
    assert contexts == [RecordContext(5, 3, "in", 2, (("h", b"x"),), b"a", b"v")]


@pytest.mark.parametrize("key", [1.0, True, None])
def test_a_write_of_a_run_does_not_wait_with_a_key_that_has_equals(key: Any) -> None:
    """Those have other bytes."""
    store = opened(FakeStoreContext(), key=json)
    assert not store.deferred.put_of_run(key, key, 1, 1, RECORD)
    assert not store.deferred.put_of_run("a", "a", None, 1, RECORD)  # deletes: there is no value to wait


def test_a_value_that_is_refused_fails_at_its_own_record() -> None:
    """Not when the store is flushed."""
    store = opened(FakeStoreContext())
    with pytest.raises(SerializationError, match="store 'store' cannot serialize the value"):
        store.put("a", ValueAndTimestamp(2**63, 1))


def test_keys_that_are_equal_with_other_bytes_stay_apart() -> None:
    """1 and 1.0 are one key of a dict."""
    store = opened(FakeStoreContext(), key=json)
    store.put(1, ValueAndTimestamp(1, 1))
    assert store.get(1.0) is None
    store.put(1.0, ValueAndTimestamp(2, 1))
    assert [store.get(key).value for key in (1, 1.0, True)[:2]] == [1, 2]
    assert store.get(True) is None


def test_undeferrable_write_is_ordered_after_deferred_writes() -> None:
    """The order of writes is that of the changelog."""
    context = FakeStoreContext()
    store = opened(context)
    store.put("a", ValueAndTimestamp(1, 1))
    store.put("b", ValueAndTimestamp(1, 1))
    store.flush()
    store.put("b", ValueAndTimestamp(2, 1))
    store.put("a", None)
    assert not waiting(store)
    store.flush()
    changes = [(record.key, record.value) for record in context.changelog[2:]]
    assert changes == [(b"b", int64.dumps(2)), (b"a", None)]
    assert store.get("a") is None


def test_range_flushes_deferred_writes_to_the_cache() -> None:
    """A caller that reads ranges between writes would settle each write."""
    store = opened(FakeStoreContext())
    store.put("a", ValueAndTimestamp(1, 1))
    assert [key for key, _ in store.all()] == ["a"]
    for _ in range(PAUSE):
        assert not store.deferred.put_of_run("b", "b", 1, 1, RECORD)
        store.put("b", ValueAndTimestamp(1, 1))
        assert not waiting(store)
    store.put("b", ValueAndTimestamp(2, 1))
    assert waiting(store) == ["b"]
    assert store.get("b") == ValueAndTimestamp(2, 1)


def test_windows_of_a_key_wait_apart() -> None:
    """And are seen by fetches of one and of several windows."""
    store = opened(FakeStoreContext(), kind=WINDOWS)
    for start in (0, 10):
        store.put("a", ValueAndTimestamp(start + 1, start), start)
    assert waiting(store) == [("a", 0), ("a", 10)]
    assert store.fetch("a", 10) == ValueAndTimestamp(11, 10)
    assert store.fetch("a", 20) is None
    with store.fetch_range("a", 0, 10) as found:
        assert [start for start, _ in found] == [0, 10]
    assert not waiting(store)


@pytest.mark.parametrize("caches", [1, 4])
def test_few_entries_wait_where_the_cache_is_small(caches: int) -> None:
    """The stores of a thread share what may wait; in front of a tiny cache nothing does."""
    context = FakeStoreContext(cache_bytes=100_000)
    for number in range(1, caches):
        context.cache.open(f"other-{number}", lambda _entries: None)
    store = opened(context)
    for number in range(401):
        store.put(f"{number}", ValueAndTimestamp(1, 1))
    assert len(waiting(store)) == 1
    assert len(store._cache.entries) == 400
    context.cache.resize(10_000)
    store.put("a", ValueAndTimestamp(1, 1))
    assert not waiting(store)


def test_reader_during_a_flush_reads_deferred_writes() -> None:
    """Entries that are evicted call listeners, which may read and write the store."""
    context = FakeStoreContext(cache_bytes=64 * 250)
    store = opened(context)
    seen: list[Any] = []

    def listen(key: str, *_change: Any) -> None:
        seen.append(store.get("63"))
        if key == "1":
            store.put("late", ValueAndTimestamp(5, 5))

    store.set_flush_listener(listen, False)
    for number in range(64):
        store.put(f"{number}", ValueAndTimestamp(number, 1))
    context.cache.max_bytes = 300  # evicts while what waits is written
    store.flush()
    assert seen
    assert set(seen) == {ValueAndTimestamp(63, 1)}
    assert store.get("late") == ValueAndTimestamp(5, 5)


def test_failed_flush_keeps_unwritten_values() -> None:
    """Where a handler drops the record that failed, writes of other records are not lost."""
    context = FakeStoreContext(cache_bytes=64 * 250)
    store = opened(context)

    def listen(*_change: Any) -> None:
        raise RuntimeError("downstream")

    store.set_flush_listener(listen, False)
    for number in range(64):
        store.put(f"{number}", ValueAndTimestamp(number, 1))
    context.cache.max_bytes = 300
    with pytest.raises(RuntimeError, match="downstream"):
        store.flush()
    written = len(store._cache.entries) + 1  # with the one that was evicted
    assert waiting(store) == [f"{number}" for number in range(written, 64)]


def test_a_closed_store_has_nothing_left() -> None:
    """What was not flushed is dropped, as in the cache."""
    store = opened(FakeStoreContext())
    store.put("a", ValueAndTimestamp(1, 1))
    store.close()
    assert not waiting(store)
