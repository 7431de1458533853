"""The status of a cluster with one node down."""

import json

from controller_kit import Driver
from fake_files import FakeFiles
from headrace.controller.metrics import ElectionCounts, QuorumFacts
from headrace.controller.status import describe
from metadata_rig import Voter


def test_offline_partitions_are_shown(driver: Driver) -> None:
    """One of two nodes was fenced: its partitions are offline, and the status is plain JSON."""
    driver.join(1, 2)
    driver.create("t", num_partitions=4)
    driver.heartbeat(2, want_fence=True)
    facts = describe(
        driver.config,
        driver.image,
        Voter(FakeFiles()).log,
        ElectionCounts(),
        is_active=True,
        quorum=QuorumFacts("leader", 1, 7, 5, 6, (1,)),
        endpoint="h:1",
        connections=2,
        parked_polls=1,
        waiting_requests=0,
    )
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["topics"], facts["partitions"]) == (1, 4)
    assert facts["metrics"]["OfflinePartitionsCount"] == 2
    first, second = facts["nodes"]
    assert (first["node_id"], first["state"], first["leaders"], first["replicas"]) == (1, "active", 2, 2)
    assert (second["node_id"], second["state"], second["leaders"], second["replicas"]) == (2, "fenced", 0, 2)
    assert facts["snapshot_end_offset"] == -1
    assert (facts["controller_epoch"], facts["quorum"]["role"]) == (7, "leader")
