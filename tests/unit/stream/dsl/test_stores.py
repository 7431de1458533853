"""Stores of operators: what the builders say."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream.dsl.kstream import KStream
from headrace.stream.dsl.logical_graph import LogicalGraph
from headrace.stream.dsl.stores import Materialized, Store, processor_store
from headrace.stream.dsl.windows import session, sliding, tumbling
from headrace.stream.state.store_spec import StoreKind

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def materialized(store: Store | str | None, *, persistent: bool = True) -> Materialized:
    """Of a new graph."""
    return Materialized(LogicalGraph(KStream, persistent=persistent), store, "KSTREAM-REDUCE-")


def test_a_store_without_name_is_not_for_queries() -> None:
    """Its name is generated."""
    made = materialized(None)
    assert (made.name, made.queryable_name) == ("KSTREAM-REDUCE-STATE-STORE-0000000000", None)
    assert materialized("mine").queryable_name == "mine"


def test_serdes_of_the_user_come_first() -> None:
    """Those of the operator fill the gaps."""
    made = materialized(Store(key=utf8))
    made.default_serdes(int64, int64)
    builder = made.key_value()
    assert (builder.key_serde, builder.value_serde) == (utf8, int64)


@pytest.mark.parametrize(
    ("history", "segment"),
    [
        (3_000, 2_000),
        (MINUTE_MS, 20_000),
        (5 * MINUTE_MS, MINUTE_MS),
        (HOUR_MS, 5 * MINUTE_MS),
        (24 * HOUR_MS, HOUR_MS),
    ],
)
def test_versioned_stores_have_segments_by_their_history(history: int, segment: int) -> None:
    """Shorter histories have relatively longer segments; they are never cached."""
    builder = materialized(Store("v", history=history)).key_value()
    assert (builder.kind, builder.is_cached) == (StoreKind.VERSIONED_KEY_VALUE, False)
    assert (builder.history_retention_ms, builder.segment_interval_ms) == (history, segment)


def test_windows_are_retained_until_they_close() -> None:
    """Unless the user wants them longer."""
    made = materialized(None).window(tumbling(100, grace=20), emit_on_close=False)
    assert (made.retention_ms, made.window_size_ms, made.segment_interval_ms) == (120, 100, MINUTE_MS)
    made = materialized(Store(retention=HOUR_MS)).sliding_window(sliding(100, grace=20), emit_on_close=False)
    assert (made.retention_ms, made.window_size_ms, made.segment_interval_ms) == (HOUR_MS, 100, HOUR_MS // 2)
    made = materialized(Store(segment_interval=5)).session(session(100, grace=20), emit_on_close=False)
    assert (made.kind, made.retention_ms, made.segment_interval_ms) == (StoreKind.SESSION, 120, 5)


@pytest.mark.parametrize("form", ["window", "sliding_window", "session"])
def test_too_short_retention_is_refused(form: str) -> None:
    """A window would lose records before it closes."""
    windows: Any = {"window": tumbling(9), "sliding_window": sliding(9), "session": session(9)}[form]
    with pytest.raises(ValueError, match="retention of store s is 8 ms, less than"):
        getattr(materialized(Store("s", retention=8)), form)(windows, emit_on_close=False)


def test_emission_on_close_needs_a_store_by_time() -> None:
    """Stores in memory are read as they are; caches of sliding windows and sessions would hide results."""
    window = materialized(None).window(tumbling(9), emit_on_close=True)
    assert (window.is_time_ordered, window.has_index, window.is_cached) == (True, False, True)
    sessions = materialized(None).session(session(9), emit_on_close=True)
    assert (sessions.is_time_ordered, sessions.has_index, sessions.is_cached) == (True, True, False)
    by_key = materialized(Store(time_ordered=False)).window(tumbling(9), emit_on_close=True)
    assert not by_key.is_time_ordered
    in_memory = materialized(None, persistent=False).sliding_window(sliding(9), emit_on_close=True)
    assert (in_memory.is_time_ordered, in_memory.has_index, in_memory.is_cached) == (False, False, False)


def test_stores_of_processors() -> None:
    """No cache unless it is asked for; a name is needed, and history makes a store versioned."""
    made = processor_store(Store("w", kind=StoreKind.WINDOW, retention=50, window_size=5), persistent=False)
    assert (made.kind, made.persistent, made.is_cached, made.retention_ms) == (
        StoreKind.WINDOW,
        False,
        False,
        50,
    )
    assert processor_store(Store("v", history=50), persistent=True).kind is StoreKind.VERSIONED_KEY_VALUE
    assert processor_store(made, persistent=True) is made
    with pytest.raises(ValueError, match="needs a name"):
        processor_store(Store(), persistent=True)
    for wrong in ({"max_entries": -1}, {"max_entries": 5, "history": 5}):
        with pytest.raises(ValueError, match="max_entries= is at least 0, of a store without history="):
            Store("s", **wrong)
    with pytest.raises(ValueError, match="a versioned store needs a name"):
        Store(history=5)


def test_stores_have_headers_where_java_gives_them() -> None:
    """With dsl.store.format=headers: persistent stores of operators, unless the application describes one
    that Java makes of a supplier of the user."""
    kinds = []
    for store, persistent in (
        (None, True),
        (None, False),
        (Store("s", persistent=False), True),
        (Store("s", max_entries=3), True),
        (Store("s", history=HOUR_MS), True),
    ):
        graph = LogicalGraph(KStream, persistent=persistent, headers=True)
        kinds.append(Materialized(graph, store, "KSTREAM-REDUCE-").key_value().kind)
    timestamped = StoreKind.TIMESTAMPED_KEY_VALUE
    assert kinds == [
        StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS, timestamped, timestamped, timestamped,
        StoreKind.VERSIONED_KEY_VALUE,
    ]  # fmt: skip
