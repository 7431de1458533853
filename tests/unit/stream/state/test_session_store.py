"""Typed session stores: cache, changelog, expiry."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream.records import Window, Windowed
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.formats.windows import session_key
from headrace.stream.state.store_spec import StoreKind
from store_context import FakeStoreContext

FORMS: tuple[dict[str, Any], ...] = (
    {"persistent": False},
    {},
    {"is_time_ordered": True},
    {"is_time_ordered": True, "has_index": True},
)


def opened(context: FakeStoreContext, **options: Any) -> Any:
    options = {"retention_ms": 100, "segment_interval_ms": 50} | options
    store = StoreBuilder("store", StoreKind.SESSION, utf8, int64, **options).build()
    store.init(context)
    return store


def session(key: str, start: int, end: int) -> Windowed[str]:
    return Windowed(key, Window(start, end))


def rows(found: Any) -> list[tuple[str, int, int, int]]:
    return [(key.key, key.window.start, key.window.end, value) for key, value in found]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_cached", [False, True])
def test_session_fetches_by_key_range_and_time(form: dict[str, Any], is_cached: bool) -> None:
    """Sessions that overlap a span of time, of one key, of a range and of all keys."""
    store = opened(FakeStoreContext(), is_cached=is_cached, **form)
    store.put(session("a", 0, 5), 1)
    store.put(session("a", 20, 30), 2)
    store.put(session("b", 3, 8), 3)
    store.flush()
    store.put(session("a", 60, 70), 4)
    store.put(session("gone", 1, 2), 5)
    store.remove(session("gone", 1, 2))
    assert store.fetch_session("a", 20, 30) == 2
    assert store.fetch_session("a", 20, 31) is None
    assert rows(store.find_sessions("a", 5, 20)) == [("a", 0, 5, 1), ("a", 20, 30, 2)]
    assert rows(store.backward_find_sessions("a", 6, 60)) == [("a", 60, 70, 4), ("a", 20, 30, 2)]
    assert rows(store.fetch("a")) == [("a", 0, 5, 1), ("a", 20, 30, 2), ("a", 60, 70, 4)]
    assert rows(store.backward_fetch("b")) == [("b", 3, 8, 3)]
    assert sorted(rows(store.fetch_key_range("a", "b"))) == [
        ("a", 0, 5, 1), ("a", 20, 30, 2), ("a", 60, 70, 4), ("b", 3, 8, 3)
    ]  # fmt: skip
    assert rows(store.find_sessions_key_range("b", None, 0, 100)) == [("b", 3, 8, 3)]
    assert rows(store.backward_find_sessions_key_range("b", "a", 0, 100)) == []
    store.flush()
    assert rows(store.fetch("a")) == [("a", 0, 5, 1), ("a", 20, 30, 2), ("a", 60, 70, 4)]


@pytest.mark.parametrize("form", [FORMS[0], FORMS[2]])
def test_sessions_by_end(form: dict[str, Any]) -> None:
    """For windows that are emitted when they close; a store that is ordered by key cannot do that."""
    store = opened(FakeStoreContext(), **form)
    for end in (10, 20, 30):
        store.put(session("a", 0, end), end)
    assert rows(store.find_sessions_by_end(11, 30)) == [("a", 0, 20, 20), ("a", 0, 30, 30)]
    with pytest.raises(NotImplementedError, match="ordered by time"):
        opened(FakeStoreContext()).find_sessions_by_end(0, 1)


@pytest.mark.parametrize("form", FORMS)
def test_expired_sessions(form: dict[str, Any]) -> None:
    """The end of a session decides."""
    context = FakeStoreContext()
    store = opened(context, **form)
    store.put(session("a", 0, 50), 1)
    store.put(session("a", 100, 150), 2)
    assert rows(store.fetch("a")) == [("a", 100, 150, 2)]
    store.put(session("a", 0, 49), 3)
    assert context.dropped_reasons == ["expired-window"]


@pytest.mark.parametrize("form", FORMS[:2])
def test_changelog_and_cache(form: dict[str, Any]) -> None:
    """Removed sessions are logged as null."""
    context = FakeStoreContext()
    store = opened(context.at(9), is_cached=True, **form)
    forwarded: list[Any] = []
    store.set_flush_listener(lambda *change: forwarded.append(change), True)
    store.put(session("a", 0, 5), 1)
    store.flush()
    store.remove(session("a", 0, 5))
    store.put(session("a", 0, 9), 2)
    store.flush()
    assert forwarded == [
        (session("a", 0, 5), 1, None, 9, ()),
        (session("a", 0, 5), None, 1, 9, ()),
        (session("a", 0, 9), 2, None, 9, ()),
    ]
    assert [(record.key, record.value, record.timestamp) for record in context.changelog] == [
        (session_key(b"a", 0, 5), int64.dumps(1), 9),
        (session_key(b"a", 0, 5), None, 9),
        (session_key(b"a", 0, 9), int64.dumps(2), 9),
    ]
    other = opened(FakeStoreContext(), **form)
    other.restore(context.changelog)
    assert rows(other.fetch("a")) == [("a", 0, 9, 2)]
    uncached = opened(context, **form)
    uncached.put(session("b", 0, 5), 1)
    uncached.remove(session("b", 0, 5))
    assert context.changelog[-1].value is None
