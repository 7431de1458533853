"""State stores give the results and changelogs of Kafka Streams for the same operations.

`kafka_streams_stores.txt` was written by Kafka Streams 4.3.1 through KafkaStreamsStores.java: random
operations on stores of all kinds, several per record, with a cache of 400 bytes that is flushed after each of
them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream.records import (
    AggregationWithHeaders,
    RecordContext,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedRecord,
    Window,
    Windowed,
)
from headrace.stream.state.builders import StoreBuilder
from headrace.stream.state.rocksdict_io import RocksEngine
from headrace.stream.state.sqlite_io import SqliteEngine
from headrace.stream.state.store_spec import StoreKind
from headrace.stream.state.stores import NOT_PUT
from store_context import FakeStoreContext

if TYPE_CHECKING:
    from headrace.clients.records import Headers

STORES: dict[str, list[str]] = {}
for line in (Path(__file__).parent / "kafka_streams_stores.txt").read_text().splitlines():
    if line.startswith("store "):
        STORES[line.split()[1]] = lines = []
    lines.append(line)

WINDOW = StoreBuilder(
    "store", StoreKind.WINDOW, utf8, int64, retention_ms=100, segment_interval_ms=50, window_size_ms=10
)
TIMESTAMPED = replace(WINDOW, kind=StoreKind.TIMESTAMPED_WINDOW)
SESSION = StoreBuilder("store", StoreKind.SESSION, utf8, int64, retention_ms=100)
KEY_VALUE = StoreBuilder("store", StoreKind.KEY_VALUE, utf8, int64)
HEADERS = replace(KEY_VALUE, kind=StoreKind.TIMESTAMPED_KEY_VALUE_WITH_HEADERS)
VERSIONED = StoreKind.VERSIONED_KEY_VALUE
BUILDERS = {
    "key-value-memory": replace(KEY_VALUE, persistent=False),
    "key-value-rocks": KEY_VALUE,
    "key-value-lru": replace(KEY_VALUE, max_entries=3),
    "timestamped-memory": replace(KEY_VALUE, kind=StoreKind.TIMESTAMPED_KEY_VALUE, persistent=False),
    "timestamped-rocks": replace(KEY_VALUE, kind=StoreKind.TIMESTAMPED_KEY_VALUE),
    "window-memory": replace(WINDOW, persistent=False),
    "window-rocks": WINDOW,
    "timestamped-window-rocks": TIMESTAMPED,
    "timestamped-window-by-time": replace(TIMESTAMPED, is_time_ordered=True),
    "session-memory": replace(SESSION, persistent=False),
    "session-rocks": SESSION,
    "window-memory-duplicates": replace(WINDOW, persistent=False, retain_duplicates=True),
    "window-rocks-duplicates": replace(WINDOW, retain_duplicates=True),
    "timestamped-window-by-time-index": replace(TIMESTAMPED, is_time_ordered=True, has_index=True),
    "session-by-time-index": replace(SESSION, is_time_ordered=True, has_index=True),
    "headers-memory": replace(HEADERS, persistent=False),
    "headers-rocks": HEADERS,
    "headers-window-rocks": replace(WINDOW, kind=StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS),
    "headers-session-rocks": replace(SESSION, kind=StoreKind.SESSION_WITH_HEADERS),
    "headers-window-by-time-index": replace(
        WINDOW,
        kind=StoreKind.TIMESTAMPED_WINDOW_WITH_HEADERS,
        segment_interval_ms=60_000,
        is_time_ordered=True,
        has_index=True,
    ),
    "versioned": replace(KEY_VALUE, kind=VERSIONED, history_retention_ms=100, segment_interval_ms=30),
}


def text(value: Any) -> str:
    """A key or value as the Java program writes it."""
    if isinstance(value, ValueAndTimestamp):
        return f"{value.value}~{value.timestamp}"
    if isinstance(value, ValueTimestampHeaders):
        return f"{value.value}~{value.timestamp}~{header_text(value.headers)}"
    if isinstance(value, AggregationWithHeaders):
        return f"{value.aggregation}~~{header_text(value.headers)}"
    if isinstance(value, VersionedRecord):
        return f"{value.value}~{value.timestamp}"
    if isinstance(value, Windowed):
        return f"{value.key}@{value.window.start}/{value.window.end}"
    return "null" if value is None else str(value)


def header_text(headers: Headers) -> str:
    """Headers as the Java program writes them."""
    return "+".join(f"{name}:{'null' if value is None else value.hex()}" for name, value in headers)


def headers_of(word: str) -> Headers:
    """The reverse."""
    pairs = [pair.split(":") for pair in word.split("+") if pair]
    return tuple((name, None if value == "null" else bytes.fromhex(value)) for name, value in pairs)


def typed(word: str) -> Any:
    """An argument of an operation."""
    if word == "null":
        return None
    if "~" in word:
        value, timestamp, *headers = word.split("~")
        if not timestamp:
            return AggregationWithHeaders(int(value), headers_of(headers[0]))
        if headers:
            return ValueTimestampHeaders(int(value), int(timestamp), headers_of(headers[0]))
        return ValueAndTimestamp(int(value), int(timestamp))
    return int(word) if word.lstrip("-").isdigit() else word


def perform(store: Any, builder: StoreBuilder, operation: str) -> str:
    """The result of an operation, as the Java program writes it."""
    name, *words = operation.split()
    arguments = [typed(word) for word in words]
    if builder.kind in (StoreKind.SESSION, StoreKind.SESSION_WITH_HEADERS) and name in ("put", "remove"):
        key, start, end, *value = arguments
        arguments = [Windowed(key, Window(start, end)), *value]
    if name == "prefix_scan":
        arguments = [arguments[0].encode()]
    result = getattr(store, name)(*arguments)
    if hasattr(result, "close"):
        return ",".join(f"{text(key)}={text(value)}" for key, value in result) or "-"
    if name == "remove" or (name == "put" and builder.kind is not VERSIONED):
        return "ok"
    if name == "put":
        return "-1" if result is None else str(NOT_PUT if result == NOT_PUT else result)
    return text(result)


def is_persistent(name: str) -> bool:
    builder = BUILDERS[name.removesuffix("-cached")]
    return builder.persistent and builder.max_entries is None


CASES = [(name, "memory") for name in STORES] + [
    (name, engine) for name in STORES if is_persistent(name) for engine in ("rocksdb", "sqlite")
]


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_operations(name: str, engine: str, tmp_path: Path) -> None:
    """Each result, and the changelog after each record; files are committed after each record."""
    builder = BUILDERS[name.removesuffix("-cached")]
    builder = replace(builder, is_cached=name.endswith("-cached"))
    opens = {"memory": None, "rocksdb": RocksEngine, "sqlite": SqliteEngine}[engine]
    engine_of = None if opens is None else lambda store_name: opens(tmp_path / store_name)
    context = FakeStoreContext(int(STORES[name][0].split()[2]), engine_of)
    store = builder.build()
    store.init(context)
    logged = 0
    for number, line in enumerate(STORES[name][1:]):
        kind, _, rest = line.partition(" ")
        if kind == "log":
            if logged == 0:
                store.flush()
            key, value, timestamp, *headers = rest.split(" ")
            record = context.changelog[logged]
            assert (record.key.hex(), text(record.value and record.value.hex()), record.timestamp) == (
                key, value, int(timestamp)
            ), f"{number}: {line}"  # fmt: skip
            assert record.headers == headers_of("".join(headers)), f"{number}: {line}"
            logged += 1
            continue
        if kind == "record":
            store.flush()
            store.commit(number)
            assert len(context.changelog) == logged, f"{number}: {line}"
            context.changelog.clear()
            logged = 0
            time, _, headers = rest.partition(" ")
            context.record_context = RecordContext(int(time), number, "in", 0, headers_of(headers))
            continue
        operation, _, expected = line.partition(" -> ")
        if builder.is_cached and operation.startswith(("backward", "reverse")) and "=null" in expected:
            perform(store, builder, operation)  # Java returns entries that are deleted in the cache
            continue
        assert perform(store, builder, operation) == expected, f"{number}: {line}"
    store.close()
