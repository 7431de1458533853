"""Errors for topics and groups that do not exist name the nearest one that does."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fake_admin_cluster import FakeAdminCluster
from headrace import TopicPartition
from headrace.clients.admin.admin_types import LATEST, Resource
from headrace.clients.cluster.metadata_io import NAMES_TIMEOUT_MS
from headrace.protocol.errors import GroupIdNotFoundError, UnknownTopicOrPartitionError

pytestmark = pytest.mark.fake_cluster(kind=FakeAdminCluster)

MEANT = r"^no topic 'ordres'; did you mean 'orders'\?$"
PLACE = TopicPartition("ordres", 0)


async def consumed(cluster: Any) -> None:
    await cluster.consumer("ordres").end_offsets(timeout=3)


async def produced(cluster: Any) -> None:
    await cluster.producer(max_block_ms=3000).send("ordres", b"x")


async def partitions_for(cluster: Any) -> None:
    await cluster.producer(max_block_ms=3000).partitions_for("ordres")


ADMIN: dict[str, Callable[[Any], Any]] = {
    "describe_topics": lambda admin: admin.describe_topics("ordres"),
    "delete_topics": lambda admin: admin.delete_topics("ordres"),
    "create_partitions": lambda admin: admin.create_partitions({"ordres": 9}),
    "list_offsets": lambda admin: admin.list_offsets({PLACE: LATEST}, timeout=3),
    "delete_records": lambda admin: admin.delete_records({PLACE: 1}, timeout=3),
    "describe_configs": lambda admin: admin.describe_configs("ordres"),
    "alter_configs": lambda admin: admin.alter_configs({"ordres": {"x": 1}}),
}


@pytest.mark.parametrize("work", [consumed, produced, partitions_for])
async def test_unknown_topic_of_producer_and_consumer(
    fake: Any, cluster: Any, work: Callable[[Any], Any]
) -> None:
    """The error names the nearest visible topic; internal ones do not hide it."""
    fake.create("orders")
    fake.create("payments")
    with pytest.raises(UnknownTopicOrPartitionError, match=MEANT):
        await work(cluster)


@pytest.mark.parametrize("name", ADMIN)
async def test_unknown_topic_of_admin(fake: Any, cluster: Any, name: str) -> None:
    """In the results of all operations on topics."""
    fake.create("orders")
    ((_, error),) = (await ADMIN[name](cluster.admin())).errors.items()
    assert isinstance(error, UnknownTopicOrPartitionError)
    with pytest.raises(UnknownTopicOrPartitionError, match=MEANT):
        raise error


async def test_unknown_topic_without_a_suggestion(fake: Any, cluster: Any) -> None:
    """A list of names that does not arrive delays the error by half a second at most."""
    fake.create("payments")
    metadata = cluster.io.hub.metadata
    assert (await metadata.unknown_topic("ordres")).detail == "no topic 'ordres'"
    metadata._names = (0, frozenset())
    fake.freeze_node(0)
    began_s = asyncio.get_running_loop().time()
    assert (await metadata.unknown_topic("ordres")).detail == "no topic 'ordres'"
    assert asyncio.get_running_loop().time() - began_s <= NAMES_TIMEOUT_MS / 1000 + 0.01


async def test_names_are_requested_once_for_many_unknown_topics(fake: Any, cluster: Any) -> None:
    """A program sends to an unknown topic in a loop."""
    fake.create("orders")
    for _ in range(5):
        await cluster.io.hub.metadata.unknown_topic("ordres")
    assert [request.topics for request in fake.requests("Metadata")].count(None) == 1


async def test_unknown_partition_error_has_the_range_of_partitions(fake: Any, cluster: Any) -> None:
    """The topic is known."""
    fake.create("orders")
    found = await cluster.admin().list_offsets({TopicPartition("orders", 7): LATEST}, timeout=3)
    assert "has partitions 0..0" in str(found.errors[TopicPartition("orders", 7)])
    assert Resource.topic("orders") in await cluster.admin().describe_configs("orders")


async def test_offsets_of_an_unknown_group_need_create(fake: FakeAdminCluster, cluster: Any) -> None:
    """The error names the group and the nearest one."""
    fake.create("t")
    fake.group("billing")
    admin, place = cluster.admin(), TopicPartition("t", 0)
    with pytest.raises(GroupIdNotFoundError, match=r"^no group 'biling'; did you mean 'billing'\?$"):
        await admin.alter_group_offsets("biling", {place: 1})
    assert (await admin.alter_group_offsets("billing", {place: 1}))[place] is None
    assert (await admin.alter_group_offsets("biling", {place: 1}, create=True))[place] is None
    committed = await admin.list_group_offsets("biling")
    assert committed[place].offset == 1
