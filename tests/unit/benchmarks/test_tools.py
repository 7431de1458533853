"""What Kafka's own tools print is read as what they measured, or not at all."""

from __future__ import annotations

from functools import partial

import pytest
from headrace.benchmarks import tools

PRODUCED = (
    "1500000 records sent, 750000.0 records/sec (715.26 MB/sec), 2.35 ms avg latency,"
    " 120.00 ms max latency, 1 ms 50th, 5 ms 95th, 9 ms 99th, 40 ms 99.9th."
)
CONSUMED = (
    "2026-01-01 00:00:00:000, 2026-01-01 00:00:06:000, 1144.4, 190.7, 1200000, 200000.0, 3500, 2500,"
    " 457.7, 480000.0"
)


def test_the_time_of_a_producer_is_that_of_its_rate() -> None:
    """Its start and end are not printed."""
    assert tools.produced(PRODUCED) == (1_500_000, 2.0)


def test_the_time_of_a_consumer_is_that_of_fetching() -> None:
    """Without that of joining its group."""
    assert tools.consumed(CONSUMED) == (1_200_000, 2.5)


@pytest.mark.parametrize("read", [tools.produced, tools.consumed])
@pytest.mark.parametrize("told", ["", "WARNING: Exiting before consuming the expected number of messages"])
def test_what_is_no_result_is_an_error(read: object, told: str) -> None:
    """It is not taken for a rate."""
    with pytest.raises(ValueError, match="told"):
        read(told)  # type: ignore[operator]


def test_both_systems_are_told_the_same_but_for_the_address() -> None:
    """Nothing in an order names a system."""
    spec = {"size": 100, "count": 7, "acks": "all"}
    for order in (tools.producing, partial(tools.consuming, group="g")):
        one, other = (order(address, "t", spec, "/f") for address in ("h:1", "h:2"))
        assert [word.replace("h:1", "h:2") for word in one] == other
        assert "7" in one
