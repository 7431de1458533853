"""Readers of stores in other threads: the results of the store, at each moment of a write's way down."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from dict_stores import DictKeyValue
from headrace.clients.serdes import int64, utf8
from headrace.stream.query.errors import StoreMigratedError, WrongStoreKindError
from headrace.stream.query.gate_io import QueryGate
from headrace.stream.query.reader_io import OpenQueryIterators, reader_of
from headrace.stream.records import ValueAndTimestamp, Window, Windowed
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.files_io import open_engine
from headrace.stream.state.memory_engine import MemoryEngine
from headrace.stream.state.store_spec import StoreKind
from hypothesis import given, settings
from hypothesis import strategies as st
from store_context import FakeStoreContext

if TYPE_CHECKING:
    from pathlib import Path

KEY_VALUE_FORMS: tuple[dict[str, Any], ...] = (
    {},
    {"is_cached": True},
    {"persistent": False},
    {"persistent": False, "is_cached": True},
)
WINDOW_FORMS: tuple[dict[str, Any], ...] = (
    *KEY_VALUE_FORMS,
    {"is_time_ordered": True},
    {"is_time_ordered": True, "is_cached": True},
    {"is_time_ordered": True, "has_index": True},
)
WINDOWS = {"retention_ms": 1000, "segment_interval_ms": 50, "window_size_ms": 10}


def opened(
    kind: StoreKind, *, cache: int = 20_000, engine_of: Any = None, **options: Any
) -> tuple[Any, FakeStoreContext]:
    """An open store, and its context. Only with a large cache there are deferred writes."""
    context = FakeStoreContext(cache, engine_of)
    store = StoreBuilder("store", kind, utf8, int64, **options).build()
    store.init(context)
    return store, context


def read(store: Any, *, is_committed: bool = False, **options: Any) -> Any:
    """A reader of the store."""
    return reader_of(store, QueryGate(), OpenQueryIterators(), is_committed=is_committed, **options)


@pytest.mark.parametrize("cache", [700, 20_000])
@pytest.mark.parametrize("form", KEY_VALUE_FORMS)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "delete", "flush", "commit"]), st.sampled_from("abcde")),
        max_size=25,
    )
)
@settings(max_examples=60, deadline=None)
def test_key_value_reader_equals_its_store(
    cache: int, form: dict[str, Any], steps: list[tuple[str, str]]
) -> None:
    """In each place of a value: deferred, cached, evicted, uncommitted, committed."""
    store, _ = opened(StoreKind.TIMESTAMPED_KEY_VALUE, cache=cache, **form)
    reader = read(store)
    model: dict[str, Any] = {}
    for number, (step, key) in enumerate(steps):
        if step == "put":
            model[key] = ValueAndTimestamp(number, number)
            store.put(key, model[key])
        elif step == "delete":
            model.pop(key, None)
            store.put(key, None)
        else:
            store.flush()
            if step == "commit":
                store.commit(number)
        assert [reader.get(each) for each in "abcde"] == [model.get(each) for each in "abcde"]
        assert list(reader.all()) == sorted(model.items())
        assert list(reader.reverse_range("b", "d")) == [
            (each, model[each]) for each in "dcb" if each in model
        ]
        assert list(reader.prefix_scan(b"c")) == [("c", model[each]) for each in "c" if each in model]


def test_a_committed_reader_reads_the_last_commit() -> None:
    """Deferred, cached and uncommitted values are left out, and deletions."""
    store, _ = opened(StoreKind.TIMESTAMPED_KEY_VALUE, is_cached=True)
    reader = read(store, is_committed=True)
    store.put("a", ValueAndTimestamp(1, 0))
    store.put("b", ValueAndTimestamp(1, 0))
    assert (reader.get("a"), list(reader.all())) == (None, [])
    store.flush()
    assert (reader.get("a"), list(reader.all())) == (None, [])
    store.commit(1)
    store.put("a", ValueAndTimestamp(2, 0))
    store.put("b", None)
    store.flush()
    assert reader.get("a").value == 1
    assert [key for key, _ in reader.all()] == ["a", "b"]
    store.commit(2)
    assert (reader.get("a").value, [key for key, _ in reader.all()]) == (2, ["a"])


def test_in_memory_stores_have_no_committed_reads() -> None:
    """The error says so."""
    store, _ = opened(StoreKind.KEY_VALUE, persistent=False)
    with pytest.raises(WrongStoreKindError, match="in-memory stores do not track"):
        read(store, is_committed=True)


@pytest.mark.parametrize("form", WINDOW_FORMS)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "delete", "flush", "commit"]),
            st.sampled_from("abc"),
            st.sampled_from((0, 10, 49, 50, 60, 120, 300, 1100)),
        ),
        max_size=20,
    )
)
@settings(max_examples=60, deadline=None)
def test_window_reader_equals_its_store(form: dict[str, Any], steps: list[tuple[str, str, int]]) -> None:
    """All reads of a window store, also of windows that expire."""
    store, _ = opened(StoreKind.WINDOW, cache=900, **WINDOWS, **form)
    reader = read(store)
    for number, (step, key, start) in enumerate(steps):
        if step in ("put", "delete"):
            store.put(key, number if step == "put" else None, start)
        else:
            store.flush()
            if step == "commit":
                store.commit(number)
    found = (
        [reader.fetch(key, start) for key in "abc" for start in (0, 50, 300)],
        list(reader.fetch_range("a", 0, 200)),
        list(reader.backward_fetch_range("b", 5, 400)),
        list(reader.fetch_key_range("a", "b", 0, 100)),
        list(reader.fetch_all(10, 500)),
        list(reader.backward_fetch_all(0, 2000)),
        list(reader.all()),
    )
    assert found == (
        [store.fetch(key, start) for key in "abc" for start in (0, 50, 300)],
        list(store.fetch_range("a", 0, 200)),
        list(store.backward_fetch_range("b", 5, 400)),
        list(store.fetch_key_range("a", "b", 0, 100)),
        list(store.fetch_all(10, 500)),
        list(store.backward_fetch_all(0, 2000)),
        list(store.all()),
    )


@pytest.mark.parametrize("form", KEY_VALUE_FORMS)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["put", "remove", "flush", "commit"]),
            st.sampled_from("abc"),
            st.sampled_from((0, 20, 70, 300)),
            st.sampled_from((0, 5, 90)),
        ),
        max_size=20,
    )
)
@settings(max_examples=60, deadline=None)
def test_session_reader_equals_its_store(
    form: dict[str, Any], steps: list[tuple[str, str, int, int]]
) -> None:
    """All reads of a session store."""
    store, _ = opened(StoreKind.SESSION, cache=900, retention_ms=1000, segment_interval_ms=50, **form)
    reader = read(store)
    for number, (step, key, start, length) in enumerate(steps):
        session = Windowed(key, Window(start, start + length))
        if step == "put":
            store.put(session, number)
        elif step == "remove":
            store.remove(session)
        else:
            store.flush()
            if step == "commit":
                store.commit(number)
    found = (
        reader.fetch_session("a", 0, 5),
        list(reader.fetch("b")),
        list(reader.backward_find_sessions("a", 10, 100)),
        list(reader.fetch_key_range("a", "b")),
        list(reader.find_sessions_key_range(None, None, 0, 400)),
    )
    assert found == (
        store.fetch_session("a", 0, 5),
        list(store.fetch("b")),
        list(store.backward_find_sessions("a", 10, 100)),
        list(store.fetch_key_range("a", "b")),
        list(store.find_sessions_key_range(None, None, 0, 400)),
    )


def test_versioned_reader_equals_its_store() -> None:
    """Before and behind a commit; `is_committed` reads the versions of the commit."""
    store, _ = opened(StoreKind.VERSIONED_KEY_VALUE, history_retention_ms=10_000, segment_interval_ms=500)
    reader, committed = read(store), read(store, is_committed=True)
    for value, timestamp in ((1, 100), (3, 900), (2, 500), (None, 950), (4, 1200)):
        store.put("a", value, timestamp)
        assert reader.get("a") == store.get("a")
        for when in (50, 100, 600, 940, 960, 2000):
            assert reader.get_as_of("a", when) == store.get_as_of("a", when)
        assert list(reader.get_versions("a", 0, 2000)) == list(store.get_versions("a", 0, 2000))
    assert committed.get("a") is None
    store.commit(5)
    assert committed.get("a") == store.get("a")
    assert list(committed.get_versions("a", 0, 950, True)) == list(store.get_versions("a", 0, 950, True))


class _WatchedEngine(MemoryEngine):
    """Calls `watch` before and behind each write."""

    watch: Any = staticmethod(lambda: None)

    def write(self, *arguments: Any, **options: Any) -> None:
        self.watch()
        super().write(*arguments, **options)
        self.watch()


@pytest.mark.parametrize(("is_cached", "cache"), [(False, 600), (True, 600), (True, 16_000)])
def test_a_value_on_its_way_down_is_always_found(is_cached: bool, cache: int) -> None:
    """The reader looks in the middle of settling, evicting, flushing and committing."""
    engine = _WatchedEngine()
    store, _ = opened(
        StoreKind.TIMESTAMPED_KEY_VALUE, is_cached=is_cached, cache=cache, engine_of=lambda name: engine
    )
    reader = read(store)
    wanted: dict[str, int] = {}
    seen = 0

    def look(*_: Any) -> None:
        nonlocal seen
        seen += 1
        assert {key: found.value for key, found in reader.all()} == wanted
        assert {key: reader.get(key).value for key in wanted} == wanted

    engine.watch = look
    store.set_flush_listener(look, True)
    for number in range(400):
        key = f"k{number % 99}"
        wanted[key] = number
        store.put(key, ValueAndTimestamp(number, number))
        look()
        if number % 120 == 119:
            store.flush()
            store.commit(number)
    assert seen > (700 if is_cached else 400)


def test_readers_in_other_threads_never_go_back(tmp_path: Path) -> None:
    """Of a counter that is written, evicted, flushed and committed, with the files of a disk."""
    store, _ = opened(
        StoreKind.TIMESTAMPED_KEY_VALUE,
        is_cached=True,
        cache=17_000,
        engine_of=lambda name: open_engine(tmp_path, name),
    )
    gate, failures, ends = QueryGate(), [], threading.Event()
    reader = reader_of(store, gate, OpenQueryIterators(), is_committed=False)
    store.put("n", ValueAndTimestamp(0, 0))

    def follow() -> None:
        last = 0
        try:
            while True:
                with gate:
                    found = reader.get("n").value
                rows = dict(reader.range("n", "n"))["n"].value
                if not last <= found <= rows:
                    failures.append((last, found, rows))
                last = rows
        except StoreMigratedError:
            ends.set()

    followers = [threading.Thread(target=follow) for _ in range(2)]
    for follower in followers:
        follower.start()
    for number in range(1, 6000):
        store.put("n", ValueAndTimestamp(number, 0))
        store.put(f"other{number % 40}", ValueAndTimestamp(number, 0))
        if number % 50 == 0:
            store.flush()
        if number % 500 == 0:
            store.commit(number)
    gate.close()
    for follower in followers:
        follower.join(60)
    store.close()
    assert ends.is_set()
    assert failures == []


def test_an_iterator_ends_with_an_error_when_its_task_is_closed() -> None:
    """It never ends early without one, as if there were no further entries."""
    store, _ = opened(StoreKind.KEY_VALUE, persistent=False)
    for number in range(1000):
        store.put(f"{number:04}", number)
    gate, counted = QueryGate(), OpenQueryIterators()
    with reader_of(store, gate, counted, is_committed=False).all() as rows:
        assert next(rows) == ("0000", 0)
        gate.close()
        store.close()
        with pytest.raises(StoreMigratedError):
            list(rows)
        assert counted.count == 1
    assert counted.count == 0


def test_the_gate_waits_for_readers_and_lets_none_in() -> None:
    """`close` returns when the last reader has left."""
    gate, closed = QueryGate(), threading.Event()
    inside = threading.Event()

    def close() -> None:
        inside.set()
        gate.close()
        closed.set()

    with gate:
        closer = threading.Thread(target=close)
        closer.start()
        inside.wait(60)
        assert not closed.is_set()
    assert closed.wait(60)
    closer.join(60)
    with pytest.raises(StoreMigratedError, match="retry the query"), gate:
        pass


def test_bytes_of_a_store() -> None:
    """A reader in bytes gives stored keys and values, also those that are deferred."""
    store, _ = opened(StoreKind.TIMESTAMPED_KEY_VALUE, is_cached=True)
    store.put("a", ValueAndTimestamp(7, 5))
    reader = read(store, in_bytes=True)
    assert reader.get(b"a") == (5).to_bytes(8, "big") + int64.dumps(7)
    assert list(reader.all()) == [(b"a", (5).to_bytes(8, "big") + int64.dumps(7))]


def test_stores_that_answer_no_queries() -> None:
    """Buffers, lists of values, and stores of suppliers that are not thread-safe."""
    for kind in (StoreKind.SUPPRESS_BUFFER, StoreKind.LIST_VALUE):
        store, _ = opened(kind)
        with pytest.raises(WrongStoreKindError):
            read(store)
    own = DictKeyValue()
    store, _ = opened(StoreKind.KEY_VALUE, supplier=lambda spec: own)
    store.put("a", 1)
    with pytest.raises(WrongStoreKindError, match="thread_safe"):
        read(store)
    own.thread_safe = True
    assert (read(store).get("a"), list(read(store).all())) == (1, [("a", 1)])
