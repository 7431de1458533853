"""A storage node over real sockets and files: produce, fetch, look up, wait, be fenced, forward."""

import asyncio
from pathlib import Path

import pytest
from headrace.protocol import errors
from headrace.protocol.messages import control, registry
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from node_rig import WALL_MS, Rig, batch, node_rig, until


async def test_produced_records_are_fetched(rig: Rig) -> None:
    """Metadata, batches with each value of acks, all offsets in order."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    metadata = (await client.ask(registry.METADATA, MetadataRequest(("t",)))).body
    assert metadata.topics[0].topic_id == topic_id
    assert metadata.topics[0].partitions[0].leader == 1
    assert [(node.node_id, node.port) for node in metadata.nodes] == [(1, rig.node.port)]
    assert (await client.produce(topic_id, batch(b"a", b"b"), acks=1)).base_offset == 0
    assert (await client.produce(topic_id, batch(b"c"), acks=-1)).base_offset == 2
    answer, values = await client.fetch(topic_id)
    assert (answer.error_code, answer.high_watermark, answer.log_start_offset) == (0, 3, 0)
    assert values == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_acks_0_is_appended_without_a_response(rig: Rig) -> None:
    """Valid and invalid batches: the valid ones are stored, and the connection stays open."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    for data in (batch(b"a"), b"garbage", batch(b"b")):
        await client.send_without_answer(topic_id, data)
    assert (await client.produce(topic_id, batch(b"c"))).base_offset == 2
    assert [value for _, value in (await client.fetch(topic_id))[1]] == [b"a", b"b", b"c"]
    assert rig.node.status()["counters"]["failed_produce_entries"] == 1


async def test_large_batches_are_produced_and_fetched(tmp_path: Path) -> None:
    """A megabyte each: none is sent as a small frame."""
    async with node_rig(tmp_path, config={"message.max.bytes": 4 << 20}) as rig:
        topic_id = await rig.topic("t")
        client = await rig.client()
        values = [bytes([number]) * (1 << 20) for number in range(4)]
        for value in values:
            assert (await client.produce(topic_id, batch(value))).error_code == 0
        found = []
        while len(found) < len(values):
            found += (await client.fetch(topic_id, len(found)))[1]
        assert found == list(enumerate(values))


async def test_offsets_by_timestamp(rig: Rig) -> None:
    """Earliest, latest and the first record at or after a timestamp."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    for step in range(3):
        await client.produce(topic_id, batch(b"v", timestamp_ms=WALL_MS + 10 * step))
    asked = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, WALL_MS + 5, WALL_MS + 21)
    offsets = [(await client.offset_at(topic_id, time)).offset for time in asked]
    assert offsets == [0, 3, 1, -1]


async def test_waiting_fetch_completes_with_an_append(rig: Rig) -> None:
    """And by its timeout."""
    topic_id = await rig.topic("t")
    reader, writer = await rig.client(), await rig.client()
    waiting = asyncio.create_task(reader.fetch(topic_id, max_wait_ms=20_000))
    await until(lambda: rig.node.status()["parked_requests"] == 1)
    await writer.produce(topic_id, batch(b"news"))
    assert (await waiting)[1] == [(0, b"news")]
    assert (await reader.fetch(topic_id, 1, max_wait_ms=20))[1] == []


async def test_fetch_of_a_closed_connection_leaves_purgatory(rig: Rig) -> None:
    """At once, not only at its deadline."""
    topic_id = await rig.topic("t")
    reader = await rig.client()
    waiting = asyncio.create_task(reader.fetch(topic_id, max_wait_ms=200_000))
    await until(lambda: rig.node.status()["parked_requests"] == 1)
    waiting.cancel()
    reader.close()
    await until(lambda: rig.node.status()["parked_requests"] == 0)


async def test_fsync_topics_acknowledge_flushed_records(rig: Rig) -> None:
    """Concurrent producers share flushes; every record is acknowledged and in the log."""
    topic_id = await rig.topic("t", partitions=2, durability="fsync")
    client = await rig.client()
    sends = [
        client.produce(topic_id, batch(b"%d" % number), partition=number % 2, acks=(1, -1)[number % 2])
        for number in range(60)
    ]
    answers = await asyncio.gather(*sends)
    assert {answer.error_code for answer in answers} == {0}
    values = [value for part in (0, 1) for _, value in (await client.fetch(topic_id, partition=part))[1]]
    assert sorted(values) == sorted(b"%d" % number for number in range(60))
    for partition in rig.core.table.partitions.values():
        assert partition.log is not None
        assert partition.log.recovery_point == partition.log.log_end_offset


async def test_former_leader_refuses_requests(rig: Rig) -> None:
    """The controller removes the leader and elects it again in the next epoch."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    waiting = asyncio.create_task(client.fetch(topic_id, max_wait_ms=20_000))
    await until(lambda: rig.node.status()["parked_requests"] == 1)
    rig.controller.set_leader(topic_id, -1)
    assert (await waiting)[0].error_code == errors.NotLeaderOrFollowerError.code
    assert (await client.produce(topic_id, batch(b"x"))).error_code == errors.NotLeaderOrFollowerError.code
    rig.controller.set_leader(topic_id, 1)
    await rig.sees(len(rig.controller.records) - 1)
    assert (await client.produce(topic_id, batch(b"a"))).error_code == 0


async def test_data_plane_continues_without_a_controller(rig: Rig) -> None:
    """Produce and fetch succeed, admin requests time out; when the controller is back, all succeed."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    rig.controller.close()
    assert (await client.produce(topic_id, batch(b"a"))).error_code == 0
    assert (await client.fetch(topic_id))[1] == [(0, b"a")]
    with pytest.raises((errors.NotLeaderOrFollowerError, errors.RequestTimedOutError, Exception)) as caught:
        await client.ask(
            registry.CREATE_TOPICS, control.CreateTopicsRequest((control.NewTopicSpec("n"),), 50)
        )
    assert caught.value.retriable  # type: ignore[attr-defined]
    rig.controller.restart()
    answer = await client.ask(
        registry.CREATE_TOPICS, control.CreateTopicsRequest((control.NewTopicSpec("n"),), 20_000)
    )
    assert answer.body.topics[0].error_code == 0


async def test_created_topic_is_in_the_nodes_metadata(rig: Rig) -> None:
    """Created through the node, then described by it: no retry is needed."""
    client = await rig.client()
    for number in range(10):
        name = f"t{number}"
        made = await client.ask(
            registry.CREATE_TOPICS, control.CreateTopicsRequest((control.NewTopicSpec(name),))
        )
        topic_id = made.body.topics[0].topic_id
        assert (await client.produce(topic_id, batch(b"a"))).error_code == 0
        metadata = (await client.ask(registry.METADATA, MetadataRequest((name,)))).body
        assert metadata.topics[0].error_code == 0


async def test_errors_of_the_controller_reach_the_client(rig: Rig) -> None:
    """Of the whole request and of one item."""
    client = await rig.client()
    body = control.CreateTopicsRequest((control.NewTopicSpec("t"),))
    router = rig.controller.router
    rig.controller.on_admin = lambda request: router.reply_error(request, errors.KafkaStorageError("disk"))
    with pytest.raises(errors.KafkaStorageError, match="disk"):
        await client.ask(registry.CREATE_TOPICS, body)
    failed = control.CreatedTopic("t", errors.TopicAlreadyExistsError.code, "there")
    rig.controller.on_admin = lambda request: router.reply(request, control.CreateTopicsResponse((failed,)))
    assert (await client.ask(registry.CREATE_TOPICS, body)).body.topics == (failed,)


async def test_deleted_topic_frees_its_space(rig: Rig, tmp_path: Path) -> None:
    """Its folder is removed in the background."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    await client.produce(topic_id, batch(b"a"))
    assert (tmp_path / "d0" / "t-0").is_dir()
    rig.controller.delete_topic(topic_id)
    await until(lambda: not [path for path in (tmp_path / "d0").iterdir() if path.is_dir()])
    again = await rig.topic("t")
    assert (await client.fetch(again))[1] == []


async def test_metadata_snapshots_are_applied(rig: Rig) -> None:
    """The controller sends whole images instead of records."""
    rig.controller.sends_snapshots = True
    topic_id = await rig.topic("t")
    client = await rig.client()
    assert (await client.produce(topic_id, batch(b"a"))).error_code == 0
