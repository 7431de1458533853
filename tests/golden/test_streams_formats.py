"""Bytes of stores, changelogs and internal topics of stream applications are those of Kafka Streams.

`kafka_streams_formats.txt` was written by Kafka Streams 4.3.1 through KafkaStreamsFormats.java.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from headrace.clients.serdes import int64, utf8
from headrace.stream.records import Change, RecordContext, ValueAndTimestamp, Window, Windowed
from headrace.stream.state.formats import buffers, changes, foreign_keys, joins, lists, murmur3, windows
from headrace.stream.state.formats.headers import (
    AggregationWithHeaders,
    ValueTimestampHeaders,
    aggregation_with_headers,
    value_timestamp_headers,
)
from headrace.stream.state.formats.timestamped import timestamped
from headrace.stream.state.formats.versions import SegmentValue

if TYPE_CHECKING:
    from headrace.clients.serdes import Serde

TIME = 1_700_000_000_123
KEY = "kéy".encode()
LINES = (Path(__file__).parent / "kafka_streams_formats.txt").read_text().splitlines()
JAVA = {name: bytes.fromhex(data) for name, data in map(str.split, LINES)}
HASH = (0x0102030405060708).to_bytes(8, "big") + (-2).to_bytes(8, "big", signed=True)
CONTEXT = RecordContext(TIME, 42, "töpic", 3, (("a", b"1"), ("né", None)))
SIDES = joins.left_or_right_value(utf8, int64)
JOIN_KEYS = joins.timestamped_key_and_join_side(utf8)
SUBSCRIPTIONS, RESPONSES = (
    foreign_keys.subscription_wrapper(utf8),
    foreign_keys.subscription_response_wrapper(utf8),
)
Subscription, Response = foreign_keys.SubscriptionWrapper, foreign_keys.SubscriptionResponseWrapper
ONLY_IF = foreign_keys.Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE

SERDES: dict[str, tuple[Serde[Any], Any]] = {
    "time-windowed": (windows.time_windowed(utf8, 10), Windowed("kéy", Window(TIME, TIME + 10))),
    "session-windowed": (windows.session_windowed(utf8), Windowed("kéy", Window(TIME, TIME + 5))),
    "value-and-timestamp": (timestamped(utf8), ValueAndTimestamp("välue", TIME)),
    "timestamped-key-left": (JOIN_KEYS, joins.TimestampedKeyAndJoinSide(True, "key", TIME)),
    "timestamped-key-right": (JOIN_KEYS, joins.TimestampedKeyAndJoinSide(False, "key", TIME)),
    "left-value": (SIDES, joins.LeftOrRightValue("left", None)),
    "right-value": (SIDES, joins.LeftOrRightValue(None, 9)),
    "change-new": (changes.changed(utf8), Change("new", None)),
    "change-old": (changes.changed(utf8), Change(None, "old")),
    "change-both": (changes.changed(utf8), Change("new", "old")),
    "change-long": (changes.changed(utf8), Change("n" * 200, "old")),
    **{
        f"subscription-{number}": (
            SUBSCRIPTIONS,
            Subscription(HASH, foreign_keys.Instruction(number), "pk", 3),
        )
        for number in range(4)
    },
    "subscription-no-hash": (SUBSCRIPTIONS, Subscription(None, ONLY_IF, "pk", 3)),
    "subscription-v0": (SUBSCRIPTIONS, Subscription(HASH, ONLY_IF, "pk", None, 0)),
    "response": (RESPONSES, Response(HASH, "v")),
    "response-null": (RESPONSES, Response(HASH, None)),
    "response-no-hash": (RESPONSES, Response(None, "v")),
    "value-timestamp-headers": (
        value_timestamp_headers(utf8),
        ValueTimestampHeaders("value", TIME, CONTEXT.headers),
    ),
    "value-timestamp-no-headers": (value_timestamp_headers(utf8), ValueTimestampHeaders("value", TIME)),
    "aggregation-with-headers": (
        aggregation_with_headers(utf8),
        AggregationWithHeaders("value", CONTEXT.headers),
    ),
    "combined-key": (foreign_keys.combined_key(utf8, utf8), foreign_keys.CombinedKey("foreign", "primary")),
}


@pytest.mark.parametrize("name", SERDES)
def test_serdes(name: str) -> None:
    """A serde writes the bytes of Java and reads them back."""
    serde, value = SERDES[name]
    assert serde.dumps(value) == JAVA[name]
    assert serde.loads(JAVA[name]) == value


def test_keys_of_window_and_session_stores() -> None:
    """Keys by key and by time, and what is read from them."""
    assert windows.window_key(KEY, TIME, 7) == JAVA["window-store-key"]
    assert windows.split_window_key(JAVA["window-store-key"]) == (KEY, TIME, 7)
    assert windows.time_first_key(KEY, TIME, 7) == JAVA["time-first-key"]
    assert windows.split_time_first_key(JAVA["time-first-key"]) == (KEY, TIME, 7)
    assert windows.key_first_key(KEY, TIME, 7) == JAVA["key-first-key"]
    assert windows.session_key(KEY, TIME, TIME + 5) == JAVA["session-key"]
    assert windows.split_session_key(JAVA["session-key"]) == (KEY, TIME, TIME + 5)
    assert windows.time_first_session_key(KEY, TIME, TIME + 5) == JAVA["time-first-session-key"]
    assert windows.split_time_first_session_key(JAVA["time-first-session-key"]) == (KEY, TIME, TIME + 5)
    assert windows.key_first_session_key(KEY, TIME, TIME + 5) == JAVA["key-first-session-key"]


def test_lists_of_values() -> None:
    """A list of the stream-stream join store, made at once and value by value."""
    assert lists.list_from(JAVA["list-of-values"]) == [b"one", b"", b"three"]
    assert lists.list_bytes([b"one", b"", b"three"]) == JAVA["list-of-values"]
    data = lists.appended(lists.appended(lists.appended(None, b"one"), b""), b"three")
    assert data == JAVA["list-of-values"]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 40])
def test_hashes(size: int) -> None:
    """Blocks of 16 bytes and tails of all kinds."""
    assert murmur3.hash128(bytes((i * 37 - 100) % 256 for i in range(size))) == JAVA[f"murmur3-{size}"]


@pytest.mark.parametrize(
    ("number", "prior", "old", "new"),
    [
        (0, b"one", b"two", b"three"),
        (1, None, None, b"three"),
        (2, b"one", b"one", None),
        (3, b"one", None, b"three"),
    ],
)
def test_suppress_buffers(number: int, prior: bytes | None, old: bytes | None, new: bytes | None) -> None:
    """Changelog records of suppress: the context with headers, and an old value that equals the prior one."""
    value, data = buffers.BufferValue(prior, old, new, CONTEXT), JAVA[f"buffer-value-{number}"]
    assert buffers.changelog_bytes(value, TIME + 1) == data
    assert buffers.changelog_from(data, buffers.CHANGELOG_HEADERS, CONTEXT, None) == (TIME + 1, value)
    assert buffers.record_context_bytes(CONTEXT) == JAVA["record-context"]


def test_versions() -> None:
    """The versions of a key in a segment, through each kind of change."""
    value = SegmentValue(b"one", 10, 20)
    steps = [value.encode()]
    value.insert_as_latest(20, 30, b"two")
    steps.append(value.encode())
    value.insert_as_latest(40, 50, b"four")
    steps.append(value.encode())
    value.insert_as_earliest(5, None)
    steps.append(value.encode())
    value.insert(25, b"twenty-five", value.find(25).position)
    steps.append(value.encode())
    value.update(25, b"25", value.find(25).position)
    steps.append(value.encode())
    assert steps == [JAVA[f"versions-{number}"] for number in range(1, 7)]
    assert SegmentValue(None, 7, 7).encode() == JAVA["versions-tombstone"]
    again = SegmentValue.decode(steps[-1])
    again.insert_as_latest(22, 60, b"again")
    assert again.encode() == JAVA["versions-truncated"]
    assert SegmentValue.decode(JAVA["versions-3"]).versions == [
        (40, b"four"),
        (30, None),
        (20, b"two"),
        (10, b"one"),
    ]
