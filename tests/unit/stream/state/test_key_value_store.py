"""Typed key-value stores: cache, changelog, order of flushes."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.protocol.errors import SerializationError
from headrace.stream.records import ValueAndTimestamp
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.store_spec import StoreKind
from headrace.stream.state.stores import ChangelogRecord
from store_context import FakeStoreContext


def opened(context: FakeStoreContext, kind: StoreKind = StoreKind.KEY_VALUE, **options: Any) -> Any:
    store = StoreBuilder("store", kind, utf8, int64, **options).build()
    store.init(context)
    return store


def logged(context: FakeStoreContext) -> list[tuple[bytes, bytes | None, int]]:
    return [(record.key, record.value, record.timestamp) for record in context.changelog]


def test_writes_are_logged_with_the_timestamp_of_the_record() -> None:
    """A delete is logged as null, also of an unknown key."""
    context = FakeStoreContext()
    store = opened(context.at(5))
    store.put("a", 1)
    store.delete("b")
    assert store.put_if_absent("a", 7) == 1
    assert logged(context) == [(b"a", int64.dumps(1), 5), (b"b", None, 5)]


def test_timestamped_values_are_logged_with_their_own_timestamp() -> None:
    """The changelog has the value; the store has the timestamp before it."""
    context = FakeStoreContext()
    store = opened(context.at(5), StoreKind.TIMESTAMPED_KEY_VALUE)
    store.put("a", ValueAndTimestamp(1, 3))
    assert logged(context) == [(b"a", int64.dumps(1), 3)]
    other = opened(FakeStoreContext(), StoreKind.TIMESTAMPED_KEY_VALUE)
    other.restore(context.changelog)
    assert other.get("a") == ValueAndTimestamp(1, 3)


def test_cache_forwards_and_logs_the_last_write_of_a_key() -> None:
    """With the context of that write; the old value is that of the store."""
    context = FakeStoreContext()
    store = opened(context, is_cached=True)
    forwarded: list[Any] = []
    assert store.set_flush_listener(lambda *change: forwarded.append(change), True)
    for timestamp, value in ((1, 10), (2, 20)):
        context.at(timestamp, (("h", b"%d" % timestamp),))
        store.put("a", value)
    assert store.get("a") == 20
    assert (context.changelog, forwarded) == ([], [])
    store.flush()
    context.at(3)
    store.put("a", None)
    store.put("unknown", None)
    store.flush()
    assert forwarded == [("a", 20, None, 2, (("h", b"2"),)), ("a", None, 20, 3, ())]
    assert logged(context) == [(b"a", int64.dumps(20), 2), (b"a", None, 3)]


def test_listener_without_old_values() -> None:
    """They are not read then."""
    context = FakeStoreContext()
    store = opened(context, is_cached=True)
    forwarded: list[Any] = []
    store.set_flush_listener(lambda *change: forwarded.append(change), False)
    for value in (1, 2):
        store.put("a", value)
        store.flush()
    assert [(new, old) for _, new, old, _, _ in forwarded] == [(1, None), (2, None)]


def test_ranges_see_the_cache_over_the_store() -> None:
    """Deleted keys of the cache hide those of the store, in both directions."""
    store = opened(FakeStoreContext(), is_cached=True)
    for key in "acd":
        store.put(key, 1)
    store.flush()
    store.put("b", 2)
    store.delete("c")
    assert list(store.range("a", "c")) == [("a", 1), ("b", 2)]
    assert list(store.reverse_all()) == [("d", 1), ("b", 2), ("a", 1)]
    assert list(store.range("d", "a")) == []
    assert list(store.prefix_scan(b"b")) == [("b", 2)]
    assert store.num_open_iterators == 0


def test_eviction_from_an_lru_store_is_logged() -> None:
    """Before the write that evicts; nothing is logged while the store is restored."""
    context = FakeStoreContext()
    store = opened(context.at(1), max_entries=2)
    store.restore([ChangelogRecord(key, int64.dumps(1), 0, 0) for key in (b"x", b"y", b"z")])
    assert context.changelog == []
    assert store.get("y") == 1
    store.put("new", 2)
    assert logged(context) == [(b"z", None, 1), (b"new", int64.dumps(2), 1)]
    assert list(store.all()) == [("new", 2), ("y", 1)]


def test_list_values_are_logged_as_whole_lists() -> None:
    """Each value is an entry of its own when it is read."""
    context = FakeStoreContext()
    store = opened(context.at(1), StoreKind.LIST_VALUE)
    for value in (1, 2):
        store.put("a", value)
    assert list(store.all()) == [("a", 1), ("a", 2)]
    assert len(context.changelog) == 2
    store.put("a", None)
    assert logged(context)[-1] == (b"a", None, 1)


def test_errors_name_the_store() -> None:
    """A value of the wrong type, a key of the wrong type, no serde at all."""
    store = opened(FakeStoreContext())
    with pytest.raises(SerializationError, match="store 'store' cannot serialize the value of type str"):
        store.put("a", "text")
    with pytest.raises(SerializationError, match="the key of type int"):
        store.put(1, 1)
    with pytest.raises(TypeError, match="store 'plain' needs key="):
        StoreBuilder("plain").build().init(FakeStoreContext())


def test_open_iterators_are_found_when_the_store_is_closed() -> None:
    """The warning is an error in tests."""
    store = opened(FakeStoreContext())
    store.put("a", 1)
    rows = store.all()
    assert store.num_open_iterators == 1
    with pytest.warns(ResourceWarning, match="1 iterators of store 'store' were not closed"):
        store.close()
    rows.close()


@pytest.mark.parametrize("persistent", [True, False])
def test_flushed_rows_are_written_before_they_are_forwarded(persistent: bool) -> None:
    """By column: changelog and store have them; a delete of what the store does not have is left out."""
    context = FakeStoreContext()
    store = opened(context, StoreKind.TIMESTAMPED_KEY_VALUE, is_cached=True, persistent=persistent)
    runs: list[Any] = []

    def forward_rows(rows: Any) -> None:
        runs.append((rows.keys.items, rows.values.items, rows.timestamps, len(context.changelog)))
        assert rows.keys.dumps(utf8) == [key.encode() for key in rows.keys.items]
        dumped = [None if value is None else int64.dumps(value) for value in rows.values.items]
        assert rows.values.dumps(int64) == dumped

    store.set_flush_listener(lambda *_change: pytest.fail("one by one"), False, forward_rows)
    for number, key in enumerate("abc"):
        context.at(10 + number)
        store.put(key, ValueAndTimestamp(number, number))
    store.flush()
    context.at(20)
    store.put("b", None)
    store.put("unknown", None)
    store.put("c", ValueAndTimestamp(7, 30))
    store.flush()
    context.at(40)
    store.put("never", None)
    store.flush()
    assert runs == [(["a", "b", "c"], [0, 1, 2], [0, 1, 2], 3), (["b", "c"], [None, 7], [20, 30], 5)]
    assert logged(context)[3:] == [(b"b", None, 20), (b"c", int64.dumps(7), 30)]
    assert dict(store.all()) == {"a": ValueAndTimestamp(0, 0), "c": ValueAndTimestamp(7, 30)}


def test_entries_with_headers_or_old_values_are_forwarded_one_by_one() -> None:
    """A run has neither."""
    for send_old_values, headers in ((True, ()), (False, (("h", b"1"),))):
        context = FakeStoreContext()
        store = opened(context, StoreKind.TIMESTAMPED_KEY_VALUE, is_cached=True)
        forwarded: list[Any] = []
        store.set_flush_listener(
            lambda *change, forwarded=forwarded: forwarded.append(change),
            send_old_values,
            lambda _rows: pytest.fail("a run"),
        )
        for key in "ab":
            store.put(key, ValueAndTimestamp(1, 1))
        context.at(5, headers)
        store.put("a", ValueAndTimestamp(2, 2))
        store.flush()
        assert [change[0] for change in forwarded] == ["b", "a"]
        assert forwarded[1][4] == headers
