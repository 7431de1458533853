"""A persistent store that is opened again after a crash and restored from its own offset has lost nothing."""

from __future__ import annotations

from typing import Any

from headrace.clients.serdes import int64, utf8
from headrace.stream.records import RecordContext, ValueAndTimestamp, Window, Windowed
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.store_spec import StoreKind
from headrace.stream.state.thread_cache import ThreadCache
from hypothesis import example, given
from hypothesis import strategies as st
from store_context import FakeStoreContext

OPTIONS = {"retention_ms": 100, "segment_interval_ms": 20, "window_size_ms": 10, "history_retention_ms": 100}
KINDS = st.sampled_from(
    [
        StoreKind.TIMESTAMPED_KEY_VALUE,
        StoreKind.TIMESTAMPED_WINDOW,
        StoreKind.SESSION,
        StoreKind.VERSIONED_KEY_VALUE,
        StoreKind.JOIN_BUFFER,
    ]
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "commit", "crash"]),
        st.sampled_from("abc"),
        st.integers(0, 200),
        st.none() | st.integers(0, 9),
    ),
    max_size=40,
)


def opened(kind: StoreKind, context: FakeStoreContext, is_cached: bool) -> Any:
    caches = is_cached and kind in (
        StoreKind.TIMESTAMPED_KEY_VALUE,
        StoreKind.TIMESTAMPED_WINDOW,
        StoreKind.SESSION,
    )
    store = StoreBuilder("store", kind, utf8, int64, is_cached=caches, grace_ms=50, **OPTIONS).build()
    store.init(context)
    return store


def put(store: Any, kind: StoreKind, key: str, time: int, value: int | None) -> None:
    if kind is StoreKind.JOIN_BUFFER:
        store.put(time, key, value or 0, RecordContext(time, 0, "topic", 0))
        store.evict_while(lambda: True, lambda _: None)
    elif kind is StoreKind.VERSIONED_KEY_VALUE:
        store.put(key, value, time)
    elif kind is StoreKind.SESSION:
        store.put(Windowed(key, Window(max(0, time - 5), time)), value)
    else:
        stamped = None if value is None else ValueAndTimestamp(value, time)
        arguments = (time,) if kind is StoreKind.TIMESTAMPED_WINDOW else ()
        store.put(key, stamped, *arguments)


def content(store: Any, kind: StoreKind) -> list[Any]:
    if kind is StoreKind.JOIN_BUFFER:
        return [store.num_records, store.buffer_size]
    if kind is StoreKind.VERSIONED_KEY_VALUE:
        return [store.get_as_of(key, time) for key in "abc" for time in range(150, 201, 5)]
    rows = store.fetch_key_range(None, None) if kind is StoreKind.SESSION else store.all()
    return list(rows)


def written(context: FakeStoreContext, kind: StoreKind) -> list[tuple[Any, ...]]:
    """The changelog. A join buffer that is opened again may number a record as one that has left it."""
    size = -4 if kind is StoreKind.JOIN_BUFFER else None
    return [(record[0][:size], *record[1:3]) for record in context.changelog]


@example(
    StoreKind.JOIN_BUFFER, [("put", "a", 136, None), ("put", "a", 86, None), ("commit", "a", 0, None)], False
)
@given(KINDS, STEPS, st.booleans())
def test_a_crash_loses_nothing_that_the_changelog_has(
    kind: StoreKind, steps: list[tuple[str, str, int, int | None]], is_cached: bool
) -> None:
    """Beside a store that never crashes; each write reaches the changelog before a crash."""
    whole, crashing = FakeStoreContext(), FakeStoreContext()
    one, other = opened(kind, whole, is_cached), opened(kind, crashing, is_cached)
    for action, key, time, value in [*steps, ("crash", "a", 0, 0), ("put", "a", 200, 1)]:
        if action == "put":
            for store, context in ((one, whole), (other, crashing)):
                context.at(time)
                put(store, kind, key, time, value)
                store.flush()
        elif action == "commit":
            other.commit(len(crashing.changelog))
        else:
            crashing.cache = ThreadCache(10 << 20)
            other = opened(kind, crashing, is_cached)
            other.restore(crashing.changelog[other.committed_offset() or 0 :])
    for context in (whole, crashing):
        context.cache.resize(0)  # as in Java, a cache may have windows that the store has dropped
    assert content(other, kind) == content(one, kind)
    assert written(crashing, kind) == written(whole, kind)
