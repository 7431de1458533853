"""Headers, timestamps and the outcome of a send."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from headrace.clients.records import RecordMetadata, normalize_headers, timestamp_to_ms
from headrace.protocol.model import TopicPartition


def test_headers_as_mapping_or_pairs() -> None:
    """Text becomes UTF-8, None stays, order and repeated names are kept."""
    assert normalize_headers({"a": "ä", "b": None}) == (("a", "ä".encode()), ("b", None))
    assert normalize_headers([("a", b"1"), ("a", bytearray(b"2"))]) == (("a", b"1"), ("a", b"2"))
    assert normalize_headers({}) == normalize_headers(()) == ()


@pytest.mark.parametrize(
    "headers",
    [[("a",)], ["ab1"], ["ab"], [{"key": "a", "value": b"1"}], [(1, b"x")], [("a", 1)], {"a": 1.5}, [None]],
)
def test_invalid_headers_are_errors(headers: object) -> None:
    """A wrong shape or type."""
    with pytest.raises(TypeError):
        normalize_headers(headers)  # type: ignore[arg-type]


def test_timestamps_are_milliseconds_or_aware_datetimes() -> None:
    """Two datetimes of the same instant in different zones give the same number."""
    there = datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp_to_ms(there) == timestamp_to_ms(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert timestamp_to_ms(datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)) == 1500
    assert timestamp_to_ms(12) == 12


@pytest.mark.parametrize(
    ("timestamp", "error"),
    [
        (-1, ValueError),
        (datetime(2026, 1, 1), ValueError),  # noqa: DTZ001 - that is the point
        (1.5, TypeError),
        (True, TypeError),
        ("1", TypeError),
    ],
)
def test_invalid_timestamps_are_errors(timestamp: object, error: type[Exception]) -> None:
    """A naive datetime would mean another instant on another machine."""
    with pytest.raises(error):
        timestamp_to_ms(timestamp)  # type: ignore[arg-type]


def test_metadata_has_its_topic_partition() -> None:
    """For use as a key."""
    assert RecordMetadata("t", 3, 5, 0, -1, 1).topic_partition == TopicPartition("t", 3)
