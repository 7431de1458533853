"""What a node tells people of its logs."""

import pytest
from core_rig import CoreRig
from headrace.storage_node import node_status
from node_rig import batch


def test_status_has_the_largest_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number of them, with Kafka's gauges."""
    monkeypatch.setattr(node_status, "_LOGS_SHOWN", 2)
    rig = CoreRig()
    topic_id = rig.topic(partitions=3)
    data = batch(b"v")
    for partition, count in ((0, 1), (1, 3), (2, 2)):
        for _ in range(count):
            rig.produce(topic_id, data, partition=partition)
    log = rig.core.table.partitions[topic_id, 1].log
    log.roll()
    log.advance_log_start_offset(2)
    shown = rig.core.status(rig.now_ms)["logs"]
    assert list(shown) == ["t-1", "t-2"]
    assert shown["t-1"] == {
        "LogStartOffset": 2,
        "LogEndOffset": 3,
        "Size": 3 * len(data),
        "NumLogSegments": 2,
        "LastStableOffsetLag": 0,
    }
