"""kafka-python."""

import warnings
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import KafkaError
from kafka.protocol.admin.topics import ElectionType

from ..scene import Scene, scenario

CLIENT = "kafka-python"
TIMEOUT_MS = 20_000
NOW = 1_700_000_000_000

warnings.filterwarnings("ignore", module="kafka")


def producer(scene: Scene, **more: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=scene.bootstrap, **more)


def consumer(scene: Scene, **more: Any) -> KafkaConsumer:
    more = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **more}
    return KafkaConsumer(bootstrap_servers=scene.bootstrap, consumer_timeout_ms=TIMEOUT_MS, **more)


def make(scene: Scene, partitions: int = 1) -> None:
    boss = KafkaAdminClient(bootstrap_servers=scene.bootstrap)
    boss.create_topics([NewTopic(scene.topic, partitions, 1)])
    boss.close()


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gave, or the error that it raised."""
    try:
        return call()
    except KafkaError as error:
        return type(error).__name__


def take(reader: KafkaConsumer, count: int) -> list[Any]:
    """So many records, or fewer if they do not come."""
    found = []
    for record in reader:
        found.append(
            [record.partition, record.offset, record.key, record.value, record.headers, record.leader_epoch]
        )
        if len(found) == count:
            break
    return found


@scenario(CLIENT, "produces and consumes with every compression")
def round_trip(scene: Scene) -> None:
    make(scene)
    for compression in (None, "gzip", "snappy", "lz4", "zstd"):
        for acks in ("all", 1, 0):
            writer = producer(
                scene, compression_type=compression, acks=acks, enable_idempotence=acks == "all"
            )
            headers = [("a", b"1")]
            made = [
                writer.send(scene.topic, key=b"k", value=b"v" * 50, headers=headers, timestamp_ms=NOW + each)
                for each in range(5)
            ]
            writer.flush(TIMEOUT_MS / 1000)
            response = [future.get(TIMEOUT_MS / 1000) for future in made] if acks else []
            scene.note(
                f"{compression} {acks}", [[each.partition, each.offset, each.timestamp] for each in response]
            )
            writer.close()
    reader = consumer(scene)
    part = TopicPartition(scene.topic, 0)
    reader.assign([part])
    scene.note("read", take(reader, 75))
    scene.note("for times", reader.offsets_for_times({part: NOW + 3})[part].offset)
    scene.note("ends", [reader.beginning_offsets([part])[part], reader.end_offsets([part])[part]])
    reader.close()


@scenario(CLIENT, "a group")
def group(scene: Scene) -> None:
    """Read, committed, taken up again by the next member."""
    make(scene, 3)
    writer = producer(scene)
    for each in range(9):
        writer.send(scene.topic, value=b"%d" % each, partition=each % 3).get(TIMEOUT_MS / 1000)
    reader = consumer(scene, group_id=scene.topic, client_id="one")
    reader.subscribe([scene.topic])
    scene.note("first", sorted(take(reader, 9), key=repr))
    reader.commit()
    boss = KafkaAdminClient(bootstrap_servers=scene.bootstrap)
    scene.note("described", boss.describe_groups([scene.topic]))
    reader.close()
    scene.note("after", boss.describe_groups([scene.topic]))
    for each in range(3):
        writer.send(scene.topic, value=b"later", partition=each).get(TIMEOUT_MS / 1000)
    reader = consumer(scene, group_id=scene.topic)
    reader.subscribe([scene.topic])
    scene.note("second", sorted(take(reader, 3), key=repr))
    scene.note("committed", [reader.committed(TopicPartition(scene.topic, each)) for each in range(3)])
    for each in (reader, writer, boss):
        each.close()


@scenario(CLIENT, "transactions")
def transactions(scene: Scene) -> None:
    make(scene)
    writer = producer(scene, transactional_id=scene.topic)
    writer.init_transactions()
    for number in range(4):
        writer.begin_transaction()
        for each in range(3):
            writer.send(scene.topic, value=b"%d-%d" % (number, each))
        writer.flush()  # an abort drops what was not sent
        part = TopicPartition(scene.topic, 0)
        writer.send_offsets_to_transaction({part: OffsetAndMetadata(number, "", -1)}, f"{scene.topic}-group")
        if number % 2:
            writer.abort_transaction()
        else:
            writer.commit_transaction()
    for isolation, count in (("read_committed", 6), ("read_uncommitted", 12)):
        reader = consumer(scene, isolation_level=isolation, group_id=f"{scene.topic}-group")
        reader.assign([part])
        reader.seek_to_beginning()
        scene.note(isolation, take(reader, count))
        scene.note(f"{isolation} end", reader.end_offsets([part])[part])
        scene.note(f"{isolation} committed", reader.committed(part))
        reader.close()
    second = producer(scene, transactional_id=scene.topic)
    second.init_transactions()
    writer.begin_transaction()
    fenced = writer.send(scene.topic, value=b"never")
    scene.note("fenced", outcome(lambda: fenced.get(TIMEOUT_MS / 1000)))
    second.close()
    writer.close(1)


@scenario(CLIENT, "admin")
def administration(scene: Scene) -> None:
    boss = KafkaAdminClient(bootstrap_servers=scene.bootstrap)
    scene.note("made", outcome(lambda: boss.create_topics([NewTopic(scene.topic, 2, 1)])))
    scene.note("again", outcome(lambda: boss.create_topics([NewTopic(scene.topic, 2, 1)])))
    scene.note("bad name", outcome(lambda: boss.create_topics([NewTopic("no/such", 2, 1)])))
    scene.note("partitions", outcome(lambda: boss.create_partitions({scene.topic: NewPartitions(4)})))
    scene.note("topic", scene.until(lambda: boss.describe_topics([scene.topic]), "'partition_index': 3"))
    topic = ConfigResource(ConfigResourceType.TOPIC, scene.topic, configs={"retention.ms": "1234567"})
    scene.note("config", outcome(lambda: boss.alter_configs([topic])))
    resource = ConfigResource(ConfigResourceType.TOPIC, scene.topic)
    scene.note("configs", scene.until(lambda: boss.describe_configs([resource]), "1234567"))
    writer = producer(scene)
    for each in range(5):
        writer.send(scene.topic, value=b"%d" % each, partition=0).get(TIMEOUT_MS / 1000)
    writer.close()
    part = TopicPartition(scene.topic, 0)
    scene.note("deleted", outcome(lambda: boss.delete_records({part: 2})))
    scene.note("log dirs", boss.describe_log_dirs({scene.topic: [0, 1, 2, 3]}))
    elected = boss.elect_leaders(ElectionType.PREFERRED, {scene.topic: [0]})
    scene.note("elected", elected.replica_election_results[0].partition_result[0].error_code)
    scene.note("reassignments", outcome(lambda: boss.list_partition_reassignments()))
    scene.note("producers", outcome(lambda: boss.describe_producers([TopicPartition(scene.topic, 1)])))
    scene.note("cluster", outcome(boss.describe_cluster))
    scene.note("features", sorted(outcome(boss.describe_features)))
    offsets = {part: OffsetAndMetadata(3, "m", -1)}
    scene.note("offsets set", outcome(lambda: boss.alter_group_offsets(scene.topic, offsets)))
    scene.note("offsets", outcome(lambda: boss.list_group_offsets(scene.topic)))
    scene.note("offsets gone", outcome(lambda: boss.delete_group_offsets(scene.topic, [part])))
    scene.note("groups", [each for each in boss.list_groups() if scene.topic in str(each)])
    scene.note("group deleted", outcome(lambda: boss.delete_groups([scene.topic])))
    scene.note("topic deleted", outcome(lambda: boss.delete_topics([scene.topic])))
    boss.close()
