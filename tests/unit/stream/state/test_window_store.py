"""Typed window stores: cache, changelog, duplicates, expiry."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream.records import ValueAndTimestamp, Window, Windowed
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.formats.windows import window_key
from headrace.stream.state.store_spec import StoreKind
from store_context import FakeStoreContext

FORMS: tuple[dict[str, Any], ...] = (
    {"persistent": False},
    {},
    {"is_time_ordered": True},
    {"is_time_ordered": True, "has_index": True},
)


def opened(context: FakeStoreContext, kind: StoreKind = StoreKind.WINDOW, **options: Any) -> Any:
    options = {"retention_ms": 100, "segment_interval_ms": 50, "window_size_ms": 10} | options
    store = StoreBuilder("store", kind, utf8, int64, **options).build()
    store.init(context)
    return store


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_cached", [False, True])
def test_window_fetches_merge_cache_and_store(form: dict[str, Any], is_cached: bool) -> None:
    """By key and window, by key and time, by range, all; the cache is merged with the store."""
    store = opened(FakeStoreContext(), is_cached=is_cached, **form)
    for number, (key, start) in enumerate((("a", 0), ("a", 10), ("b", 0), ("c", 60), ("a", 60))):
        store.put(key, number, start)
        if number == 2:
            store.flush()
    store.put("b", None, 0)
    assert store.fetch("a", 10) == 1
    assert store.fetch("b", 0) is None
    assert list(store.fetch_range("a", 0, 60)) == [(0, 0), (10, 1), (60, 4)]
    assert list(store.backward_fetch_range("a", 5, 60)) == [(60, 4), (10, 1)]
    assert list(store.fetch_range("a", 1, 9)) == []
    by_time = [("a", 0, 0), ("a", 10, 1), ("a", 60, 4), ("c", 60, 3)]
    rows = [(key.key, key.window.start, value) for key, value in store.all()]
    assert rows == by_time
    rows = [(key.key, key.window.start, value) for key, value in store.backward_fetch_all(10, 60)]
    assert rows == by_time[:0:-1]
    assert [key.window for key, _ in store.fetch_key_range("b", None, 0, 60)] == [Window(60, 70)]
    assert list(store.fetch_key_range("b", "a", 0, 60)) == []
    store.flush()
    assert [(key.key, key.window.start, value) for key, value in store.all()] == by_time


@pytest.mark.parametrize("persistent", [False, True])
def test_expired_windows(persistent: bool) -> None:
    """They are not returned once stream time has passed them; a write into an expired segment is dropped."""
    context = FakeStoreContext()
    store = opened(context, persistent=persistent)
    store.put("a", 1, 50)
    store.put("a", 2, 149)
    assert store.fetch("a", 50) == 1
    store.put("a", 3, 150)
    assert store.fetch("a", 50) is None
    assert [start for start, _ in store.fetch_range("a", 0, 200)] == [149, 150]
    assert context.dropped_reasons == []
    store.put("a", 4, 50 if not persistent else 49)
    assert context.dropped_reasons == ["expired-window"]
    assert len(context.changelog) == 4


@pytest.mark.parametrize("persistent", [False, True])
def test_duplicates_are_kept_in_order(persistent: bool) -> None:
    """The sequence number is in the keys of store and changelog; null values are ignored, but logged."""
    context = FakeStoreContext()
    store = opened(context.at(7), persistent=persistent, retain_duplicates=True, is_cached=True)
    for value in (1, 2, None, 3):
        store.put("a", value, 10)
    assert list(store.fetch_range("a", 10, 10)) == [(10, 1), (10, 2), (10, 3)]
    assert list(store.backward_fetch_range("a", 10, 10)) == [(10, 3), (10, 2), (10, 1)]
    assert [value for _, value in store.all()] == [1, 2, 3]
    assert [record.key for record in context.changelog] == [window_key(b"a", 10, n) for n in (1, 2, 3, 4)]
    other = opened(FakeStoreContext(), persistent=persistent, retain_duplicates=True)
    other.restore(context.changelog)
    assert list(other.fetch_range("a", 10, 10)) == [(10, 1), (10, 2), (10, 3)]


@pytest.mark.parametrize("form", FORMS[:3])
def test_cache_forwards_windowed_keys_and_store_is_restored(form: dict[str, Any]) -> None:
    """Values with their timestamps; the changelog has the keys of Java in any order of the store."""
    context = FakeStoreContext()
    store = opened(context, StoreKind.TIMESTAMPED_WINDOW, is_cached=True, **form)
    forwarded: list[Any] = []
    store.set_flush_listener(lambda *change: forwarded.append(change), True)
    store.put("a", ValueAndTimestamp(1, 12), 10)
    context.at(13)
    store.put("a", ValueAndTimestamp(2, 13), 10)
    store.flush()
    store.put("a", ValueAndTimestamp(3, 14), 10)
    store.flush()
    key = Windowed("a", Window(10, 20))
    first, second = ValueAndTimestamp(2, 13), ValueAndTimestamp(3, 14)
    assert forwarded == [(key, first, None, 13, ()), (key, second, first, 13, ())]
    assert [(record.key, record.timestamp) for record in context.changelog] == [
        (window_key(b"a", 10), 13),
        (window_key(b"a", 10), 14),
    ]
    other = opened(FakeStoreContext(), StoreKind.TIMESTAMPED_WINDOW, **form)
    other.restore(context.changelog)
    assert other.fetch("a", 10) == second


def test_retention_must_cover_the_window() -> None:
    """As in Java, with the numbers."""
    with pytest.raises(ValueError, match=r"retention \(5 ms\) is shorter than the window \(10 ms\)"):
        StoreBuilder("store", StoreKind.WINDOW, window_size_ms=10, retention_ms=5).build()
