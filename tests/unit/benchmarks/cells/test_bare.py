"""Cells without a system under test."""

from bench_harness import FakeHarness, costs
from headrace.benchmarks.cells.bare import BareCell, LocalCell


def test_bare_cell_connects_a_client_to_the_bare_server() -> None:
    """Whose CPU time is the server's."""
    harness = FakeHarness(bareclient=costs(records=10, bytes=2_000_000))
    harness.lines["loops.bare"] = ["ready 1234"]
    figures = BareCell("receive", "bare", {"mode": "drop", "count": 10}).run(harness)
    assert figures["mb_per_s"] == 2.0
    (order,) = harness.orders
    assert (order["port"], order["server_pids"]) == (1234, [7])


def test_local_cell_runs_its_loop_in_the_scratch_folder() -> None:
    """Which the session deletes."""
    harness = FakeHarness(crc=costs(records=10, bytes=2_000_000))
    assert LocalCell("CRC-32C", "bare", {"loop": "crc"}).run(harness)["mb_per_s"] == 2.0
    assert harness.orders[0]["directory"] == "/scratch"
