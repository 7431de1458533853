"""What a listener may do while changes of its store are forwarded: read the store, and write to it."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream.records import ValueAndTimestamp
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.store_spec import StoreKind
from store_context import FakeStoreContext

KEYS = [f"{number}" for number in range(20)]
OTHERS = [f"other {number}" for number in range(200)]
by_both_ways = pytest.mark.parametrize(
    "max_entries", [pytest.param(None, id="by column"), pytest.param(10_000, id="entry by entry")]
)


def opened(max_entries: int | None, cache_bytes: int) -> tuple[FakeStoreContext, Any]:
    """A store whose cache has no room for all keys. LRU stores take entries one by one."""
    context = FakeStoreContext(cache_bytes)
    kind = StoreKind.TIMESTAMPED_KEY_VALUE
    builder = StoreBuilder("store", kind, utf8, int64, is_cached=True, max_entries=max_entries)
    store = builder.build()
    store.init(context)
    return context, store


def put(store: Any, keys: list[str], value: int) -> None:
    for key in keys:
        store.put(key, ValueAndTimestamp(value, value))


@by_both_ways
def test_a_listener_reads_new_values_of_keys_that_are_still_to_be_forwarded(max_entries: int | None) -> None:
    """Its reads evict their entries, which count as written."""
    _, store = opened(max_entries, cache_bytes=4000)
    put(store, [*OTHERS, *KEYS], 1)
    store.flush()
    others, found = iter(OTHERS), set()

    def read(key: str, *_: Any) -> None:
        for _ in range(10):
            store.get(next(others))
        if key == KEYS[3]:
            found.update(store.get(each).value for each in KEYS)

    store.set_flush_listener(read, False)
    put(store, KEYS, 2)
    store.flush()
    assert found == {2}


@by_both_ways
@pytest.mark.parametrize("sends_old", [False, True])
def test_a_write_of_a_listener_is_newer_than_what_is_still_to_be_forwarded(
    max_entries: int | None, sends_old: bool
) -> None:
    """The write is evicted, and so flushed, before the earlier value of its key was forwarded."""
    context, store = opened(max_entries, cache_bytes=1500)
    last = KEYS[-1]
    forwarded: list[tuple[int | None, int]] = []

    def write(key: str, new: Any, old: Any, *_: Any) -> None:
        if key == last:
            forwarded.append((old and old.value, new.value))
        if key == KEYS[0]:
            put(store, [last, *OTHERS[:40]], 3)

    store.set_flush_listener(write, sends_old)
    put(store, KEYS, 2)
    store.flush()
    context.cache.check()
    assert store.get(last).value == 3
    assert [record.value[-1] for record in context.changelog if record.key == last.encode()] == [2, 3]
    assert forwarded == ([(None, 2), (2, 3)] if sends_old else [(None, 2), (None, 3)])


def test_after_an_error_of_a_listener_nothing_waits() -> None:
    """The next flush forwards its own entries alone."""
    _, store = opened(None, cache_bytes=10_000)
    forwarded: list[str] = []

    def fail_once(key: str, *_: Any) -> None:
        forwarded.append(key)
        if len(forwarded) == 1:
            raise ValueError(key)

    store.set_flush_listener(fail_once, False)
    put(store, KEYS, 2)
    with pytest.raises(ValueError, match="0"):
        store.flush()
    put(store, KEYS[5:6], 3)
    store.flush()
    assert forwarded == ["0", "5"]
