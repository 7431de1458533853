"""Wrong requests of Kafka clients about the state of a cluster: sequences, groups, commits and configs
(RELIABILITY 3.3, rows 30, 35, 36 and 38; table: docs/TESTING.md)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from headrace import LocalCluster
from headrace.protocol import errors
from headrace.protocol.messages import control, registry
from headrace.services.kafka_listener.entities import MS
from hostile import BAD_CONFIGS
from hostile_rig import BACKOFF_S, MIB, Probe, attacked_cluster, rss_bytes
from kafka_listener_rig import WireClient
from kafka_wire import example_request, framed, request_frame
from log_rig import batch
from node_rig import until, values_of

PRODUCE, FETCH, OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, SYNC_GROUP = 0, 1, 8, 10, 11, 14
LIST_GROUPS, INIT_PRODUCER_ID, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 16, 22, 32, 44
GROUP_SIZE = 3
LAST_SEQUENCE = 2**31 - 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with attacked_cluster(group_max_size=GROUP_SIZE, group_initial_rebalance_delay_ms=0) as made:
        yield made


# --- row 30: sequences -----------------------------------------------------------------------------------


async def test_invalid_sequences_and_epochs_are_refused(probe: Probe) -> None:
    """Row 30: gaps, repeats, old epochs, and the number after 2^31-1."""
    await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((control.NewTopicSpec("s", 1, 1),)))

    async def produced(
        sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 77
    ) -> tuple[int, int]:
        records = batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
        fields = {"name": "s", "index": 0, "acks": -1, "transactional_id": None}
        answer = await probe.ask_kafka(PRODUCE, 9, records=records, **fields)
        partition = answer.responses[0].partition_responses[0]
        return int(partition.error_code), partition.base_offset

    async def first() -> int:
        return (await produced(0))[0]

    assert await settled(first) == 0
    out_of_order = errors.OutOfOrderSequenceNumberError.code
    assert (await produced(2))[0] == out_of_order
    assert (await produced(LAST_SEQUENCE))[0] == out_of_order
    assert await produced(1, 5) == (0, 1)
    assert await produced(1, 5) == (0, 1), "a duplicate gets the same response"
    assert (await produced(1, 4))[0] == out_of_order
    assert await produced(0, epoch=1) == (0, 6)
    assert (await produced(1, epoch=0))[0] == errors.InvalidProducerEpochError.code
    assert (await produced(5, epoch=2))[0] == out_of_order
    # an unknown producer id may begin with any sequence, as after its records were deleted
    assert await produced(LAST_SEQUENCE - 1, 2, producer=78) == (0, 7)
    assert await produced(0, producer=78) == (0, 9)
    assert (await produced(2, producer=78))[0] == out_of_order
    fetch = {"session_epoch": -1, "isolation_level": 0, "fetch_offset": 0, "current_leader_epoch": -1}
    limits = {"max_bytes": MIB, "partition_max_bytes": MIB}
    answer = await probe.ask_kafka(FETCH, 11, topic="s", partition=0, **fetch, **limits)
    found = values_of([answer.responses[0].partitions[0].records])
    assert [offset for offset, _ in found] == list(range(10))


# --- rows 35 and 36: groups and commits ------------------------------------------------------------------


async def code_of(probe: Probe, api_key: int, version: int, **values: Any) -> int:
    """The top-level error code of a response."""
    return int((await probe.ask_kafka(api_key, version, **values)).error_code)


async def settled(code: Callable[[], Awaitable[int]]) -> int:
    """Retry until there is a coordinator, which the first lookup creates."""
    while True:
        found = await code()
        if found not in (14, 15, 16):
            return found
        await asyncio.sleep(BACKOFF_S)


async def test_invalid_joins_are_refused(probe: Probe) -> None:
    """Row 35: session timeouts, protocols and metadata out of range; no member is added."""
    join = {
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "rebalance_timeout": 0 * MS,
    }
    await settled(lambda: code_of(probe, FIND_COORDINATOR, 2, key="bad", key_type=0))

    async def joined(**values: Any) -> int:
        # version 3 gives a member its id while it joins
        fields = {"group_id": "bad", **join, **values}
        return await settled(lambda: code_of(probe, JOIN_GROUP, 3, **fields))

    for ms in (0, -1, 2**31 - 1, -(2**31)):
        assert await joined(session_timeout=ms * MS) == errors.InvalidSessionTimeoutError.code
    wrong = errors.InconsistentGroupProtocolError.code
    assert await joined(session_timeout=10_000 * MS, protocol_type="") == wrong
    assert await joined(session_timeout=10_000 * MS, group_id="") == errors.InvalidGroupIdError.code
    assert await joined(session_timeout=10_000 * MS, member_id="absent") == errors.UnknownMemberIdError.code
    listed = await probe.ask_kafka(LIST_GROUPS, 0)
    assert "bad" not in {group.group_id for group in listed.groups}


async def test_invalid_commits_are_refused(probe: Probe) -> None:
    """Row 36: metadata of more than 4 KiB, negative offsets."""
    await settled(lambda: code_of(probe, FIND_COORDINATOR, 2, key="simple", key_type=0))

    async def committed(**values: Any) -> int:
        fields = {"group_id": "simple", "generation_id_or_member_epoch": -1, "member_id": ""}
        where = {"name": probe.topic, "partition_index": 0, "group_instance_id": None}
        metadata = {"committed_offset": 1, "committed_metadata": "", "committed_leader_epoch": -1}
        answer = await probe.ask_kafka(OFFSET_COMMIT, 8, **{**fields, **where, **metadata, **values})
        return int(answer.topics[0].partitions[0].error_code)

    assert await settled(committed) == 0
    large = await committed(committed_metadata="x" * 5_000)
    assert large == errors.OffsetMetadataTooLargeError.code
    assert await committed(committed_offset=-2) == 0
    assert await committed(partition_index=-1) != 0
    assert await committed(partition_index=2**31 - 1) != 0


async def test_members_and_their_metadata_are_bounded(probe: Probe) -> None:
    """Row 35: more members than a group may have, each with a megabyte of metadata."""
    await settled(lambda: code_of(probe, FIND_COORDINATOR, 2, key="crowd", key_type=0))
    question = framed(request_frame(JOIN_GROUP, 3, example_request(
        JOIN_GROUP, 3, group_id="crowd", member_id="", group_instance_id=None,
        protocol_type="consumer", name="range", session_timeout=6_000 * MS,
        rebalance_timeout=60_000 * MS, metadata=bytes(MIB),
    )))  # fmt: skip
    clients = [await WireClient.to(probe.kafka[1]) for _ in range(40)]
    for client in clients:
        client.write(question)
    answers = [asyncio.ensure_future(client.answer(JOIN_GROUP, 3)) for client in clients]

    def refused() -> int:
        codes = [int(each.result()[1].error_code) for each in answers if each.done()]
        return codes.count(errors.GroupMaxSizeReachedError.code)

    # the present generation may be full, and the next one full of waiting members
    await until(lambda: refused() >= len(clients) - 2 * GROUP_SIZE)
    for each in answers:
        each.cancel()
    for client in clients:
        client.close()


async def test_join_without_protocols_is_refused(probe: Probe) -> None:
    """Row 35."""
    await settled(lambda: code_of(probe, FIND_COORDINATOR, 2, key="none", key_type=0))
    body = example_request(
        JOIN_GROUP, 3, group_id="none", member_id="", protocol_type="consumer", session_timeout=6_000 * MS
    )
    answer = await probe.send_kafka(JOIN_GROUP, 3, replace(body, protocols=()))
    assert int(answer.error_code) == errors.InconsistentGroupProtocolError.code


@pytest.mark.parametrize("count", [25_000, 60_000])
async def test_commits_of_too_many_partitions_are_refused(probe: Probe, count: int) -> None:
    """Row 36: one by one, or all at once with the connection; none is stored."""
    await settled(lambda: code_of(probe, FIND_COORDINATOR, 2, key="simple", key_type=0))
    before = rss_bytes()
    body = example_request(
        OFFSET_COMMIT, 8, group_id="simple", generation_id_or_member_epoch=-1, member_id="",
        group_instance_id=None, name=probe.topic, committed_leader_epoch=-1, committed_metadata="",
    )  # fmt: skip
    (topic,) = body.topics
    partitions = topic.partitions * count
    client = await WireClient.to(probe.kafka[1])
    client.write(
        framed(
            request_frame(OFFSET_COMMIT, 8, replace(body, topics=(replace(topic, partitions=partitions),)))
        )
    )
    if count == 60_000:
        assert await client.ended() == b""
    else:
        _, answer = await client.answer(OFFSET_COMMIT, 8)
        (response,) = answer.topics
        assert len(response.partitions) == count
        assert all(int(each.error_code) for each in response.partitions)
    client.close()
    assert rss_bytes() - before < 200 * MIB


# --- row 38: configs -------------------------------------------------------------------------------------


async def described(probe: Probe) -> dict[str, str | None]:
    body = example_request(DESCRIBE_CONFIGS, 4, resource_type=2, resource_name="good")
    (resource,) = body.resources
    body = replace(body, resources=(replace(resource, configuration_keys=None),))
    answer = await probe.send_kafka(DESCRIBE_CONFIGS, 4, body)
    (found,) = answer.results
    assert not int(found.error_code)
    assert not any(each.is_sensitive for each in found.configs)
    return {each.name: each.value for each in found.configs}


async def test_invalid_configs_are_refused(probe: Probe) -> None:
    """Row 38: as on the other plane, with a short error on one line; no value is a secret."""
    spec = control.NewTopicSpec("good", 1, 1)
    await probe.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest((spec,)))
    before = await described(probe)
    wrong = (errors.InvalidConfigError.code, errors.InvalidRequestError.code)
    for (kind, name), (key, operation, value) in BAD_CONFIGS:
        where = {"resource_type": kind, "resource_name": name, "validate_only": False}
        change = {"name": key, "config_operation": operation, "value": value}
        answer = await probe.ask_kafka(INCREMENTAL_ALTER_CONFIGS, 1, **where, **change)
        (response,) = answer.responses
        assert int(response.error_code) in wrong, (name, key[:50], response)
        assert len(response.error_message) < 1_000
        assert response.error_message.isprintable()
    assert await described(probe) == before
    await probe.ask(registry.DELETE_TOPICS, control.DeleteTopicsRequest(("good",)))
