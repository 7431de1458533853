"""Wrong passwords as fast as a process can send them, for a second. For longer: tests/faults."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from flood_rig import FloodedNode


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FloodedNode]:
    with FloodedNode(Path(tmp_path_factory.mktemp("node"))) as node:
        yield node
    assert node.received == node.sent


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(("plane", "connections"), [("kafka", 200), ("native", 50)])
def test_users_are_served_under_wrong_passwords(
    node: FloodedNode, plane: str, mechanism: str, connections: int
) -> None:
    """Their producers and consumers have no errors; log and memory stay small."""
    node.flood(plane, mechanism, 1.0, connections, processes=1)
