"""librdkafka, by confluent-kafka."""

import logging
from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from headrace.benchmarks.servers.topics_io import silent

from ..scene import Scene, scenario

CLIENT = "confluent-kafka"
TIMEOUT_S = 45.0  # of a restart, too
NOW = 1_700_000_000_000


def producer(scene: Scene, **more: Any) -> Producer:
    return Producer(_config(scene, more), logger=silent())


def consumer(scene: Scene, **more: Any) -> Consumer:
    base = {"group.id": scene.topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return Consumer({**base, **_config(scene, more)}, logger=silent())


def admin(scene: Scene) -> AdminClient:
    return AdminClient(_config(scene, {}), logger=silent())


def _config(scene: Scene, more: dict[str, Any]) -> dict[str, Any]:
    given = {name.replace("_", "."): value for name, value in more.items()}
    base = {"topic.metadata.refresh.interval.ms": 500, "reconnect.backoff.max.ms": 500}
    return {"bootstrap.servers": scene.bootstrap, **base, **given}


def make(scene: Scene, partitions: int = 1, topic: str = "", **configs: str) -> None:
    wanted = NewTopic(
        topic or scene.topic, partitions, 1, config={k.replace("_", "."): v for k, v in configs.items()}
    )
    boss = admin(scene)
    for future in boss.create_topics([wanted]).values():
        future.result(TIMEOUT_S)


def seen(message: Any) -> list[Any]:
    return [
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.headers(),
        message.timestamp()[0],
        message.leader_epoch(),
    ]


def take(reader: Consumer, count: int) -> list[Any]:
    """So many records, or errors, or fewer if they do not come."""
    found = []
    while len(found) < count:
        message = reader.poll(TIMEOUT_S)
        if message is None:
            break
        found.append(seen(message) if message.error() is None else response(message.error()))
    return found


def response(error: Any) -> str:
    return f"{error.name()} fatal={error.fatal()} retriable={error.retriable()}"


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gave, or the error that it raised."""
    try:
        return call()
    except KafkaException as error:
        return response(error.args[0])


def send(writer: Producer, topic: str, records: list[tuple[Any, Any]], **more: Any) -> list[Any]:
    """The delivery reports of these records."""
    reports: list[Any] = []

    def report(error: Any, message: Any) -> None:
        reports.append(response(error) if error else [message.partition(), message.offset()])

    for key, value in records:
        writer.produce(topic, key=key, value=value, on_delivery=report, **more)
    writer.flush(TIMEOUT_S)
    return reports


@scenario(CLIENT, "produces and consumes with every compression")
def round_trip(scene: Scene) -> None:
    make(scene)
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        for idempotent in (True, False):
            writer = producer(
                scene, compression_type=compression, enable_idempotence=idempotent, linger_ms=50
            )
            records = [(b"k-%d" % number, b"v" * 50) for number in range(5)] + [(None, b"x"), (b"k", None)]
            more = {"headers": [("a", b"1"), ("none", None)], "timestamp": NOW}
            scene.note(f"{compression} idempotent={idempotent}", send(writer, scene.topic, records, **more))
    reader = consumer(scene)
    reader.assign([TopicPartition(scene.topic, 0, OFFSET_BEGINNING)])
    scene.note("read", take(reader, 70))
    scene.note("watermarks", reader.get_watermark_offsets(TopicPartition(scene.topic, 0), TIMEOUT_S))
    asked = [TopicPartition(scene.topic, 0, moment) for moment in (NOW,)]
    scene.note("for times", [part.offset for part in reader.offsets_for_times(asked, TIMEOUT_S)])
    reader.close()


def _group(scene: Scene, **protocol: str) -> None:
    make(scene, partitions=3)
    writer = producer(scene)
    for partition in range(3):
        scene.note(
            f"sent {partition}", send(writer, scene.topic, [(b"k", b"1"), (b"k", b"2")], partition=partition)
        )
    reader = consumer(scene, client_id="one", **protocol)
    reader.subscribe([scene.topic])
    scene.note("first", sorted(take(reader, 6)))
    scene.note("assignment", sorted(part.partition for part in reader.assignment()))
    committed = reader.commit(asynchronous=False)
    scene.note("committed", sorted([part.partition, part.offset] for part in committed))
    boss = admin(scene)
    described = boss.describe_consumer_groups([scene.topic])[scene.topic].result(TIMEOUT_S)
    members = [
        [member.client_id, member.host, len(member.assignment.topic_partitions)]
        for member in described.members
    ]
    about = [
        described.state.name,
        described.partition_assignor,
        described.type.name,
        described.is_simple_consumer_group,
    ]
    scene.note("described", [*about, *members, described.coordinator.id])
    reader.close()
    after = boss.describe_consumer_groups([scene.topic])[scene.topic].result(TIMEOUT_S)
    scene.note("after", [after.state.name, len(after.members)])
    for partition in range(3):
        send(writer, scene.topic, [(b"k", b"3")], partition=partition)
    reader = consumer(scene, **protocol)
    reader.subscribe([scene.topic])
    scene.note("second", sorted(take(reader, 3)))
    parts = [TopicPartition(scene.topic, number) for number in range(3)]
    scene.note("still committed", [part.offset for part in reader.committed(parts, TIMEOUT_S)])
    reader.close()


@scenario(CLIENT, "a classic group")
def classic_group(scene: Scene) -> None:
    _group(scene)


@scenario(CLIENT, "a group of the new protocol")
def new_group(scene: Scene) -> None:
    _group(scene, group_protocol="consumer")


@scenario(CLIENT, "transactions")
def transactions(scene: Scene) -> None:
    """Committed, aborted, with offsets of a group; fenced by a second one of its id."""
    make(scene)
    first = producer(scene, transactional_id=scene.topic)
    first.init_transactions(TIMEOUT_S)
    for number in range(4):
        first.begin_transaction()
        scene.note(
            f"sent {number}",
            send(first, scene.topic, [(b"k", b"%d-%d" % (number, each)) for each in range(3)]),
        )
        if number % 2:
            first.abort_transaction(TIMEOUT_S)
        else:
            first.commit_transaction(TIMEOUT_S)
    for isolation in ("read_committed", "read_uncommitted"):
        reader = consumer(scene, isolation_level=isolation)
        reader.assign([TopicPartition(scene.topic, 0, OFFSET_BEGINNING)])
        scene.note(isolation, take(reader, 6 if isolation == "read_committed" else 12))
        scene.note(
            f"{isolation} end", reader.get_watermark_offsets(TopicPartition(scene.topic, 0), TIMEOUT_S)
        )
        reader.close()
    reader = consumer(scene)
    reader.subscribe([scene.topic])
    scene.note("in a group", len(take(reader, 6)))
    first.begin_transaction()
    send(first, scene.topic, [(b"k", b"with offsets")])
    parts = [TopicPartition(scene.topic, 0, 5)]
    first.send_offsets_to_transaction(parts, reader.consumer_group_metadata(), TIMEOUT_S)
    first.commit_transaction(TIMEOUT_S)
    asked = [TopicPartition(scene.topic, 0)]
    scene.note("offset", [part.offset for part in reader.committed(asked, TIMEOUT_S)])
    reader.close()
    first.begin_transaction()
    send(first, scene.topic, [(b"k", b"never")])
    second = producer(scene, transactional_id=scene.topic)
    second.init_transactions(TIMEOUT_S)
    scene.note("fenced", outcome(lambda: first.commit_transaction(TIMEOUT_S)))
    second.begin_transaction()
    scene.note("second", send(second, scene.topic, [(b"k", b"second")]))
    scene.note("second commits", outcome(lambda: second.commit_transaction(TIMEOUT_S)))


@scenario(CLIENT, "errors of producers and consumers")
def refused(scene: Scene) -> None:
    make(scene, max_message_bytes="2000")
    scene.note("too large", send(producer(scene), scene.topic, [(b"k", b"v" * 5000)]))
    old = producer(scene)
    make(scene, topic=f"{scene.topic}-strict", message_timestamp_before_max_ms="1000")
    scene.note("too old", send(old, f"{scene.topic}-strict", [(b"k", b"v")], timestamp=NOW))
    make(scene, topic=f"{scene.topic}-compact", cleanup_policy="compact")
    scene.note("no key", send(old, f"{scene.topic}-compact", [(None, b"v")]))
    scene.note("no partition", outcome(lambda: send(old, scene.topic, [(b"k", b"v")], partition=9)))
    reader = consumer(scene, auto_offset_reset="error")
    reader.assign([TopicPartition(scene.topic, 0, 1000)])
    scene.note("out of range", take(reader, 1))
    reader.close()


@scenario(CLIENT, "automatic topic creation")
def auto_created(scene: Scene) -> None:
    scene.note("sent", send(producer(scene), scene.topic, [(b"k", b"v")]))
    boss = admin(scene)
    found = boss.list_topics(timeout=TIMEOUT_S).topics
    mine = {
        name: len(topic.partitions) for name, topic in sorted(found.items()) if name.startswith(scene.topic)
    }
    scene.note("topics", mine)


@scenario(CLIENT, "admin")
def administration(scene: Scene) -> None:
    boss = admin(scene)

    def done(label: str, futures: Any) -> None:
        found = [outcome(lambda future=future: future.result(TIMEOUT_S)) for future in futures.values()]
        scene.note(label, [each if isinstance(each, str) else "done" for each in found])

    make(scene)
    done("again", boss.create_topics([NewTopic(scene.topic, 1, 1)]))
    done("bad name", boss.create_topics([NewTopic("no/such", 1, 1)]))
    done("no partitions", boss.create_topics([NewTopic(f"{scene.topic}-0", 0, 1)]))
    done("three replicas", boss.create_topics([NewTopic(f"{scene.topic}-3", 1, 3)]))
    done("partitions", boss.create_partitions([NewPartitions(scene.topic, 3)]))
    done("fewer", boss.create_partitions([NewPartitions(scene.topic, 2)]))
    entry = ConfigEntry("retention.ms", "1234567", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, scene.topic, incremental_configs=[entry])
    done("config", boss.incremental_alter_configs([resource]))
    bad = ConfigEntry("retention.ms", "long", incremental_operation=AlterConfigOpType.SET)
    done(
        "bad config",
        boss.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, scene.topic, incremental_configs=[bad])]
        ),
    )
    wanted = ConfigResource(ResourceType.TOPIC, scene.topic)

    def described() -> Any:
        found = boss.describe_configs([wanted])[wanted].result(TIMEOUT_S)
        return {name: [each.value, each.is_default, each.source] for name, each in sorted(found.items())}

    scene.note("configs", scene.until(described, "1234567"))
    writer = producer(scene)
    scene.note("sent", send(writer, scene.topic, [(b"k", b"v")] * 5, partition=0, timestamp=NOW))
    part = TopicPartition(scene.topic, 0)
    for label, spec in (
        ("earliest", OffsetSpec.earliest()),
        ("latest", OffsetSpec.latest()),
        ("max", OffsetSpec.max_timestamp()),
        ("time", OffsetSpec.for_timestamp(NOW)),
    ):
        (listed,) = boss.list_offsets({part: spec}, isolation_level=IsolationLevel.READ_COMMITTED).values()
        found = listed.result(TIMEOUT_S)
        scene.note(f"offset {label}", [found.offset, found.timestamp, found.leader_epoch])
    (deleted,) = boss.delete_records([TopicPartition(scene.topic, 0, 2)]).values()
    scene.note("low watermark", deleted.result(TIMEOUT_S).low_watermark)
    group = ConsumerGroupTopicPartitions(scene.topic, [TopicPartition(scene.topic, 0, 3)])
    done("offsets set", boss.alter_consumer_group_offsets([group]))

    def offsets_set() -> Any:
        """Again until they are there: the coordinator of a new __consumer_offsets may not be ready."""
        for altered in boss.alter_consumer_group_offsets([group]).values():
            altered.result(TIMEOUT_S)
        (listed,) = boss.list_consumer_group_offsets([ConsumerGroupTopicPartitions(scene.topic)]).values()
        return [[each.partition, each.offset] for each in listed.result(TIMEOUT_S).topic_partitions]

    scene.note("offsets", scene.until(offsets_set, "3"))
    groups = boss.list_consumer_groups().result(TIMEOUT_S).valid
    mine = [each for each in groups if each.group_id == scene.topic]
    scene.note(
        "groups",
        [[each.group_id, each.state.name, each.type.name, each.is_simple_consumer_group] for each in mine],
    )
    cluster = boss.describe_cluster().result(TIMEOUT_S)
    scene.note("cluster", [len(cluster.nodes), cluster.controller.id, cluster.cluster_id])
    done("groups deleted", boss.delete_consumer_groups([scene.topic, "no-such-group"]))
    done("topics deleted", boss.delete_topics([scene.topic, "no-such-topic"]))


@scenario(CLIENT, "continues after a restart")
def over_a_restart(scene: Scene) -> None:
    """The same producer and consumer before and after: sequences, offsets, and what was committed."""
    logging.getLogger("librdkafka").setLevel(logging.CRITICAL)
    make(scene)
    writer, reader = producer(scene), consumer(scene)
    scene.note("before", send(writer, scene.topic, [(b"k", b"%d" % number) for number in range(5)]))
    reader.subscribe([scene.topic])
    scene.note("read before", take(reader, 5))
    scene.note("committed", [part.offset for part in reader.commit(asynchronous=False)])
    scene.restart()
    scene.note("after", send(writer, scene.topic, [(b"k", b"%d" % number) for number in range(5, 10)]))
    scene.note("read after", take(reader, 5))
    reader.close()
