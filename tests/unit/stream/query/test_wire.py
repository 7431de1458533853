"""Queries as messages: what an instance answers in bytes is what a local query gives."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from headrace.clients.serdes import int64, utf8
from headrace.protocol.messages.streams_queries import StreamsQueryRequest
from headrace.stream import (
    CountQuery,
    KeyQuery,
    KeysQuery,
    MultiVersionedKeyQuery,
    PrefixQuery,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    ValueAndTimestamp,
    VersionedKeyQuery,
    Window,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
    WrongStoreKindError,
)
from headrace.stream.query.execute import run_query
from headrace.stream.query.gate_io import QueryGate
from headrace.stream.query.reader_io import OpenQueryIterators, reader_of
from headrace.stream.query.wire import Decoder, arguments_of, query_from, read_rows
from headrace.stream.records import Record
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.store_spec import StoreKind
from store_context import FakeStoreContext

TIMES = {"retention_ms": 10_000, "segment_interval_ms": 500}


def filled(kind: StoreKind) -> Any:
    """A store with some entries, deferred, cached and committed."""
    options: dict[str, Any] = {}
    if kind is StoreKind.VERSIONED_KEY_VALUE:
        options = {"history_retention_ms": 10_000, "segment_interval_ms": 500}
    elif kind is StoreKind.SESSION:
        options = TIMES
    elif kind in (StoreKind.WINDOW, StoreKind.TIMESTAMPED_WINDOW):
        options = {**TIMES, "window_size_ms": 100}
    is_cached = kind is not StoreKind.VERSIONED_KEY_VALUE
    store = StoreBuilder("store", kind, utf8, int64, is_cached=is_cached, **options).build()
    store.init(FakeStoreContext())
    for number, key in enumerate("abcab"):
        put(store, kind, key, number)
        if number == 2:
            store.flush()
            store.commit(number)
    return store


def put(store: Any, kind: StoreKind, key: str, number: int) -> None:
    """One entry."""
    time = 100 * number
    if kind is StoreKind.KEY_VALUE:
        store.put(key, number)
    elif kind is StoreKind.TIMESTAMPED_KEY_VALUE:
        store.put(key, ValueAndTimestamp(number, time))
    elif kind is StoreKind.WINDOW:
        store.put(key, number, time)
    elif kind is StoreKind.TIMESTAMPED_WINDOW:
        store.put(key, ValueAndTimestamp(number, time), time)
    elif kind is StoreKind.SESSION:
        store.put(Windowed(key, Window(time, time + 50)), number)
    else:
        store.put(key, number, time)


KEY_VALUE = (
    KeyQuery("a"),
    KeyQuery("x"),
    KeysQuery(("b", "x", "c")),
    RangeQuery(),
    RangeQuery("a", "b", descending=True),
    PrefixQuery(b"b"),
    CountQuery(),
)
CASES: dict[StoreKind, tuple[Any, ...]] = {
    StoreKind.KEY_VALUE: KEY_VALUE,
    StoreKind.TIMESTAMPED_KEY_VALUE: (
        *KEY_VALUE,
        TimestampedKeyQuery("a"),
        TimestampedRangeQuery("b", None),
    ),
    StoreKind.WINDOW: (WindowKeyQuery("a"), WindowKeyQuery("a", 1, 400), WindowRangeQuery(None, 100, 300)),
    StoreKind.TIMESTAMPED_WINDOW: (WindowKeyQuery("b"), WindowRangeQuery()),
    StoreKind.SESSION: (WindowRangeQuery("a"), WindowRangeQuery("a", 200, 400), WindowRangeQuery("x")),
    StoreKind.VERSIONED_KEY_VALUE: (
        VersionedKeyQuery("a"),
        VersionedKeyQuery("a", 250),
        VersionedKeyQuery("x"),
        MultiVersionedKeyQuery("a"),
        MultiVersionedKeyQuery("b", 0, 1000, ascending=True),
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_remote_results_are_those_of_local_queries(kind: StoreKind) -> None:
    """Through the bytes of a request, for each query of each kind of store."""
    store = filled(kind)
    readers = [
        reader_of(store, QueryGate(), OpenQueryIterators(), is_committed=False, in_bytes=in_bytes)
        for in_bytes in (False, True)
    ]
    decoder = Decoder(kind, utf8, int64)
    for query in CASES[kind]:
        local = run_query(kind, readers[0], query)
        wanted = list(local) if hasattr(local, "peek_next_key") else local
        arguments = arguments_of(query, decoder.dumps_key)
        request = StreamsQueryRequest("app", "store", type(query).__name__, arguments)
        received = msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=StreamsQueryRequest)
        rows, has_more = read_rows(kind, readers[1], query_from(received.query, received.arguments), None)
        assert (decoder.value(query, rows), has_more) == (wanted, False), query


def test_queries_that_a_store_does_not_answer() -> None:
    """The same error as of a local query."""
    store = filled(StoreKind.KEY_VALUE)
    reader = reader_of(store, QueryGate(), OpenQueryIterators(), is_committed=False, in_bytes=True)
    for query in (
        TimestampedRangeQuery(),
        TimestampedKeyQuery(b"a"),
        WindowKeyQuery(b"a"),
        VersionedKeyQuery(b"a"),
    ):
        with pytest.raises(WrongStoreKindError, match=type(query).__name__):
            read_rows(StoreKind.KEY_VALUE, reader, query, None)
    with pytest.raises(WrongStoreKindError, match="KeysQuery"):
        read_rows(StoreKind.SESSION, reader, KeysQuery(()), None)
    with pytest.raises(WrongStoreKindError, match="needs a key"):
        read_rows(StoreKind.SESSION, reader, WindowRangeQuery(), None)
    with pytest.raises(WrongStoreKindError, match="is no query"):
        arguments_of(Record("a", 1, 2, ()), utf8.dumps)
