"""Memory of idle connections."""

from bench_harness import FakeHarness
from headrace.benchmarks.cells.connections import WARM_CONNECTIONS, ConnectionMemoryCell


def test_memory_of_a_connection_is_the_growth_of_a_fresh_server() -> None:
    """After some connections were opened and closed; the server is stopped."""
    harness = FakeHarness(nodes=0)
    harness.lines["idle"] = ["ready"]
    harness.memory.extend([1_000_000, 3_000_000])
    figures = ConnectionMemoryCell("m", "kafka", {"connections": 50}).run(harness)
    assert figures == {"kb_per_connection": 40.0}
    assert [process.order["count"] for process in harness.processes] == [WARM_CONNECTIONS, 50]
    assert harness.systems["extra kafka"].calls == ["create idle", "stop"]
