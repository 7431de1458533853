"""Cells of Kafka's performance tools: sums of runs, stalls, and missing records."""

from typing import Any

import pytest
from bench_harness import FakeHarness, costs
from headrace.benchmarks.cells.kafka_tools import ToolConsumeCell, ToolProduceCell
from headrace.benchmarks.harness import LostDataError, Preloaded


class Tools:
    """Reports these record counts in turn."""

    def __init__(self, *counts: int) -> None:
        self.counts = iter(counts)

    def produce(self, *_: object) -> dict[str, Any]:
        return self.consume()

    def consume(self, *_: object) -> dict[str, Any]:
        count = next(self.counts)
        return costs(records=count, bytes=count * 100, output="its line")


def harness(*counts: int) -> FakeHarness:
    found = FakeHarness()
    found.tools = Tools(*counts)
    found.loaded["headrace"] = Preloaded("t", 10)
    return found


def consume(fake: FakeHarness) -> dict[str, Any]:
    return ToolConsumeCell("c", "headrace", {"size": 100, "times": 2}).run(fake)


def test_runs_of_the_consumer_are_added_up() -> None:
    """As many as the spec says, each complete."""
    fake = harness(10, 10)
    figures = consume(fake)
    assert (figures["records"], figures["seconds"], figures["records_per_s"]) == (20, 2.0, 10.0)
    assert (figures["stalls"], fake.said) == (0, [])


def test_run_without_records_is_reported_and_repeated_once() -> None:
    """It has no rate."""
    fake = harness(10, 0, 10)
    figures = consume(fake)
    assert (figures["records"], figures["stalls"]) == (20, 1)
    assert len(fake.said) == 1


@pytest.mark.parametrize("counts", [(10, 9), (11, 10), (0, 0, 10, 10), (0, 10, 0)])
def test_missing_or_repeated_records_fail_the_cell(counts: tuple[int, ...]) -> None:
    """So does a second run without records."""
    with pytest.raises(LostDataError, match="its line"):
        consume(harness(*counts))


def test_produced_records_are_counted_by_the_systems_own_client() -> None:
    """The tool's own count is not enough."""
    cell = ToolProduceCell("p", "headrace", {"size": 100, "count": 10, "acks": "all"})
    fake = harness(10)
    fake.stored = {"count": 10, "checksum": None}
    assert cell.run(fake)["records_per_s"] == 10.0
    fake = harness(10)
    fake.stored = {"count": 9, "checksum": None}
    with pytest.raises(LostDataError):
        cell.run(fake)
