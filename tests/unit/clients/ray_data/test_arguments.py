"""Arguments by the names of `ray.data.read_kafka`, and the options that result."""

from datetime import UTC, datetime
from typing import Any

import pytest
from headrace.clients.ray_data.arguments import (
    OF_READ_TASKS,
    check_order,
    core_options,
    end_side,
    offsets_of,
    split,
    start_side,
)
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition

LOGS = {TopicPartition("t", 0): 100, TopicPartition("t", 1): 50}


def test_arguments_of_ray_and_of_the_reader() -> None:
    """None means unset, as in Ray's signatures."""
    found = split({"num_cpus": 0.5, "memory": None, "failOnDataLoss": False}, OF_READ_TASKS)
    assert found == ({"num_cpus": 0.5}, {"failOnDataLoss": False})


def test_consumer_options() -> None:
    """A consumer's keys get their prefix; the default is read_committed."""
    found = core_options(["a", "b"], "h:1", {"timeout_ms": 5, "consumer_config": {"client.id": "me"}})
    assert found == {
        "bootstrap.servers": "h:1",
        "subscribe": ["a", "b"],
        "kafkaConsumer.pollTimeoutMs": 5,
        "kafka.client.id": "me",
        "kafka.isolation.level": "read_committed",
    }
    given = {"consumer_config": {"isolation.level": "read_uncommitted", "bootstrap.servers": "h:1"}}
    found = core_options(None, None, given)
    assert found == {"kafka.isolation.level": "read_uncommitted", "bootstrap.servers": "h:1"}
    assert "kafka.isolation.level" not in core_options(None, None, {"Headrace.Isolation.Level": "x"})


@pytest.mark.parametrize(
    ("topics", "given", "text"),
    [
        ([], {}, "topics is empty"),
        ("t", {"kafka_auth_config": object()}, "kafka_auth_config"),
        ("t", {"consumer_config": "x"}, "consumer_config must be"),
        ("t", {"consumer_config": {"bootstrap.servers": "other:1"}}, "twice"),
    ],
)
def test_invalid_arguments_are_errors(topics: Any, given: dict[str, Any], text: str) -> None:
    """The error names the argument."""
    with pytest.raises(ConfigError, match=text):
        core_options(topics, "h:1", given)


def test_start_and_end_by_word_and_time() -> None:
    """A time without a zone is UTC; a time in the future leaves nothing to read."""
    assert start_side("earliest").options == {"startingOffsets": "earliest"}
    assert end_side("latest").options == {"endingOffsets": "latest"}
    assert end_side(None).options == {}
    assert end_side(datetime(2026, 1, 1, tzinfo=UTC)).options == {"endingTimestamp": 1767225600000}
    assert start_side(datetime(2026, 1, 1)).options == {  # noqa: DTZ001 - as users of Ray give it
        "startingTimestamp": 1767225600000,
        "startingOffsetsByTimestampStrategy": "latest",
    }


def test_times_are_exact() -> None:
    """Ms of a far year exceed a float; a time between two ms is rounded up; 1969 is before all records."""
    far = datetime(2039, 3, 29, 19, 55, 40, 595_000, UTC)
    assert end_side(far).options == {"endingTimestamp": 2_185_041_340_595}
    assert end_side(far.replace(microsecond=595_001)).options == {"endingTimestamp": 2_185_041_340_596}
    assert start_side(datetime(1969, 1, 1, tzinfo=UTC)).options["startingTimestamp"] == 0


def test_integers_are_offsets_of_each_partition() -> None:
    """One number ends at the end of each log at the latest; partitions without one are read whole."""
    assert offsets_of(start_side(60), "start_offset", LOGS, is_end=False) == dict.fromkeys(LOGS, 60)
    assert list(offsets_of(end_side(60), "end_offset", LOGS, is_end=True).values()) == [60, 50]
    named = start_side({"t": {1: 7}})
    assert list(offsets_of(named, "start_offset", LOGS, is_end=False).values()) == [-2, 7]
    named = end_side({"t": {"0": "latest", 1: 7}})
    assert list(offsets_of(named, "end_offset", LOGS, is_end=True).values()) == [-1, 7]
    with pytest.raises(ConfigError, match="t-2"):
        offsets_of(end_side({"t": {2: 7}}), "end_offset", LOGS, is_end=True)


@pytest.mark.parametrize("given", ["latest", "x", -1, True, 1.5, [1], {"t": 5}, {"t": {0: "latest"}}, {}])
def test_invalid_starts_are_errors(given: Any) -> None:
    """The error names the argument."""
    with pytest.raises(ConfigError, match="start_offset"):
        start_side(given)


@pytest.mark.parametrize("given", ["earliest", -2, {"t": {0: "earliest"}}, {"t": {0: "soon"}}])
def test_invalid_ends_are_errors(given: Any) -> None:
    """The error names the argument."""
    with pytest.raises(ConfigError, match="end_offset"):
        end_side(given)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (5, 4),
        ({"t": {0: 5}}, {"t": {0: 4}}),
        (datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_start_behind_the_end_is_an_error(start: Any, end: Any) -> None:
    """Unless only one of them is given."""
    with pytest.raises(ConfigError, match="is after"):
        check_order(start_side(start), end_side(end))
    check_order(start_side(start), end_side("latest"))
    check_order(start_side({"t": {0: 5}}), end_side({"t": {0: -1, 1: 3}}))
