"""Consumers whose log loses its tail, and consumers that read from replicas near them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fake_cluster import Fault
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition

Play = Callable[..., Any]
T0 = TopicPartition("t", 0)


async def drain(consumer: Any, quiet_s: float = 2.0) -> list[Any]:
    """The values of everything until nothing comes for `quiet_s`."""
    found: list[Any] = []
    while batch := await consumer.poll(quiet_s):
        found += [record.value for record in batch]
    return found


def lose_the_tail(fake: Any) -> None:
    """Of five records two are lost, and four others come."""
    fake.elect_uncleanly("t", 0, 1, 3)
    fake.put("t", 0, b"x", b"y", b"z", b"w")


def five(fake: Any) -> None:
    """One record a batch."""
    fake.create("t")
    for number in range(5):
        fake.put("t", 0, b"%d" % number)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_policy_leads_to_where_the_logs_part(play: Play, policy: str) -> None:
    """Not to the log's start or end: what is new from there on is read, once."""

    async def scenario(fake: Any, cluster: Any) -> None:
        five(fake)
        consumer = cluster.consumer("t", auto_offset_reset=policy)
        if policy == "latest":
            await consumer.seek(T0, 0)
        assert await drain(consumer) == [b"0", b"1", b"2", b"3", b"4"]
        lose_the_tail(fake)
        assert await drain(consumer) == [b"x", b"y", b"z", b"w"]

    play(scenario, nodes=2)


def test_without_a_policy_the_user_hears_where(play: Play) -> None:
    """At every poll until a seek."""

    async def scenario(fake: Any, cluster: Any) -> None:
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

    play(scenario, nodes=2)


def test_every_fetch_names_both_epochs(play: Play) -> None:
    """And a leader that changed cleanly is asked once where the last epoch ends."""

    async def scenario(fake: Any, cluster: Any) -> None:
        five(fake)
        consumer = cluster.consumer("t", auto_offset_reset="earliest")
        await drain(consumer)
        fake.move_leader("t", 0, 1)
        fake.put("t", 0, b"5")
        assert await drain(consumer) == [b"5"]
        assert len(fake.requests("OffsetForLeaderEpoch")) == 1
        last = fake.requests("Fetch")[-1].partitions[0]
        assert (last.current_leader_epoch, last.last_fetched_epoch) == (1, 1)

    play(scenario, nodes=2)


def test_a_position_at_the_end_is_validated_too(play: Play) -> None:
    """Nothing was read, but the records after the truncation are new: none is missed."""

    async def scenario(fake: Any, cluster: Any) -> None:
        five(fake)
        consumer = cluster.consumer("t")
        assert await consumer.position(T0) == 5
        lose_the_tail(fake)
        assert await drain(consumer) == [b"x", b"y", b"z", b"w"]

    play(scenario, nodes=2)


def test_a_replica_in_the_rack_is_read_and_errors_lead_back(play: Play) -> None:
    """The leader says whom; a follower that fails is left at once, without losing its place."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.racks[1] = "east"
        five(fake)
        part = fake.topics["t"].partitions[0]
        part.followers[1] = 3
        consumer = cluster.consumer("t", auto_offset_reset="earliest", client_rack="east")
        assert await drain(consumer) == [b"0", b"1", b"2"], "it lags, and shows what it has"
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
        assert [node for api, node, _ in fake.asked if api == "Fetch"][-1] == 1, "it was asked again"
        fake.stop_node(1)
        fake.put("t", 0, b"6")
        assert await drain(consumer) == [b"6"]

    play(scenario, nodes=2)


def test_the_leader_is_asked_again_when_its_word_is_old(play: Play) -> None:
    """After metadata.max.age.ms."""

    async def scenario(fake: Any, cluster: Any) -> None:
        fake.racks[1] = "east"
        five(fake)
        fake.topics["t"].partitions[0].followers[1] = 5
        consumer = cluster.consumer("t", auto_offset_reset="earliest", client_rack="east")
        await drain(consumer, 20)
        nodes = [node for api, node, _ in fake.asked if api == "Fetch"]
        assert 2 <= nodes.count(0) <= 5

    play(scenario, nodes=2, metadata_max_age_ms=5000)


def test_a_clean_change_after_reading_from_the_start_is_no_truncation(play: Play) -> None:
    """The lookup of the start names the leader's epoch, which is above that of the records there."""

    async def scenario(fake: Any, cluster: Any) -> None:
        five(fake)
        fake.move_leader("t", 0, 1)
        consumer = cluster.consumer("t", auto_offset_reset="earliest")
        assert len(await drain(consumer)) == 5
        fake.move_leader("t", 0, 0)
        assert await drain(consumer) == []
        assert await consumer.position(T0) == 5

    play(scenario, nodes=2)
