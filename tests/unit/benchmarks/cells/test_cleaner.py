"""Compaction: the same log and map for both systems."""

from typing import Any

import pytest
from bench_harness import FakeHarness
from headrace.benchmarks.cells.cleaner import CleanCell

SPEC = {"size": 100, "count": 4000, "compression": "none", "records_per_key": 4, "loop": "clean"}


def cleaned(order: dict[str, Any]) -> dict[str, Any]:
    return {"bytes": 1_000_000, "seconds": 0.5, "client_cpu_s": 0.4, "kept_bytes": 250_000}


@pytest.mark.parametrize(("system", "copies"), [("headrace", 1), ("kafka", 3)])
def test_clean_cell_reports_log_per_second_and_map_per_key(system: str, copies: int) -> None:
    """A JVM cleans two other copies first; the worker's CPU time counts as the server's."""
    harness = FakeHarness(nodes=0, clean=cleaned)
    figures = CleanCell(system, system, SPEC).run(harness)
    assert (figures["mb_per_s"], figures["records_per_s"]) == (2.0, 8000.0)
    assert figures["server_cpu_s_per_gb"] == pytest.approx(400)
    assert figures["map_bytes_per_key"] == pytest.approx(26.7, abs=0.1)
    assert harness.copies == copies


def test_all_keys_fit_into_the_map() -> None:
    """One pass is enough."""
    harness = FakeHarness(nodes=0, clean=cleaned)
    CleanCell("headrace", "headrace", SPEC).run(harness)
    (order,) = harness.orders
    assert order["keys"] == 1000
    assert order["map_bytes"] * 0.9 >= 1000 * 24
