"""aiokafka."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from ..scene import Scene, scenario

CLIENT = "aiokafka"
TIMEOUT_S = 20.0
ATTEMPTS = 500
NOW = 1_700_000_000_000

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


async def take(reader: AIOKafkaConsumer, count: int) -> list[Any]:
    """So many records. Errors: TimeoutError."""
    found = []
    async with asyncio.timeout(TIMEOUT_S):
        while len(found) < count:
            record = await reader.getone()
            found.append([record.partition, record.offset, record.key, record.value, record.headers])
    return found


async def outcome(call: Awaitable[Any]) -> Any:
    """What a call gave, or the error that it raised."""
    try:
        return await call
    except KafkaError as error:
        return type(error).__name__


async def _until(ask: Callable[[], Awaitable[Any]], text: str) -> Any:
    """An answer with this in it: a broker learns of its controller's records a little later."""
    found: Any = None
    for _ in range(ATTEMPTS):
        found = await ask()
        if text in str(found):
            break
    return found


async def make(scene: Scene, partitions: int = 1) -> None:
    boss = AIOKafkaAdminClient(bootstrap_servers=scene.bootstrap)
    await boss.start()
    await boss.create_topics([NewTopic(scene.topic, partitions, 1)])
    await boss.close()


def consumer(scene: Scene, *topics: str, **more: Any) -> AIOKafkaConsumer:
    more = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **more}
    return AIOKafkaConsumer(*topics, bootstrap_servers=scene.bootstrap, **more)


@scenario(CLIENT, "produces and consumes with every compression")
def round_trip(scene: Scene) -> None:
    async def play() -> None:
        await make(scene)
        for compression in (None, "gzip", "snappy", "lz4", "zstd"):
            for is_idempotent in (True, False):
                more = {"compression_type": compression, "enable_idempotence": is_idempotent}
                async with AIOKafkaProducer(bootstrap_servers=scene.bootstrap, **more) as writer:
                    response = [
                        await writer.send_and_wait(
                            scene.topic, b"v" * 50, b"k", timestamp_ms=NOW, headers=[("a", b"1")]
                        )
                        for _ in range(3)
                    ]
                    sent = [[each.partition, each.offset, each.timestamp] for each in response]
                    scene.note(f"{compression} {is_idempotent}", sent)
        part = TopicPartition(scene.topic, 0)
        async with consumer(scene) as reader:
            reader.assign([part])
            scene.note("read", await take(reader, 30))
            scene.note("for times", (await reader.offsets_for_times({part: NOW}))[part].offset)
            scene.note("end", (await reader.end_offsets([part]))[part])

    asyncio.run(play())


@scenario(CLIENT, "a group")
def group(scene: Scene) -> None:
    async def play() -> None:
        await make(scene, 3)
        async with AIOKafkaProducer(bootstrap_servers=scene.bootstrap) as writer:
            for each in range(9):
                await writer.send_and_wait(scene.topic, b"%d" % each, partition=each % 3)
            async with consumer(scene, scene.topic, group_id=scene.topic, client_id="one") as reader:
                scene.note("first", sorted(await take(reader, 9), key=repr))
                await reader.commit()
                boss = AIOKafkaAdminClient(bootstrap_servers=scene.bootstrap)
                await boss.start()
                scene.note(
                    "described",
                    [each.to_object() for each in await boss.describe_consumer_groups([scene.topic])],
                )
                offsets = await boss.list_consumer_group_offsets(scene.topic)
                scene.note("offsets", {str(part): list(offset) for part, offset in offsets.items()})
                await boss.close()
            for each in range(3):
                await writer.send_and_wait(scene.topic, b"later", partition=each)
        async with consumer(scene, scene.topic, group_id=scene.topic) as reader:
            scene.note("second", sorted(await take(reader, 3), key=repr))
            parts = [TopicPartition(scene.topic, each) for each in range(3)]
            scene.note("committed", [await reader.committed(part) for part in parts])

    asyncio.run(play())


@scenario(CLIENT, "transactions")
def transactions(scene: Scene) -> None:
    async def play() -> None:
        await make(scene)
        part = TopicPartition(scene.topic, 0)
        group = f"{scene.topic}-group"
        async with AIOKafkaProducer(
            bootstrap_servers=scene.bootstrap, transactional_id=scene.topic
        ) as writer:
            for number in range(4):
                await writer.begin_transaction()
                for each in range(3):
                    await writer.send(scene.topic, b"%d-%d" % (number, each), partition=0)
                await writer.send_offsets_to_transaction({part: number}, group)
                await (writer.abort_transaction() if number % 2 else writer.commit_transaction())
        for isolation, count in (("read_committed", 6), ("read_uncommitted", 12)):
            async with consumer(scene, isolation_level=isolation, group_id=group) as reader:
                reader.assign([part])
                await reader.seek_to_beginning(part)
                scene.note(isolation, await take(reader, count))
                scene.note(f"{isolation} committed", await reader.committed(part))

    asyncio.run(play())


@scenario(CLIENT, "admin")
def administration(scene: Scene) -> None:
    async def play() -> None:
        boss = AIOKafkaAdminClient(bootstrap_servers=scene.bootstrap)
        await boss.start()

        async def response(label: str, call: Awaitable[Any]) -> None:
            found = await outcome(call)
            scene.note(label, found.to_object() if hasattr(found, "to_object") else found)

        topic = NewTopic(scene.topic, 2, 1)
        await response("made", boss.create_topics([topic]))
        await response("again", boss.create_topics([topic]))
        await response("partitions", boss.create_partitions({scene.topic: NewPartitions(4)}))
        topics = await _until(lambda: boss.describe_topics([scene.topic]), "'partition': 3")
        scene.note("topic", topics)
        await response("cluster", boss.describe_cluster())
        resource = ConfigResource(ConfigResourceType.TOPIC, scene.topic, configs={"retention.ms": "1234567"})
        altered = await boss.alter_configs([resource])
        scene.note("altered", [each.to_object() for each in altered])
        described = await _until(lambda: boss.describe_configs([resource]), "1234567")
        scene.note("configs", [each.to_object() for each in described])
        await response("deleted", boss.delete_topics([scene.topic, "no-such-topic"]))
        await boss.close()

    asyncio.run(play())
