"""Wrong passwords as fast as several processes can send them, on both planes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from flood_rig import FloodedNode

SECONDS = 10.0


@pytest.mark.faults
def test_s54_users_are_served_under_wrong_passwords(
    tmp_path: Path, record_property: Callable[[str, str], None]
) -> None:
    """More connections than the node lets in without a user. Producers and consumers of both planes, which
    have authenticated before, have no errors and no long pauses; log and memory stay small."""
    found = []
    with FloodedNode(tmp_path) as node:
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            found.append(node.flood("kafka", mechanism, SECONDS, 2_000))
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            found.append(node.flood("native", mechanism, SECONDS, 300))
    assert node.received == node.sent
    record_property("faults", "; ".join(found))
