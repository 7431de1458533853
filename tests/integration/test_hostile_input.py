"""Servers survive any input: RELIABILITY 3.3 rows 11 to 13, 32 to 37 and 48, over real sockets.

Every API of a storage node and of the controller gets requests with one wrong field or byte, and well-formed
requests with absurd values. After each group of requests a well-behaved client must be served by the same
processes, must read the data that it wrote, and memory must not have grown.
"""

import contextlib
import os
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest
from headrace import LocalCluster
from headrace.protocol import errors
from headrace.protocol.messages import control, data, registry, roles
from headrace.protocol.metadata.features import OWN_RANGES
from headrace.protocol.transport.dealer_io import Connection
from hostile import BAD_CONFIGS, LARGE_CONFIGS, mutations
from hostile_rig import MIB, TIMEOUT_S, Probe, attacked_cluster, send_all
from node_rig import batch


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with attacked_cluster() as made:
        yield made


def node_requests(topic_id: bytes) -> dict[Any, tuple[Any, list[bytes]]]:
    """A valid request of every api of a storage node, with its frames."""
    resource = control.ConfigResource(2, "victim")
    change = control.ConfigChange("segment.ms", 0, "1000")
    spec = control.NewTopicSpec("victim", -1, -1, (control.ReplicaAssignment(0, (1,)),), {"segment.ms": "9"})
    in_role, namespace = roles.RoleChange("r", roles.CREATE, "User:u"), roles.NamespaceChange("z.", 5, 5, "")
    growth = control.PartitionGrowth("victim", 2, (control.ReplicaAssignment(1, (1,)),))
    return {
        registry.PRODUCE: (
            data.ProduceRequest(1, 1_000, (data.ProducePartition(topic_id, 0, -1),)),
            [batch(b"v")],
        ),
        registry.FETCH: (
            data.FetchRequest(10, 1, MIB, 0, (data.FetchPartition(topic_id, 0, 0, MIB, -1),)),
            [],
        ),
        registry.LIST_OFFSETS: (
            data.ListOffsetsRequest(0, (data.ListOffsetsPartition(topic_id, 0, 0, -1),)),
            [],
        ),
        registry.METADATA: (data.MetadataRequest(("victim",), (topic_id,)), []),
        registry.CREATE_TOPICS: (control.CreateTopicsRequest((spec,), 500, False), []),
        registry.DELETE_TOPICS: (control.DeleteTopicsRequest(("victim",), 500), []),
        registry.CREATE_PARTITIONS: (control.CreatePartitionsRequest((growth,), 500, False), []),
        registry.DESCRIBE_CONFIGS: (control.DescribeConfigsRequest((resource,)), []),
        registry.INCREMENTAL_ALTER_CONFIGS: (
            control.IncrementalAlterConfigsRequest((control.AlterConfigs(resource, (change,)),), False),
            [],
        ),
        registry.UNREGISTER_BROKER: (control.UnregisterBrokerRequest(4_711), []),
        registry.ALTER_ROLES: (roles.AlterRolesRequest((in_role,)), []),
        registry.ALTER_NAMESPACES: (roles.AlterNamespacesRequest((namespace,)), []),
    }


NODE_APIS = [api.name for api in node_requests(b"")]
FORGED_ID = 77


def controller_requests(broker_epoch: int) -> dict[Any, Any]:
    """A valid request of every api that only storage nodes send, from one that does not exist."""
    return {
        registry.BROKER_REGISTRATION: control.BrokerRegistrationRequest(
            FORGED_ID, "", b"i" * 16, "host", 9, "rack", (b"d" * 16,), features=OWN_RANGES
        ),
        registry.BROKER_HEARTBEAT: control.BrokerHeartbeatRequest(FORGED_ID, broker_epoch, 3, False, False),
        registry.FETCH_METADATA: control.FetchMetadataRequest(FORGED_ID, 0, 10),
    }


@pytest.mark.parametrize("name", NODE_APIS)
async def test_node_survives_every_mutation(probe: Probe, name: str) -> None:
    """For each API of a storage node; those of the controller are forwarded."""
    spec = control.NewTopicSpec("target", 1, 1)
    made = await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
    target = made.body.topics[0].topic_id or probe.topic_id
    requests = node_requests(target if target != probe.topic_id else b"t" * 16)
    (api,) = [api for api in requests if api.name == name]
    valid, frames = requests[api]
    await send_all(probe, probe.node, api, list(mutations(valid)), frames)
    if api in registry.FORWARDED:
        await send_all(probe, probe.controller, api, list(mutations(valid, seed=1)))
    await probe.ask(registry.DELETE_TOPICS, control.DeleteTopicsRequest(("target",)))


@pytest.mark.parametrize("name", ["BrokerRegistration", "BrokerHeartbeat", "FetchMetadata"])
async def test_controller_survives_every_mutation(probe: Probe, name: str) -> None:
    """From a client that pretends to be a storage node."""
    (api,) = [api for api in controller_requests(0) if api.name == name]
    await send_all(probe, probe.controller, api, list(mutations(controller_requests(5)[api])))


# --- rows 11 to 13, 32 to 34 and 37: absurd but well-formed ---------------------------------------------


async def test_wrong_frames_and_sessions_are_refused(probe: Probe) -> None:
    """Frames that do not match their entries, unknown sessions, APIs of other servers: one by one."""
    connection = await Connection.open(*probe.node, client_id="bad", timeout_s=TIMEOUT_S)
    entry = data.ProducePartition(probe.topic_id, 0)
    for entries, frames in (((entry,), []), ((), [batch(b"v")]), ((entry,), [batch(b"v")] * 3)):
        body = data.ProduceRequest(1, 1_000, entries)
        with pytest.raises(errors.InvalidRequestError):
            await connection.request(registry.PRODUCE, body, frames, timeout_s=TIMEOUT_S)
    body = data.ProduceRequest(2, 1_000, (entry,))
    with pytest.raises(errors.InvalidRequiredAcksError):
        await connection.request(registry.PRODUCE, body, [batch(b"v")], timeout_s=TIMEOUT_S)
    heartbeat = control.BrokerHeartbeatRequest(1, 1, 1)
    with pytest.raises(errors.UnsupportedVersionError):
        await connection.request(registry.BROKER_HEARTBEAT, heartbeat, timeout_s=TIMEOUT_S)
    connection._session += 1
    with pytest.raises(errors.NetworkError):
        await connection.request(registry.METADATA, data.MetadataRequest(()), timeout_s=TIMEOUT_S)
    connection.close()


async def test_reads_out_of_range_are_refused(probe: Probe) -> None:
    """Rows 32 and 34: offsets, sizes, epochs and times that cannot exist."""
    far = 2**63 - 1

    async def fetch(offset: int, size: int = MIB, epoch: int = -1, total: int = MIB) -> int:
        wanted = data.FetchPartition(probe.topic_id, 0, offset, size, epoch)
        answer = await probe.ask(registry.FETCH, data.FetchRequest(0, 1, total, 0, (wanted,)))
        return int(answer.body.partitions[0].error_code)

    async def offset_at(timestamp: int, epoch: int = -1) -> int:
        wanted = data.ListOffsetsPartition(probe.topic_id, 0, timestamp, epoch)
        answer = await probe.ask(registry.LIST_OFFSETS, data.ListOffsetsRequest(0, (wanted,)))
        return int(answer.body.partitions[0].error_code)

    out_of_range = errors.OffsetOutOfRangeError.code
    assert [await fetch(offset) for offset in (-5, far, 2**64 - 1)] == [out_of_range] * 3
    assert [await fetch(0, size=size) for size in (0, -1, 2**31 - 1, 2**64 - 1)] == [0] * 4
    assert [await fetch(0, total=total) for total in (0, -1, 2**64 - 1)] == [0] * 3
    assert await fetch(0, epoch=far) == errors.UnknownLeaderEpochError.code
    assert [await offset_at(time) for time in (far, 2**64 - 1)] == [0, 0]
    assert [await offset_at(time) for time in (-4, -far)] == [errors.InvalidRequestError.code] * 2
    assert await offset_at(0, epoch=far) == errors.UnknownLeaderEpochError.code


async def test_requests_for_too_many_partitions_are_refused(probe: Probe) -> None:
    """Every plural request with 100,000: refused, or an error for each."""
    fetches = tuple(data.FetchPartition(probe.topic_id, index, 0, 1) for index in range(100_000))
    looks = tuple(data.ListOffsetsPartition(probe.topic_id, index, 0) for index in range(100_000))
    names = tuple(f"n{index}" for index in range(100_000))
    resources = tuple(control.ConfigResource(2, name) for name in names)
    change = (control.ConfigChange("segment.ms", 0, "1"),)
    alters = tuple(control.AlterConfigs(resource, change) for resource in resources)
    for api, body in (
        (registry.FETCH, data.FetchRequest(10, 1, MIB, 0, fetches)),
        (registry.LIST_OFFSETS, data.ListOffsetsRequest(0, looks)),
        (registry.METADATA, data.MetadataRequest(names)),
        (registry.DELETE_TOPICS, control.DeleteTopicsRequest(names)),
        (registry.CREATE_TOPICS, control.CreateTopicsRequest(tuple(map(control.NewTopicSpec, names)))),
        (registry.DESCRIBE_CONFIGS, control.DescribeConfigsRequest(resources)),
        (registry.INCREMENTAL_ALTER_CONFIGS, control.IncrementalAlterConfigsRequest(alters)),
        (registry.FETCH, data.FetchRequest(10, 1, MIB, 0, (fetches[0], fetches[0]))),
        (registry.LIST_OFFSETS, data.ListOffsetsRequest(0, (looks[0], looks[0]))),
    ):
        with pytest.raises(errors.InvalidRequestError):
            await until_answered(probe, api, body)


async def until_answered(probe: Probe, api: Any, body: Any) -> None:
    """Retry if the node had to find its controller again, because the controller was busy for too long."""
    while True:
        with contextlib.suppress(errors.RequestTimedOutError, errors.NotControllerError):
            await probe.ask(api, body)
            return


async def test_row_37_invalid_topics_are_refused(probe: Probe) -> None:
    """Partitions, replicas, names, configs and assignments out of range; nothing is created."""
    assignment = control.ReplicaAssignment
    table: list[tuple[control.NewTopicSpec, type[errors.KafkaError]]] = [
        (control.NewTopicSpec("p", 10**6, 1), errors.InvalidPartitionsError),
        (control.NewTopicSpec("p", 2**63, 1), errors.InvalidPartitionsError),
        (control.NewTopicSpec("p", 0, 1), errors.InvalidPartitionsError),
        (control.NewTopicSpec("p", 1, 32_767), errors.InvalidReplicationFactorError),
        (control.NewTopicSpec("p", 1, 0), errors.InvalidReplicationFactorError),
        (control.NewTopicSpec("p", configs={"no.such": "1"}), errors.InvalidConfigError),
        (control.NewTopicSpec("p", configs={"segment.ms": "1e3"}), errors.InvalidConfigError),
        (control.NewTopicSpec("p", configs={"segment.ms": "9" * 10_000}), errors.InvalidConfigError),
        (control.NewTopicSpec("p", configs={"retention\nms": "1"}), errors.InvalidConfigError),
        (
            control.NewTopicSpec("p", assignments=(assignment(0, (1,)), assignment(0, (1,)))),
            errors.InvalidReplicaAssignmentError,
        ),
        (control.NewTopicSpec("p", assignments=(assignment(7, (1,)),)), errors.InvalidReplicaAssignmentError),
        (
            control.NewTopicSpec("p", assignments=(assignment(0, (99,)),)),
            errors.InvalidReplicaAssignmentError,
        ),
        (control.NewTopicSpec("p", assignments=(assignment(0, ()),)), errors.InvalidReplicaAssignmentError),
    ]
    names = ("", ".", "..", "x" * 250, "a/b", "../../etc", "nul\0", "sp ace", "ümlaut", "new\nline")
    table += [(control.NewTopicSpec(name, 1, 1), errors.InvalidTopicError) for name in names]
    before = await probe.ask(registry.METADATA, data.MetadataRequest())
    for spec, expected in table:
        answer = await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
        assert answer.body.topics[0].error_code == expected.code, (spec, answer.body)
    after = await probe.ask(registry.METADATA, data.MetadataRequest())
    assert [t.name for t in after.body.topics] == [t.name for t in before.body.topics]


async def test_row_38_invalid_configs_are_refused(probe: Probe) -> None:
    """Foreign keys, unknown operations, values out of range: with a short error on one line."""
    await probe.ask(
        registry.CREATE_TOPICS, control.CreateTopicsRequest((control.NewTopicSpec("good", 1, 1),))
    )
    before = await probe.ask(registry.LIST_CONFIG_RESOURCES, control.ListConfigResourcesRequest())
    for resource, change in BAD_CONFIGS + LARGE_CONFIGS:
        changed = control.ConfigResource(*resource)
        alter = control.AlterConfigs(changed, (control.ConfigChange(*change),))
        answer = await probe.ask(
            registry.INCREMENTAL_ALTER_CONFIGS, control.IncrementalAlterConfigsRequest((alter,))
        )
        result = answer.body.results[0]
        wrong = (errors.InvalidConfigError.code, errors.InvalidRequestError.code)
        assert result.error_code in wrong, (resource, change[0][:50], result)
        assert len(result.error_detail) < 1_000
        assert result.error_detail.isprintable()
    listed = await probe.ask(registry.LIST_CONFIG_RESOURCES, control.ListConfigResourcesRequest())
    assert listed.body.resources == before.body.resources  # those of topics that others left here
    await probe.ask(registry.DELETE_TOPICS, control.DeleteTopicsRequest(("good",)))


# --- a client that pretends to be a storage node ----------------------------------------------------------


async def test_registration_of_an_impostor_is_refused(probe: Probe, cluster: LocalCluster) -> None:
    """An id in use, invented epochs, another cluster id, metadata from the future."""

    def ask(api: Any, body: Any) -> Awaitable[Any]:
        return probe.ask(api, body, to=probe.controller)

    def register(node_id: int, cluster_id: str = "") -> control.BrokerRegistrationRequest:
        return control.BrokerRegistrationRequest(
            node_id, cluster_id, os.urandom(16), "evil", 9, features=OWN_RANGES
        )

    answer = await ask(registry.BROKER_REGISTRATION, register(1))
    assert answer.body.error_code == errors.DuplicateBrokerRegistrationError.code
    answer = await ask(registry.BROKER_REGISTRATION, register(1, "another cluster"))
    assert answer.body.error_code == errors.InconsistentClusterIdError.code
    for epoch in (-1, 0, 2**63 - 1):
        beat = control.BrokerHeartbeatRequest(1, epoch, 2**62, want_fence=True, want_shutdown=True)
        answer = await ask(registry.BROKER_HEARTBEAT, beat)
        assert answer.body.error_code == errors.StaleBrokerEpochError.code
    epoch = cluster.status()["nodes"][0]["broker_epoch"]
    beat = control.BrokerHeartbeatRequest(1, epoch, 2**62, want_shutdown=True)
    answer = await ask(registry.BROKER_HEARTBEAT, beat)
    assert answer.body.error_code == errors.OffsetOutOfRangeError.code
    for offset in (2**62, 2**64 - 1):
        with pytest.raises(errors.OffsetOutOfRangeError):
            await ask(registry.FETCH_METADATA, control.FetchMetadataRequest(1, offset, 0))
    answer = await ask(registry.FETCH_METADATA, control.FetchMetadataRequest(1, -(2**63), 0))
    assert answer.body.is_snapshot or answer.body.base_offset == 0
