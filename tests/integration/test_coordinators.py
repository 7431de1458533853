"""Coordinators in a cluster in this process: lookup, failover, and loads from their logs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from group_client import CoordinatorClient, GroupMember, Transactional, committed
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import TRANSACTION_KEY, HeartbeatRequest, ListGroupsRequest
from headrace.protocol.model import CONSUMER_OFFSETS
from headrace.services.local_io import LocalCluster, local

TIMEOUT_S = 60.0
FAST: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_num_partitions": 5,
    "transaction_state_log_num_partitions": 5,
}


@asynccontextmanager
async def client_of(cluster: LocalCluster) -> AsyncIterator[CoordinatorClient]:
    client = CoordinatorClient(cluster.bootstrap)
    try:
        yield client
    finally:
        client.close()


async def until(look: Callable[[], Awaitable[object]], wanted: object) -> None:
    """Poll until the result is `wanted`; the test's time limit bounds the wait."""
    while await look() != wanted:  # noqa: ASYNC110 -- as said
        await asyncio.sleep(0.01)


async def counted(cluster: LocalCluster, gauge: str, of: str = "group") -> int:
    """The sum of a metric over all nodes; a slash separates the label."""
    nodes = (await asyncio.to_thread(cluster.status))["nodes"]
    metrics = (node["coordinators"]["metrics"][f"{of}-coordinator-metrics"] for node in nodes)
    name, _, label = gauge.partition("/")
    return sum(each.get(name, {}).get(label, 0) if label else each.get(name, 0) for each in metrics)


async def test_group_joins_commits_and_leaves() -> None:
    """Two members share two partitions; another client fetches the offsets."""
    with local(nodes=3, **FAST) as cluster:
        async with client_of(cluster) as client:
            await client.create("t", 2)
            one, other = GroupMember(client, "g"), GroupMember(client, "g")
            await one.join()
            await one.sync([(one.member_id, b"all")])
            joining = asyncio.create_task(other.join())
            await one.until_rebalance()
            await asyncio.gather(joining, one.join())
            assert one.generation == other.generation
            leader = one if one.joined.leader == one.member_id else other
            shares = [(one.member_id, b"left"), (other.member_id, b"right")]
            found = await asyncio.gather(
                *(member.sync(shares if member is leader else ()) for member in (one, other))
            )
            assert found == [b"left", b"right"]
            await one.beat()
            await one.commit("t", 0, 17)
            await other.commit("t", 1, 4)
            assert await committed(client, "g") == {("t", 0): 17, ("t", 1): 4}
            assert await counted(cluster, "NumMembers") == 2
            await one.leave()
            await other.leave()


async def test_group_survives_its_coordinator() -> None:
    """The next coordinator loads its copy of the log; the old one, restarted, serves only if it leads."""
    with local(nodes=3, broker_session_timeout_ms=1_000, broker_heartbeat_interval_ms=100, **FAST) as cluster:
        async with client_of(cluster) as client:
            await client.create("t", 1)
            member = GroupMember(client, "g")
            await member.join()
            await member.sync([(member.member_id, b"all")])
            await member.commit("t", 0, 5)
            before = await client.find("g")
            index = cluster.bootstrap.split(",").index("{}:{}".format(*before))
            await asyncio.to_thread(cluster.kill_node, index)
            assert await committed(client, "g") == {("t", 0): 5}
            after = await client.find("g")
            assert after != before
            await member.beat()  # its generation is in the log as well
            await member.commit("t", 0, 6)
            await asyncio.to_thread(cluster.restart_node, index)
            try:
                await client.send(
                    before, registry.HEARTBEAT, HeartbeatRequest("g", member.generation, member.member_id)
                )
            except errors.NotCoordinatorError:
                assert await client.find("g") != before
            assert await committed(client, "g") == {("t", 0): 6}
            listed = (await client.send(after, registry.LIST_GROUPS, ListGroupsRequest())).groups
            assert [group.group_id for group in listed] in (["g"], [])


async def test_committed_offsets_survive_a_restart_of_all_nodes(tmp_path: Path) -> None:
    with local(nodes=2, data_dir=str(tmp_path), **FAST) as cluster:
        async with client_of(cluster) as client:
            await client.create("t", 1)
            for number in range(20):
                member = GroupMember(client, f"g{number}")
                await member.join()
                await member.sync([(member.member_id, b"all")])
                await member.commit("t", 0, number)
    with local(nodes=2, data_dir=str(tmp_path), **FAST) as cluster:
        async with client_of(cluster) as client:
            for number in range(20):
                assert await committed(client, f"g{number}") == {("t", 0): number}


async def test_transaction_commits_aborts_and_fences() -> None:
    """Records and offsets count once committed, and never if aborted; the older producer is fenced."""
    with local(nodes=3, **FAST) as cluster:
        async with client_of(cluster) as client:
            await client.create("t", 1)
            producer = Transactional(client, "tx")
            await producer.init()
            await producer.write("t", b"one")
            for offset in (10, 10, 11):  # the same batch twice, too
                await producer.send_offset("g", "t", offset)
            assert await client.end_offset("t", is_stable=False) == 1
            assert await client.end_offset("t", is_stable=True) == 0
            assert await committed(client, "g") == {}
            await producer.end(commit=True)
            await until(lambda: client.end_offset("t", is_stable=True), 2)  # the record and its marker
            await until(lambda: committed(client, "g"), {("t", 0): 11})
            await producer.write("t", b"two")
            await producer.send_offset("g", "t", 12)
            await producer.end(commit=False)
            await until(lambda: client.end_offset("t", is_stable=True), 4)
            assert await committed(client, "g") == {("t", 0): 11}
            await until(lambda: counted(cluster, "transactional-ids/CompleteAbort", "transaction"), 1)
            younger = Transactional(client, "tx")
            await younger.init()
            with pytest.raises((errors.ProducerFencedError, errors.InvalidProducerEpochError)):
                await producer.write("t", b"too late")
            await younger.write("t", b"three")
            await younger.end(commit=True)


@pytest.mark.parametrize("commit", [True, False])
async def test_transaction_survives_its_coordinator(commit: bool) -> None:
    """The next coordinator loads the transaction, completes it, and writes its markers."""
    with local(nodes=3, broker_session_timeout_ms=1_000, broker_heartbeat_interval_ms=100, **FAST) as cluster:
        async with client_of(cluster) as client:
            addresses = cluster.bootstrap.split(",")
            producer = Transactional(client, "tx")
            await producer.init()
            coordinator = await client.find("tx", TRANSACTION_KEY)
            index = addresses.index("{}:{}".format(*coordinator))
            topic = await led_elsewhere(client, coordinator)
            await producer.write(topic, b"one")
            await asyncio.to_thread(cluster.kill_node, index)
            await producer.end(commit=commit)
            await until(lambda: client.end_offset(topic, is_stable=True), 2)
            assert await client.find("tx", TRANSACTION_KEY) != coordinator


async def led_elsewhere(client: CoordinatorClient, address: tuple[str, int]) -> str:
    """Create a topic that is led by another node than the one to be killed."""
    for number in range(20):
        await client.create(f"t{number}", 1)
        _, leader = await client.leader(f"t{number}")
        if leader != address:
            return f"t{number}"
    raise AssertionError("one node leads everything")


async def test_offsets_topic_can_be_deleted() -> None:
    """As Kafka's: the commits are lost, and the next FindCoordinator creates it."""
    with local(nodes=2, **FAST) as cluster:
        async with client_of(cluster) as client:
            await client.create("t", 1)
            member = GroupMember(client, "g")
            await member.join()
            await member.sync([(member.member_id, b"all")])
            await member.commit("t", 0, 5)
            await client.delete(CONSUMER_OFFSETS)
            with pytest.raises(errors.GroupIdNotFoundError):
                await member.commit("t", 0, 6)
            assert await committed(client, "g") == {}
            again = GroupMember(client, "g")
            await again.join()
            await again.sync([(again.member_id, b"all")])
            await again.commit("t", 0, 7)
            assert await committed(client, "g") == {("t", 0): 7}
