"""Consumers of a log that is truncated, and consumers that fetch from followers."""

import asyncio
from typing import Any

import pytest
from fake_cluster import Fault
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition

T0 = TopicPartition("t", 0)


async def drain(consumer: Any, quiet_s: float = 2.0) -> list[Any]:
    """The values of all records until none comes for `quiet_s`."""
    found: list[Any] = []
    while batch := await consumer.poll(quiet_s):
        found += [record.value for record in batch]
    return found


def lose_the_tail(fake: Any) -> None:
    """Of five records two are truncated, and four others are appended."""
    fake.elect_uncleanly("t", 0, 1, 3)
    fake.put("t", 0, b"x", b"y", b"z", b"w")


def five(fake: Any) -> None:
    """One record a batch."""
    fake.create("t")
    for number in range(5):
        fake.put("t", 0, b"%d" % number)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
@pytest.mark.fake_cluster(nodes=2)
async def test_reset_policy_rewinds_to_the_divergence(fake: Any, cluster: Any, policy: str) -> None:
    """Not to the log's start or end: the records from there on are read once."""
    five(fake)
    consumer = cluster.consumer("t", auto_offset_reset=policy)
    if policy == "latest":
        await consumer.seek(T0, 0)
    assert await drain(consumer) == [b"0", b"1", b"2", b"3", b"4"]
    lose_the_tail(fake)
    assert await drain(consumer) == [b"x", b"y", b"z", b"w"]


@pytest.mark.fake_cluster(nodes=2)
async def test_truncation_without_a_policy_is_raised(fake: Any, cluster: Any) -> None:
    """At every poll until a seek."""
    five(fake)
    consumer = cluster.consumer("t", auto_offset_reset="none")
    await consumer.seek(T0, 0)
    assert len(await drain(consumer)) == 5
    lose_the_tail(fake)
    for _ in range(2):
        with pytest.raises(errors.LogTruncationError) as caught:
            await drain(consumer)
        error = caught.value
        assert (error.topic, error.partition, error.position, error.divergent_offset) == ("t", 0, 5, 3)
    await consumer.seek(T0, error.divergent_offset)
    assert await drain(consumer) == [b"x", b"y", b"z", b"w"]


@pytest.mark.fake_cluster(nodes=2)
async def test_fetch_has_leader_epoch_and_last_epoch(fake: Any, cluster: Any) -> None:
    """After a leader change without truncation the position is validated once."""
    five(fake)
    consumer = cluster.consumer("t", auto_offset_reset="earliest")
    await drain(consumer)
    fake.move_leader("t", 0, 1)
    fake.put("t", 0, b"5")
    assert await drain(consumer) == [b"5"]
    assert len(fake.requests("OffsetForLeaderEpoch")) == 1
    last = fake.requests("Fetch")[-1].partitions[0]
    assert (last.current_leader_epoch, last.last_fetched_epoch) == (1, 1)


@pytest.mark.fake_cluster(nodes=2)
async def test_position_at_the_end_is_validated(fake: Any, cluster: Any) -> None:
    """No record was read, and none that is appended after the truncation is missed."""
    five(fake)
    consumer = cluster.consumer("t")
    assert await consumer.position(T0) == 5
    lose_the_tail(fake)
    assert await drain(consumer) == [b"x", b"y", b"z", b"w"]


@pytest.mark.fake_cluster(nodes=2)
async def test_preferred_replica_is_read_and_left_after_an_error(fake: Any, cluster: Any) -> None:
    """The leader names it; after an error the leader is read from the same position."""
    fake.racks[1] = "east"
    five(fake)
    part = fake.topics["t"].partitions[0]
    part.followers[1] = 3
    consumer = cluster.consumer("t", auto_offset_reset="earliest", client_rack="east")
    assert await drain(consumer) == [b"0", b"1", b"2"], "a lagging replica serves its own log"
    assert [node for api, node, _ in fake.asked if api == "Fetch"][-1] == 1
    fake.fail_next("Fetch", Fault(partition_error=errors.OffsetNotAvailableError.code))
    before = asyncio.get_running_loop().time()
    assert [record.value for record in await consumer.poll(10)] == [b"3", b"4"]
    assert asyncio.get_running_loop().time() - before < 1.0
    assert [node for api, node, _ in fake.asked if api == "Fetch"][-1] == 0
    part.followers[1] = 6
    await asyncio.sleep(6)
    fake.put("t", 0, b"5")
    assert await drain(consumer) == [b"5"]
    assert [node for api, node, _ in fake.asked if api == "Fetch"][-1] == 1, "the follower is read again"
    fake.stop_node(1)
    fake.put("t", 0, b"6")
    assert await drain(consumer) == [b"6"]


@pytest.mark.fake_cluster(nodes=2, metadata_max_age_ms=5000)
async def test_preferred_replica_expires(fake: Any, cluster: Any) -> None:
    """After metadata.max.age.ms the consumer fetches from the leader again."""
    fake.racks[1] = "east"
    five(fake)
    fake.topics["t"].partitions[0].followers[1] = 5
    consumer = cluster.consumer("t", auto_offset_reset="earliest", client_rack="east")
    await drain(consumer, 20)
    nodes = [node for api, node, _ in fake.asked if api == "Fetch"]
    assert 2 <= nodes.count(0) <= 5


@pytest.mark.fake_cluster(nodes=2)
async def test_leader_change_after_reading_from_the_start_is_no_truncation(fake: Any, cluster: Any) -> None:
    """The lookup of the start gives the leader's epoch, which is above that of the records."""
    five(fake)
    fake.move_leader("t", 0, 1)
    consumer = cluster.consumer("t", auto_offset_reset="earliest")
    assert len(await drain(consumer)) == 5
    fake.move_leader("t", 0, 0)
    assert await drain(consumer) == []
    assert await consumer.position(T0) == 5
