"""The status of a node's logs, for operators."""

from core_rig import CoreRig
from headrace.storage_node.node_status import _LOGS_SHOWN
from node_rig import batch


def test_status_has_the_largest_logs() -> None:
    """A bounded number of them, with Kafka's gauges."""
    rig = CoreRig()
    topic_id = rig.topic(partitions=_LOGS_SHOWN + 1)
    data = batch(b"v")
    for partition in range(_LOGS_SHOWN + 1):
        for _ in range({0: 1, 1: 3}.get(partition, 2)):
            rig.produce(topic_id, data, partition=partition)
    log = rig.core.table.partitions[topic_id, 1].log
    log.roll()
    log.advance_log_start_offset(2)
    shown = rig.core.status(rig.now_ms)["logs"]
    assert list(shown)[:2] == ["t-1", "t-2"]
    assert (len(shown), "t-0" in shown) == (_LOGS_SHOWN, False)
    assert shown["t-1"] == {
        "LogStartOffset": 2,
        "LogEndOffset": 3,
        "Size": 3 * len(data),
        "NumLogSegments": 2,
        "LastStableOffsetLag": 0,
    }
