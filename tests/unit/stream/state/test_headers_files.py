"""Stores with headers over files that were written without them, and the reverse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream.records import (
    AggregationWithHeaders,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Window,
    Windowed,
)
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.engines import DamagedStoreError
from headrace.stream.state.store_spec import StoreKind
from store_context import FakeStoreContext

HEADERS = (("trace", b"1"), ("empty", None))
KEY_VALUE = StoreBuilder("store", StoreKind.TIMESTAMPED_KEY_VALUE, utf8, int64)
WINDOW = StoreBuilder("store", StoreKind.TIMESTAMPED_WINDOW, utf8, int64, retention_ms=100, window_size_ms=10)
SESSION = StoreBuilder("store", StoreKind.SESSION, utf8, int64, retention_ms=100)
BY_TIME = {"is_time_ordered": True, "has_index": True}
WITH_HEADERS = {
    StoreKind.TIMESTAMPED_KEY_VALUE: StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS,
    StoreKind.TIMESTAMPED_WINDOW: StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS,
    StoreKind.SESSION: StoreKind.SESSION_WITH_HEADERS,
}


def opened(builder: StoreBuilder, context: FakeStoreContext) -> Any:
    store = builder.build()
    store.init(context)
    return store


def put(store: Any, kind: StoreKind, key: str, value: Any) -> None:
    if kind is StoreKind.TIMESTAMPED_KEY_VALUE:
        store.put(key, value)
    elif kind is StoreKind.TIMESTAMPED_WINDOW:
        store.put(key, value, 50)
    else:
        store.put(Windowed(key, Window(50, 60)), value)


def contents(store: Any, kind: StoreKind) -> list[tuple[str, Any]]:
    rows = store.find_sessions_key_range(None, None, 0, 1000) if kind is StoreKind.SESSION else store.all()
    with rows:
        return [(getattr(key, "key", key), value) for key, value in rows]


@pytest.mark.parametrize(
    "builder",
    [KEY_VALUE, WINDOW, SESSION, replace(WINDOW, **BY_TIME), replace(SESSION, **BY_TIME)],
    ids=["key-value", "window", "session", "window-by-time", "session-by-time"],
)
def test_values_without_headers_are_read_until_they_are_written_again(builder: StoreBuilder) -> None:
    """One value is overwritten, one deleted, one left alone, one added; then the store is opened again."""
    kind, context = builder.kind, FakeStoreContext().at(55)
    plain: Any = int if kind is StoreKind.SESSION else lambda value: ValueAndTimestamp(value, 55)
    full: Any = (
        (lambda value, headers=HEADERS: AggregationWithHeaders(value, headers))
        if kind is StoreKind.SESSION
        else (lambda value, headers=HEADERS: ValueTimestampHeaders(value, 55, headers))
    )
    old = opened(builder, context)
    for key, value in (("a", 1), ("b", 2), ("c", 3)):
        put(old, kind, key, plain(value))
    old.commit(3)
    old.close()
    for _ in range(2):
        store = opened(replace(builder, kind=WITH_HEADERS[kind]), context)
        assert store.committed_offset() == 3
        put(store, kind, "a", full(10))
        put(store, kind, "b", None)
        put(store, kind, "d", full(4))
        expected = [("a", full(10)), ("c", full(3, ())), ("d", full(4))]
        assert contents(store, kind) == expected
        store.commit(3)
        assert contents(store, kind) == expected
        store.close()
    with pytest.raises(DamagedStoreError, match="was written with headers"):
        opened(builder, context)


def test_a_join_store_of_the_other_format_is_restored_from_its_changelog() -> None:
    """Its values have no timestamps in the files: they are not converted."""
    context = FakeStoreContext().at(55)
    builder = replace(WINDOW, kind=StoreKind.WINDOW, retain_duplicates=True)
    old = opened(builder, context)
    old.put("a", 1, 50)
    old.commit(1)
    old.close()
    with pytest.raises(DamagedStoreError, match="was written without headers"):
        opened(replace(builder, kind=StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS), context)


@pytest.mark.parametrize("builder", [KEY_VALUE, WINDOW, SESSION], ids=["key-value", "window", "session"])
@pytest.mark.parametrize("is_cached", [False, True])
def test_a_changelog_restores_headers(builder: StoreBuilder, is_cached: bool) -> None:
    """The changelog record has the plain value; the headers and the timestamp are its own."""
    kind, context = builder.kind, FakeStoreContext().at(55, HEADERS)
    builder = replace(builder, kind=WITH_HEADERS[kind], is_cached=is_cached)
    store = opened(builder, context)
    is_session = kind is StoreKind.SESSION
    value: Any = AggregationWithHeaders(7, HEADERS) if is_session else ValueTimestampHeaders(7, 44, HEADERS)
    put(store, kind, "a", value)
    put(store, kind, "b", value)
    store.flush()
    put(store, kind, "b", None)
    store.flush()
    assert [(record.value, record.headers) for record in context.changelog] == [
        (int64.dumps(7), HEADERS),
        (int64.dumps(7), HEADERS),
        (None, HEADERS),
    ]
    restored = opened(builder, FakeStoreContext())
    restored.restore(context.changelog)
    assert contents(restored, kind) == [("a", value)] == contents(store, kind)
