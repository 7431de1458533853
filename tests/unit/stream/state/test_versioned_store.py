"""Versioned stores: equal to a sorted list of versions, and the limits of history."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream.records import VersionedRecord
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.store_spec import StoreKind
from headrace.stream.state.stores import NOT_PUT
from headrace.stream.state.versioned_store import default_segment_ms
from hypothesis import given
from hypothesis import strategies as st
from store_context import FakeStoreContext

PUTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.none() | st.integers(0, 9)), max_size=30
)


def opened(context: FakeStoreContext, history_ms: int = 1000, segment_ms: int = 10) -> Any:
    store = StoreBuilder(
        "store",
        StoreKind.VERSIONED_KEY_VALUE,
        utf8,
        int64,
        history_retention_ms=history_ms,
        segment_interval_ms=segment_ms,
    ).build()
    store.init(context)
    return store


def version_at(versions: dict[int, int | None], timestamp: int) -> VersionedRecord[int] | None:
    valid_from = max((time for time in versions if time <= timestamp), default=None)
    value = None if valid_from is None else versions[valid_from]
    if valid_from is None or value is None:
        return None
    return VersionedRecord(
        value, valid_from, min((time for time in versions if time > valid_from), default=None)
    )


@given(PUTS, st.sampled_from([7, 10, 1000]))
def test_equal_to_a_list_of_versions(puts: list[tuple[str, int, int | None]], segment_ms: int) -> None:
    """Puts and deletes out of order: reads as of each time, the latest, all versions; and when restored."""
    context = FakeStoreContext()
    store = opened(context, segment_ms=segment_ms)
    expected: dict[str, dict[int, int | None]] = {"a": {}, "b": {}}
    for key, timestamp, value in puts:
        if value is None and timestamp in expected[key]:
            continue  # Kafka Streams forgets the tombstone if no version ended there
        later = min((time for time in expected[key] if time > timestamp), default=None)
        expected[key][timestamp] = value
        valid_to = store.put(key, value, timestamp)
        if later is not None:
            assert valid_to == later
    restored = opened(FakeStoreContext(), segment_ms=segment_ms)
    restored.restore(context.changelog)
    for each in (store, restored):
        for key, versions in expected.items():
            for timestamp in range(62):
                found = each.get_as_of(key, timestamp)
                assert found == version_at(versions, timestamp), (key, timestamp)
            assert each.get(key) == version_at(versions, 1000)
            found = [version for _, version in each.get_versions(key, 20, 40)]
            all_versions = [version_at(versions, time) for time in sorted(versions, reverse=True)]
            assert found == [v for v in all_versions if v and v.timestamp <= 40 and (v.valid_to or 99) > 20]


def test_history_retention() -> None:
    """Older writes are refused and counted, but logged; older reads find the latest version alone."""
    context = FakeStoreContext()
    store = opened(context, history_ms=100, segment_ms=20)
    store.put("a", 1, 10)
    store.put("a", 2, 200)
    assert store.put("a", 3, 99) == NOT_PUT
    assert context.dropped_reasons == ["expired-version"]
    assert [record.timestamp for record in context.changelog] == [10, 200, 99]
    assert store.get_as_of("a", 99) is None
    assert store.get_as_of("a", 150) == VersionedRecord(1, 10, 200)
    store.put("b", 4, 20 + 80)
    store.put("b", 5, 1000)
    assert store.get_as_of("a", 300) == VersionedRecord(2, 200)
    assert store.get_as_of("a", 150) is None


def test_delete_returns_the_version_of_its_time() -> None:
    """A tombstone in the past ends the version before it."""
    store = opened(FakeStoreContext())
    store.put("a", 1, 10)
    store.put("a", 2, 30)
    assert store.delete("a", 20) == VersionedRecord(1, 10, 30)
    assert store.get_as_of("a", 25) is None
    assert store.get_as_of("a", 15) == VersionedRecord(1, 10, 20)
    assert store.delete("unknown", 5) is None
    assert list(store.get_versions("a", 0, 50, ascending=True)) == [
        (10, VersionedRecord(1, 10, 20)),
        (30, VersionedRecord(2, 30)),
    ]
    store.close()


@pytest.mark.parametrize(
    ("history", "segment"),
    [(3_000, 2_000), (60_000, 20_000), (300_000, 60_000), (3_600_000, 300_000), (10**9, 10**9 // 24)],
)
def test_default_segments(history: int, segment: int) -> None:
    """Between 3 and 24 segments, as in Java."""
    assert default_segment_ms(history) == segment
