"""Command lines of Kafka's performance tools, and what they print."""

from collections.abc import Callable
from functools import partial

import pytest
from headrace.benchmarks.cells import kafka_tool_commands as commands

PRODUCED = (
    "1500000 records sent, 750000.0 records/sec (715.26 MB/sec), 2.35 ms avg latency,"
    " 120.00 ms max latency, 1 ms 50th, 5 ms 95th, 9 ms 99th, 40 ms 99.9th."
)
CONSUMED = (
    "2026-01-01 00:00:00:000, 2026-01-01 00:00:06:000, 1144.4, 190.7, 1200000, 200000.0, 3500, 2500,"
    " 457.7, 480000.0"
)


def test_time_of_the_producer_follows_from_its_rate() -> None:
    """It prints no start and end."""
    assert commands.parse_produced(PRODUCED) == (1_500_000, 2.0)


def test_time_of_the_consumer_is_its_fetch_time() -> None:
    """Without joining the group."""
    assert commands.parse_consumed(CONSUMED) == (1_200_000, 2.5)


@pytest.mark.parametrize("parse", [commands.parse_produced, commands.parse_consumed])
@pytest.mark.parametrize("line", ["", "WARNING: Exiting before consuming the expected number of messages"])
def test_other_output_is_an_error(parse: Callable[[str], object], line: str) -> None:
    """It is not parsed as a rate."""
    with pytest.raises(ValueError, match="printed"):
        parse(line)


def test_commands_for_both_systems_differ_in_the_address_only() -> None:
    """No argument names a system."""
    spec = {"size": 100, "count": 7, "acks": "all"}
    for command in (commands.produce_command, partial(commands.consume_command, group="g")):
        one, other = (command(address, "t", spec, "/f") for address in ("h:1", "h:2"))
        assert [word.replace("h:1", "h:2") for word in one] == other
        assert "7" in one
