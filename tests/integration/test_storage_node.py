"""A storage node over real sockets and files: produce, fetch, look up, wait, be fenced, forward."""

import asyncio
from pathlib import Path

import pytest
from headrace.protocol.errors import (
    KafkaStorageError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
)
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import (
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewTopicSpec,
)
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from node_rig import WALL_MS, Rig, batch, node_rig, until


async def test_what_is_produced_is_fetched(rig: Rig) -> None:
    """The thinnest path: metadata, batches with each kind of acks, all offsets back in order."""
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


async def test_acks_0_is_appended_without_an_answer(rig: Rig) -> None:
    """Good and bad batches without acknowledgement: the good ones are there, the connection lives."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    for data in (batch(b"a"), b"garbage", batch(b"b")):
        await client.send_without_answer(topic_id, data)
    assert (await client.produce(topic_id, batch(b"c"))).base_offset == 2
    assert [value for _, value in (await client.fetch(topic_id))[1]] == [b"a", b"b", b"c"]
    assert rig.node.status()["counters"]["failed_produce_entries"] == 1


async def test_large_batches_go_both_ways(tmp_path: Path) -> None:
    """A megabyte per batch: beyond every small-frame path of the transport."""
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


async def test_offsets_by_time(rig: Rig) -> None:
    """Earliest, latest and the first record at or after a time."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    for step in range(3):
        await client.produce(topic_id, batch(b"v", timestamp_ms=WALL_MS + 10 * step))
    asked = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, WALL_MS + 5, WALL_MS + 21)
    offsets = [(await client.offset_at(topic_id, time)).offset for time in asked]
    assert offsets == [0, 3, 1, -1]


async def test_a_waiting_reader_is_woken(rig: Rig) -> None:
    """The long poll, and its end by time."""
    topic_id = await rig.topic("t")
    reader, writer = await rig.client(), await rig.client()
    waiting = asyncio.create_task(reader.fetch(topic_id, max_wait_ms=20_000))
    await until(lambda: rig.node.status()["parked_requests"] == 1)
    await writer.produce(topic_id, batch(b"news"))
    assert (await waiting)[1] == [(0, b"news")]
    assert (await reader.fetch(topic_id, 1, max_wait_ms=20))[1] == []


async def test_a_reader_that_goes_away_leaves_nothing_behind(rig: Rig) -> None:
    """Its waiting fetch makes room when the connection breaks, not at its deadline."""
    topic_id = await rig.topic("t")
    reader = await rig.client()
    waiting = asyncio.create_task(reader.fetch(topic_id, max_wait_ms=200_000))
    await until(lambda: rig.node.status()["parked_requests"] == 1)
    waiting.cancel()
    reader.close()
    await until(lambda: rig.node.status()["parked_requests"] == 0)


async def test_fsync_topics_acknowledge_from_the_disk(rig: Rig) -> None:
    """Many producers at once share flushes; every one of them is answered and in the log."""
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


async def test_a_fenced_leader_refuses_and_comes_back(rig: Rig) -> None:
    """The controller takes the leadership away and gives it back with the next epoch."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    waiting = asyncio.create_task(client.fetch(topic_id, max_wait_ms=20_000))
    await until(lambda: rig.node.status()["parked_requests"] == 1)
    rig.controller.set_leader(topic_id, -1)
    assert (await waiting)[0].error_code == NotLeaderOrFollowerError.code
    assert (await client.produce(topic_id, batch(b"x"))).error_code == NotLeaderOrFollowerError.code
    rig.controller.set_leader(topic_id, 1)
    await rig.sees(len(rig.controller.records) - 1)
    assert (await client.produce(topic_id, batch(b"a"))).error_code == 0


async def test_the_data_plane_goes_on_without_the_controller(rig: Rig) -> None:
    """The controller is away for a while: produce and fetch work, admin requests end with an error in
    time; when it is back, all works again."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    rig.controller.close()
    assert (await client.produce(topic_id, batch(b"a"))).error_code == 0
    assert (await client.fetch(topic_id))[1] == [(0, b"a")]
    with pytest.raises((NotLeaderOrFollowerError, RequestTimedOutError, Exception)) as caught:
        await client.ask(registry.CREATE_TOPICS, CreateTopicsRequest((NewTopicSpec("n"),), 50))
    assert caught.value.retriable  # type: ignore[attr-defined]
    rig.controller.restart()
    answer = await client.ask(registry.CREATE_TOPICS, CreateTopicsRequest((NewTopicSpec("n"),), 20_000))
    assert answer.body.topics[0].error_code == 0


async def test_what_was_created_is_visible_in_the_answer(rig: Rig) -> None:
    """Create by way of the node, then ask the node: no retry needed."""
    client = await rig.client()
    for number in range(10):
        name = f"t{number}"
        made = await client.ask(registry.CREATE_TOPICS, CreateTopicsRequest((NewTopicSpec(name),)))
        topic_id = made.body.topics[0].topic_id
        assert (await client.produce(topic_id, batch(b"a"))).error_code == 0
        metadata = (await client.ask(registry.METADATA, MetadataRequest((name,)))).body
        assert metadata.topics[0].error_code == 0


async def test_errors_of_the_controller_reach_the_client(rig: Rig) -> None:
    """Those of the whole request and those of one item."""
    client = await rig.client()
    body = CreateTopicsRequest((NewTopicSpec("t"),))
    router = rig.controller.router
    rig.controller.on_admin = lambda request: router.reply_error(request, KafkaStorageError("disk"))
    with pytest.raises(KafkaStorageError, match="disk"):
        await client.ask(registry.CREATE_TOPICS, body)
    failed = CreatedTopic("t", TopicAlreadyExistsError.code, "there")
    rig.controller.on_admin = lambda request: router.reply(request, CreateTopicsResponse((failed,)))
    assert (await client.ask(registry.CREATE_TOPICS, body)).body.topics == (failed,)


async def test_a_deleted_topic_frees_its_space(rig: Rig, tmp_path: Path) -> None:
    """The folder goes away in the background."""
    topic_id = await rig.topic("t")
    client = await rig.client()
    await client.produce(topic_id, batch(b"a"))
    assert (tmp_path / "d0" / "t-0").is_dir()
    rig.controller.delete_topic(topic_id)
    await until(lambda: not [path for path in (tmp_path / "d0").iterdir() if path.is_dir()])
    again = await rig.topic("t")
    assert (await client.fetch(again))[1] == []


async def test_snapshots_of_the_metadata_are_followed(rig: Rig) -> None:
    """The controller sends whole images instead of records."""
    rig.controller.sends_snapshots = True
    topic_id = await rig.topic("t")
    client = await rig.client()
    assert (await client.produce(topic_id, batch(b"a"))).error_code == 0
