"""Kafka's admin clients: topics, configs, offsets, groups, transactions, log dirs, the cluster."""

from collections.abc import Iterator

import headrace
import kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
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
from headrace.services.local_io import LocalCluster
from kafka.admin import KafkaAdminClient
from kafka_clients import WAIT_S, confluent_consumer, confluent_producer, new_topic, produce, values_from


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes, so that half of all partitions and groups are at the other node."""
    with headrace.local(nodes=2, listeners="PLAINTEXT://127.0.0.1:0") as made:
        yield made
        assert [node["kafka"]["broken"] for node in made.status()["nodes"]] == [0, 0]


@pytest.fixture
def admin(cluster: LocalCluster) -> AdminClient:
    """librdkafka's."""
    return AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})


def test_topics_are_created_grown_and_deleted(admin: AdminClient) -> None:
    """With configs; invalid requests fail with their reason."""
    made = admin.create_topics(
        [NewTopic("admin", 2, 2, config={"retention.ms": "1000"}), NewTopic("bad name", 1)]
    )
    made["admin"].result(WAIT_S)
    with pytest.raises(Exception, match="only ASCII letters"):
        made["bad name"].result(WAIT_S)
    admin.create_partitions([NewPartitions("admin", 5)])["admin"].result(WAIT_S)
    topic = admin.list_topics("admin", WAIT_S).topics["admin"]
    assert len(topic.partitions) == 5
    assert sorted(topic.partitions[0].replicas) == [1, 2]
    admin.delete_topics(["admin"])["admin"].result(WAIT_S)
    assert "admin" not in admin.list_topics(timeout=WAIT_S).topics


def test_configs_are_changed_and_described(cluster: LocalCluster, admin: AdminClient) -> None:
    """Of a topic and of a node, with their source."""
    name = new_topic(cluster, "configs", 1)
    change = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])
    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result(WAIT_S)
    wanted = [ConfigResource(ResourceType.TOPIC, name), ConfigResource(ResourceType.BROKER, "2")]
    topic, node = [each.result(WAIT_S) for each in admin.describe_configs(wanted).values()]
    assert topic["retention.ms"].value == "5000"
    assert topic["segment.bytes"].is_default
    assert node["listeners"].value == "PLAINTEXT://127.0.0.1:0"
    assert node["log.dirs"].is_read_only


def test_offsets_are_listed_and_records_deleted(cluster: LocalCluster, admin: AdminClient) -> None:
    """By kind and by timestamp."""
    name = new_topic(cluster, "offsets", 1)
    produce(cluster, name, [b"a", b"b", b"c"])
    partition = TopicPartition(name, 0)

    def offset(spec: OffsetSpec) -> int:
        return int(admin.list_offsets({partition: spec})[partition].result(WAIT_S).offset)

    assert [offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())] == [0, 3]
    assert offset(OffsetSpec.for_timestamp(1)) == 0
    assert offset(OffsetSpec.max_timestamp()) in (0, 1, 2)
    until = TopicPartition(name, 0, 2)
    assert admin.delete_records([until])[until].result(WAIT_S).low_watermark == 2
    assert offset(OffsetSpec.earliest()) == 2


def test_groups_are_listed_described_and_deleted(cluster: LocalCluster, admin: AdminClient) -> None:
    """From all nodes; a group with members cannot be deleted."""
    name = new_topic(cluster, "grouped", 1)
    produce(cluster, name, [b"a", b"b"])
    names = [f"admin-{number}" for number in range(4)]
    for group in names:
        consumer = confluent_consumer(cluster, group)
        consumer.subscribe([name])
        values_from(consumer, 2)
        consumer.commit(asynchronous=False)
        if group == names[0]:
            (described,) = admin.describe_consumer_groups([group]).values()
            (member,) = described.result(WAIT_S).members
            assert len(member.assignment.topic_partitions) == 1
            assert member.host == "/127.0.0.1"
            with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
                admin.delete_consumer_groups([group])[group].result(WAIT_S)
        consumer.close()
    listed = admin.list_consumer_groups().result(WAIT_S)
    assert not listed.errors
    assert set(names) <= {group.group_id for group in listed.valid}
    wanted = ConsumerGroupTopicPartitions(names[1], [TopicPartition(name, 0)])
    (offsets,) = admin.list_consumer_group_offsets([wanted]).values()
    assert sum(each.offset for each in offsets.result(WAIT_S).topic_partitions) == 2
    moved = ConsumerGroupTopicPartitions(names[1], [TopicPartition(name, 0, 0)])
    (altered,) = admin.alter_consumer_group_offsets([moved]).values()
    altered.result(WAIT_S)
    for deleted in admin.delete_consumer_groups(names).values():
        deleted.result(WAIT_S)
    left = {group.group_id for group in admin.list_consumer_groups().result(WAIT_S).valid}
    assert not set(names) & left


def test_describe_cluster_returns_the_clients_listener(cluster: LocalCluster, admin: AdminClient) -> None:
    """Of each node."""
    described = admin.describe_cluster().result(WAIT_S)
    assert sorted(f"{node.host}:{node.port}" for node in described.nodes) == sorted(
        cluster.kafka_bootstrap.split(",")
    )
    assert described.cluster_id == cluster.status()["nodes"][0]["cluster_id"]


def test_kafka_python_administers_the_cluster(cluster: LocalCluster) -> None:
    """The newest versions of the protocol, log dirs and transactions among them."""
    name = new_topic(cluster, "python-admin", 2)
    producer = confluent_producer(cluster, transactional_id="seen")
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(name, b"x", partition=0)
    producer.flush(WAIT_S)
    admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
    try:
        assert name in admin.list_topics()
        (described,) = admin.describe_topics([name])
        assert len(described["partitions"]) == 2
        assert len(admin.describe_cluster()["brokers"]) == 2
        assert admin.describe_log_dirs()
    finally:
        producer.commit_transaction(WAIT_S)
        admin.close()


def test_producers_create_topics_automatically(cluster: LocalCluster) -> None:
    """As Kafka's default; consumers create none."""
    produce(cluster, "made-by-writing", [b"x"])
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.kafka_bootstrap, allow_auto_create_topics=False)
    assert consumer.partitions_for_topic("made-by-writing") == {0}
    assert not consumer.partitions_for_topic("never-made")
    assert "never-made" not in consumer.topics()
    consumer.close()
    with headrace.local(listeners="PLAINTEXT://127.0.0.1:0", auto_create_topics_enable=False) as strict:
        producer = kafka.KafkaProducer(bootstrap_servers=strict.kafka_bootstrap, max_block_ms=300)
        with pytest.raises(kafka.errors.KafkaTimeoutError):
            producer.send("none", b"x")
        producer.close()
