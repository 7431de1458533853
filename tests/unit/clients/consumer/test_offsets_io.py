"""ListOffsets through faults."""

from random import Random
from typing import Any

import pytest
from fake_cluster import Fault
from headrace.clients.cluster.backoff import Backoff
from headrace.clients.consumer.offsets_io import list_offsets
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition


async def look_up(cluster: Any, wanted: dict[TopicPartition, int], timeout_ms: int = 5000) -> Any:
    hub = cluster.io.hub
    return await list_offsets(
        hub,
        wanted,
        deadline_ms=hub.now_ms() + timeout_ms,
        request_timeout_ms=1000,
        backoff=Backoff(100, 1000, Random(1)),
    )


@pytest.mark.parametrize(
    "fault",
    [
        Fault(lost_reply=True),
        Fault(partition_error=6),
        Fault(silent=True),
        Fault(error=errors.ThrottlingQuotaExceededError()),
    ],
)
@pytest.mark.fake_cluster(nodes=2)
async def test_faults_are_retried(fake: Any, cluster: Any, fault: Fault) -> None:
    """Each kind once, over two leaders."""
    fake.create("t", 2)
    fake.put("t", 1, b"1", b"2")
    fake.fail_next("ListOffsets", fault)
    wanted = {TopicPartition("t", 0): -1, TopicPartition("t", 1): -1}
    found = await look_up(cluster, wanted)
    assert {tp.partition: value.offset for tp, value in found.items()} == {0: 0, 1: 2}


async def test_each_partition_has_its_own_result(fake: Any, cluster: Any) -> None:
    """An offset, an unknown partition, an unknown topic, a negative number; in the order of the call."""
    fake.create("t")
    wanted = [TopicPartition("u", 0), TopicPartition("t", 5), TopicPartition("t", 0), TopicPartition("t", -1)]
    found = await look_up(cluster, dict.fromkeys(wanted, -2))
    assert list(found) == wanted
    kinds = [type(value).__name__ for value in found.values()]
    unknown = "UnknownTopicOrPartitionError"
    assert kinds == [unknown, unknown, "OffsetAndTimestamp", unknown]


@pytest.mark.fake_cluster(nodes=2)
async def test_unreachable_partition_times_out_alone(fake: Any, cluster: Any) -> None:
    """Node 1 is stopped: its partition gets ApiTimeoutError with the cause, the other its offset."""
    fake.create("t", 2)
    await cluster.producer().send("t", b"x", partition=0)
    fake.stop_node(1)
    found = await look_up(cluster, {TopicPartition("t", 0): -1, TopicPartition("t", 1): -1}, 2000)
    assert found[TopicPartition("t", 0)].offset == 1
    assert isinstance(found[TopicPartition("t", 1)], errors.ApiTimeoutError)
    assert found[TopicPartition("t", 1)].__cause__ is not None
