"""Admin operations while one node does not respond: other nodes answer long before the deadline, and
operations that are not idempotent are safe although the silent node may execute them later."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from fake_cluster import Fault
from headrace.clients.admin.admin_types import EARLIEST, LATEST, ElectionType, NewTopic, Resource
from headrace.clients.aio.admin_io import AsyncAdmin
from headrace.clients.security import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    ScramMechanism,
    ScramPassword,
)
from headrace.protocol.errors import HeadraceError, TopicAlreadyExistsError
from headrace.protocol.model import TopicPartition

TIMEOUT_S = 600.0
NODES = 3


def now_s() -> float:
    return asyncio.get_running_loop().time()


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "create_topics": lambda admin: admin.create_topics(NewTopic("new"), timeout=TIMEOUT_S),
    "delete_topics": lambda admin: admin.delete_topics("old", timeout=TIMEOUT_S),
    "create_partitions": lambda admin: admin.create_partitions({"t": 6}, timeout=TIMEOUT_S),
    "list_topics": lambda admin: admin.list_topics(timeout=TIMEOUT_S),
    "describe_topics": lambda admin: admin.describe_topics("t", timeout=TIMEOUT_S),
    "describe_configs": lambda admin: admin.describe_configs("t", timeout=TIMEOUT_S),
    "alter_configs": lambda admin: admin.alter_configs({"t": {"x": 1}}, timeout=TIMEOUT_S),
    "describe_cluster": lambda admin: admin.describe_cluster(timeout=TIMEOUT_S),
}


@pytest.mark.parametrize("silent", [(0,), (1,), (2,), (0, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.fake_cluster(nodes=NODES)
async def test_silent_nodes_do_not_take_the_deadline(
    fake: Any, cluster: Any, name: str, silent: tuple[int, ...]
) -> None:
    """One or two of three nodes are silent and not fenced yet."""
    fake.create("t", 3)
    fake.create("old")
    admin = cluster.admin()
    await admin.describe_cluster()
    await asyncio.sleep(1)
    for node_id in silent:
        fake.freeze_node(node_id)
    began_s = now_s()
    results = await OPERATIONS[name](admin)
    assert not getattr(results, "errors", None)
    assert now_s() - began_s < 10


@pytest.mark.fake_cluster(nodes=NODES)
async def test_creation_executed_by_a_silent_node_is_a_success(fake: Any, cluster: Any) -> None:
    """The first node creates the topic and does not respond: the next one responds TOPIC_ALREADY_EXISTS,
    and the topic has the requested settings."""
    admin = cluster.admin()
    await admin.describe_cluster()
    await asyncio.sleep(1)
    fake.fail_next("CreateTopics", Fault(silent=True))
    made = await admin.create_topics(NewTopic("new", partitions=2), timeout=TIMEOUT_S)
    assert made["new"].partitions == 2
    assert len(fake.requests("CreateTopics")) == 2


@pytest.mark.fake_cluster(nodes=NODES)
async def test_existing_topic_with_another_partition_count_is_an_error(fake: Any, cluster: Any) -> None:
    """A response is lost, and the retry gets TOPIC_ALREADY_EXISTS."""
    admin = cluster.admin()
    fake.create("new", 5)
    await admin.describe_cluster()
    await asyncio.sleep(1)
    fake.fail_next("CreateTopics", Fault(delay_ms=10**9))
    results = await admin.create_topics(NewTopic("new", partitions=2), timeout=TIMEOUT_S)
    assert isinstance(results.errors["new"], TopicAlreadyExistsError)


@pytest.mark.fake_cluster(nodes=NODES)
async def test_request_to_a_silent_leader_moves_to_the_new_one(fake: Any, cluster: Any) -> None:
    """Offsets are listed and records deleted by the new leader as soon as the metadata has it."""
    fake.create("t")
    fake.put("t", 0, b"1", b"2")
    admin, place = cluster.admin(request_timeout_ms=300_000), TopicPartition("t", 0)
    assert (await admin.list_offsets({place: EARLIEST}))[place].offset == 0
    fake.freeze_node(0)

    def fail_over() -> None:
        fake.fenced.add(0)
        fake.move_leader("t", 0, 1)

    asyncio.get_running_loop().call_later(1.5, fail_over)
    began_s = now_s()
    deleting = asyncio.create_task(admin.delete_records({place: 1}, timeout=TIMEOUT_S))
    assert (await admin.list_offsets({place: LATEST}, timeout=TIMEOUT_S))[place].offset == 2
    assert (await deleting)[place].low_watermark == 1
    assert now_s() - began_s < 10


PLACE, SHORT_S, SMALL_S = TopicPartition("t", 0), 3.0, 0.1
QUOTA = (("client-id", "c"),)
RULE = AclBinding(
    ResourceType.TOPIC, "t", PatternType.LITERAL, "User:u", "*", AclOperation.READ, AclPermission.ALLOW
)
SHORT_CALLS: dict[str, Callable[..., Any]] = {
    "list_topics": lambda admin, **t: admin.list_topics(**t),
    "describe_topics": lambda admin, **t: admin.describe_topics("t", **t),
    "create_topics": lambda admin, **t: admin.create_topics(NewTopic("new"), **t),
    "delete_topics": lambda admin, **t: admin.delete_topics("t", **t),
    "create_partitions": lambda admin, **t: admin.create_partitions({"t": 9}, **t),
    "describe_configs": lambda admin, **t: admin.describe_configs(Resource("broker", "1"), **t),
    "alter_configs": lambda admin, **t: admin.alter_configs({"t": {"x": 1}}, **t),
    "describe_log_dirs": lambda admin, **t: admin.describe_log_dirs(**t),
    "describe_replicas": lambda admin, **t: admin.describe_replicas(**t),
    "list_offsets": lambda admin, **t: admin.list_offsets({PLACE: LATEST}, **t),
    "delete_records": lambda admin, **t: admin.delete_records({PLACE: 1}, **t),
    "elect_leaders": lambda admin, **t: admin.elect_leaders(ElectionType.PREFERRED, [PLACE], **t),
    "drain_node": lambda admin, **t: admin.drain_node(1, **t),
    "describe_metadata_quorum": lambda admin, **t: admin.describe_metadata_quorum(**t),
    "list_groups": lambda admin, **t: admin.list_groups(**t),
    "describe_groups": lambda admin, **t: admin.describe_groups("g", **t),
    "describe_streams_groups": lambda admin, **t: admin.describe_streams_groups("g", **t),
    "delete_groups": lambda admin, **t: admin.delete_groups("g", **t),
    "list_group_offsets": lambda admin, **t: admin.list_group_offsets("g", **t),
    "alter_group_offsets": lambda admin, **t: admin.alter_group_offsets("g", {PLACE: 1}, **t),
    "count_records": lambda admin, **t: admin.count_records({PLACE: [0]}, **t),
    "consumer_group_lag": lambda admin, **t: admin.consumer_group_lag("g", **t),
    "delete_group_offsets": lambda admin, **t: admin.delete_group_offsets("g", [PLACE], **t),
    "remove_members": lambda admin, **t: admin.remove_members("g", **t),
    "list_transactions": lambda admin, **t: admin.list_transactions(**t),
    "describe_transactions": lambda admin, **t: admin.describe_transactions("x", **t),
    "describe_producers": lambda admin, **t: admin.describe_producers(PLACE, **t),
    "find_hanging_transactions": lambda admin, **t: admin.find_hanging_transactions([PLACE], **t),
    "abort_transaction": lambda admin, **t: admin.abort_transaction(PLACE, 1, 1, **t),
    "fence_producers": lambda admin, **t: admin.fence_producers("x", **t),
    "abort_prepared": lambda admin, **t: admin.abort_prepared("x", **t),
    "list_config_resources": lambda admin, **t: admin.list_config_resources(**t),
    "describe_client_quotas": lambda admin, **t: admin.describe_client_quotas(**t),
    "alter_client_quotas": lambda admin, **t: admin.alter_client_quotas(
        {QUOTA: {"producer_byte_rate": 1}}, **t
    ),
    "describe_acls": lambda admin, **t: admin.describe_acls(**t),
    "create_acls": lambda admin, **t: admin.create_acls(RULE, **t),
    "delete_acls": lambda admin, **t: admin.delete_acls(AclFilter(), **t),
    "describe_users": lambda admin, **t: admin.describe_users(**t),
    "set_passwords": lambda admin, **t: admin.set_passwords({"u": ScramPassword("p")}, **t),
    "delete_passwords": lambda admin, **t: admin.delete_passwords({"u": ScramMechanism.SCRAM_SHA_256}, **t),
    "create_delegation_token": lambda admin, **t: admin.create_delegation_token(**t),
    "renew_delegation_token": lambda admin, **t: admin.renew_delegation_token(b"h", **t),
    "expire_delegation_token": lambda admin, **t: admin.expire_delegation_token(b"h", **t),
    "describe_delegation_tokens": lambda admin, **t: admin.describe_delegation_tokens(**t),
    "create_roles": lambda admin, **t: admin.create_roles("r", **t),
    "delete_roles": lambda admin, **t: admin.delete_roles("r", **t),
    "grant_role": lambda admin, **t: admin.grant_role("r", "User:u", **t),
    "revoke_role": lambda admin, **t: admin.revoke_role("r", "User:u", **t),
    "describe_roles": lambda admin, **t: admin.describe_roles(**t),
    "set_namespace": lambda admin, **t: admin.set_namespace("n", **t),
    "delete_namespaces": lambda admin, **t: admin.delete_namespaces("n", **t),
    "describe_namespaces": lambda admin, **t: admin.describe_namespaces(**t),
    "describe_features": lambda admin, **t: admin.describe_features(**t),
    "update_features": lambda admin, **t: admin.update_features(
        {"group.version": 0}, allow_downgrade=True, **t
    ),
    "describe_cluster": lambda admin, **t: admin.describe_cluster(**t),
    "alter_partition_reassignments": lambda admin, **t: admin.alter_partition_reassignments(
        {PLACE: [1]}, **t
    ),
    "list_partition_reassignments": lambda admin, **t: admin.list_partition_reassignments(**t),
    "unregister_broker": lambda admin, **t: admin.unregister_broker(1, **t),
    "alter_replica_log_dirs": lambda admin, **t: admin.alter_replica_log_dirs({("t", 0, 1): "/d"}, **t),
    "add_raft_voter": lambda admin, **t: admin.add_raft_voter(2, bytes(16), ("h", 1), **t),
    "remove_raft_voter": lambda admin, **t: admin.remove_raft_voter(2, bytes(16), **t),
}


def test_table_has_every_call_with_a_timeout() -> None:
    """A new method of Admin must end in time as well."""
    calls = {
        name
        for name, call in inspect.getmembers(AsyncAdmin, inspect.isfunction)
        if not name.startswith("_") and "timeout" in inspect.signature(call).parameters
    }
    assert calls - {"close"} == set(SHORT_CALLS)


@pytest.mark.parametrize("is_down", [False, True], ids=["silent", "refusing"])
@pytest.mark.parametrize("name", SHORT_CALLS)
@pytest.mark.fake_cluster(nodes=NODES)
async def test_calls_time_out_while_the_cluster_is_unreachable(
    fake: Any, cluster: Any, name: str, is_down: bool
) -> None:
    """No node responds; request.timeout.ms is ten minutes."""
    fake.create("t", 3)
    admin = cluster.admin(request_timeout_ms=600_000, default_api_timeout_ms=600_000)
    await admin.describe_cluster()
    await asyncio.sleep(1)
    for node_id in range(NODES):
        fake.stop_node(node_id) if is_down else fake.freeze_node(node_id)
    began_s = now_s()
    with suppress(HeadraceError):
        results = await SHORT_CALLS[name](admin, timeout=SHORT_S)
        assert results.errors
    assert now_s() - began_s <= SHORT_S + SMALL_S
