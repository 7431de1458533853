"""What Kafka's own tools print is read as what they measured, or not at all."""

from __future__ import annotations

import contextlib
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from headrace.benchmarks import tools, tools_io
from headrace.benchmarks.children_io import LostDataError
from headrace.benchmarks.group import HEADRACE, Cell

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


READING = {"size": 100, "times": 2}


def read_with(*counts: int) -> tuple[dict[str, Any], list[str]]:
    """A cell whose readings find these counts of ten records; what it reports, and what it says meanwhile."""
    found, said = iter(counts), list[str]()

    def consume(*_: object) -> dict[str, Any]:
        count = next(found)
        costs = dict.fromkeys(("seconds", "server_cpu_s", "client_cpu_s"), 1.0)
        return {**costs, "records": count, "bytes": count * 100, "told": "as told"}

    session: Any = SimpleNamespace(
        systems={HEADRACE: None},
        preloaded={HEADRACE: {"topic": "t", "count": 10}},
        profiled=lambda _: contextlib.nullcontext(),
        tools=SimpleNamespace(consume=consume),
        say=said.append,
    )
    return tools_io.consume(session, Cell("c", HEADRACE, "tool_consume"), READING), said


def test_readings_are_added_up() -> None:
    """As many as asked for, each of them whole."""
    report, said = read_with(10, 10)
    assert (report["records"], report["seconds"], report["records_per_s"]) == (20, 2.0, 10.0)
    assert (report["stalls"], said) == (0, [])


def test_a_reading_that_got_nothing_is_told_and_made_again_once() -> None:
    """It has no rate."""
    report, said = read_with(10, 0, 10)
    assert (report["records"], report["stalls"]) == (20, 1)
    assert len(said) == 1


@pytest.mark.parametrize("counts", [(10, 9), (11, 10), (0, 0, 10, 10), (0, 10, 0)])
def test_a_reading_that_misses_or_repeats_records_fails_the_run(counts: tuple[int, ...]) -> None:
    """And so does a second one that got nothing."""
    with pytest.raises(LostDataError, match="as told"):
        read_with(*counts)
