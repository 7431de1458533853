"""Operators over stores with headers (dsl.store.format=headers) give what they give without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import AggregationWithHeaders, Builder, Store, ValueTimestampHeaders
from headrace.stream.dsl.windows import join_window, session, sliding, tumbling
from stream_run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

HEADERS = (("trace", b"1"),)


def table(app: Builder) -> Any:
    return app.stream("in", key=utf8, value=json).to_table(store="store").to_stream()


def aggregate(app: Builder) -> Any:
    return app.stream("in", key=utf8, value=json).group_by_key().count(store="store").to_stream()


def windows(app: Builder) -> Any:
    grouped = app.stream("in", key=utf8, value=json).group_by_key()
    counts = grouped.windowed_by(tumbling(10)).count(store="store").to_stream()
    return counts.select_key(lambda key, value: str(key))


def slides(app: Builder) -> Any:
    grouped = app.stream("in", key=utf8, value=json).group_by_key()
    counts = grouped.windowed_by(sliding(10, grace=50)).count(store="store").to_stream()
    return counts.select_key(lambda key, value: str(key))


def sessions(app: Builder) -> Any:
    grouped = app.stream("in", key=utf8, value=json).group_by_key()
    counts = grouped.windowed_by(session(10)).count(store="store").to_stream()
    return counts.select_key(lambda key, value: str(key))


def stream_join(app: Builder) -> Any:
    left, right = (app.stream(topic, key=utf8, value=json) for topic in ("in", "other"))
    return left.outer_join(right, lambda a, b: [a, b], window=join_window(5, grace=0), store="store")


def foreign_key_join(app: Builder) -> Any:
    left, right = (app.table(topic, key=utf8, value=json) for topic in ("in", "other"))
    joined = left.left_join(right, lambda a, b: [a, b], foreign_key=lambda value: str(value % 2))
    return joined.to_stream()


CASES = [table, aggregate, windows, slides, sessions, stream_join, foreign_key_join]


def output(case: Callable[[Builder], Any], cache_bytes: int, *, headers: bool) -> list[Any]:
    app = Builder(store_headers=headers)
    case(app).to("out", key=utf8, value=json)
    run = Run(app, cache_bytes=cache_bytes)
    records = [("0", 1, 3), ("1", 2, 5), ("0", 3, 6), ("0", None, 7), ("1", 4, 30), ("0", 5, 8)]
    for topic in ("in", "other"):
        if topic == "other" and case not in (stream_join, foreign_key_join):
            continue
        piped = run.driver.input_topic(topic, key=utf8, value=json)
        for key, value, timestamp in records:
            piped.pipe_input(key, value, timestamp, headers=HEADERS)
    found = run.read("out", key=utf8)
    run.close()
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cache_bytes", [0, 10_000])
def test_results_are_the_same(case: Callable[[Builder], Any], cache_bytes: int) -> None:
    """Keys, values and timestamps, without caches and with them."""
    with_headers = output(case, cache_bytes, headers=True)
    assert with_headers
    assert with_headers == output(case, cache_bytes, headers=False)


def test_operators_store_no_headers_and_joins_those_of_the_record() -> None:
    """As in Java. The store is read with its headers."""
    app = Builder(store_headers=True)
    for case, topic in ((aggregate, "counts"), (sessions, "sessions")):
        each = Builder(store_headers=True)
        case(each).to("out", key=utf8, value=json)
        run = Run(each)
        run.driver.input_topic("in", key=utf8, value=json).pipe_input("a", 1, 3, headers=HEADERS)
        store = run.driver.store("store")
        if case is aggregate:
            assert store.get("a") == ValueTimestampHeaders(1, 3, ()), topic
        else:
            assert [value for _, value in store.fetch("a")] == [AggregationWithHeaders(1, ())]
        run.close()
    stream_join(app).to("out", key=utf8, value=json)
    run = Run(app)
    run.driver.input_topic("in", key=utf8, value=json).pipe_input("a", 1, 3, headers=HEADERS)
    rows = list(run.driver.store("store-outer-this-join-store").all())
    assert [value for _, value in rows] == [ValueTimestampHeaders(1, 3, HEADERS)]
    run.close()


def test_stores_that_a_join_is_given_keep_no_headers() -> None:
    """As in Java, where they come from suppliers."""
    app = Builder(store_headers=True)
    left, right = app.stream("in", key=utf8, value=json), app.stream("other", key=utf8, value=json)
    stores: Any = {"store": Store("left", persistent=True), "other_store": Store("right", persistent=True)}
    window = join_window(10, grace=0)
    left.join(right, lambda one, other: one + other, window=window, **stores)
    run = Run(app)
    run.driver.input_topic("in", key=utf8, value=json).pipe_input("a", 1, 3, headers=HEADERS)
    assert [value for _, value in run.driver.store("left").all()] == [1]
    run.close()


def test_a_cached_session_is_forwarded_with_the_stored_headers() -> None:
    """Operators store none, so none reach the output; a table forwards those of the record."""
    for case, expected in ((sessions, ()), (aggregate, HEADERS)):
        app = Builder(store_headers=True)
        case(app).to("out", key=utf8, value=json)
        run = Run(app, cache_bytes=10_000)
        run.driver.input_topic("in", key=utf8, value=json).pipe_input("a", 1, 3, headers=HEADERS)
        records = run.driver.output_topic("out", key=utf8, value=json).read_records()
        assert [tuple(record.headers) for record in records] == [expected]
        run.close()
