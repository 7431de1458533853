"""Client metrics subscriptions, quotas and features, with real Kafka clients."""

from collections.abc import Iterator
from typing import Any

import headrace
import pytest
from command_line import CommandLine
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as KafkaTopic
from headrace import ANY_NAME, Resource, errors, quota_entity
from headrace.runtime.waiting_io import until
from headrace.services.local_io import LocalCluster
from kafka.admin import KafkaAdminClient
from kafka_clients import WAIT_S, confluent_consumer, confluent_producer, new_topic


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One node with short quota windows."""
    with headrace.local(listeners="PLAINTEXT://127.0.0.1:0", quota_window_num=2) as made:
        yield made
        assert [node["kafka"]["broken"] for node in made.status()["nodes"]] == [0]


def test_librdkafka_pushes_its_metrics(cluster: LocalCluster, shell: CommandLine) -> None:
    """The node returns the subscribed metrics with the client id, until the client disconnects."""
    assert shell("client-metrics", "alter", "--name", "sub", "--metrics", "*", "--interval", "100",
        "--match", "client_id=metered.*")[0] == 0  # fmt: skip
    assert shell.json("client-metrics", "list") == [{"name": "sub"}]
    described = {"name": "sub", "metrics": "*", "interval.ms": "100", "match": "client_id=metered.*"}
    assert shell.json("client-metrics", "describe") == [described]

    def known() -> dict[str, Any]:
        found: dict[str, Any] = cluster.status()["nodes"][0]["kafka"]["client_metrics"]
        return found

    other = confluent_producer(cluster, client_id="other")
    metered = confluent_producer(cluster, client_id="metered-1")
    for producer in (other, metered):
        producer.produce("metered", b"v")
        assert producer.flush(WAIT_S) == 0
    until(lambda: known()["clients"], WAIT_S)
    (client,) = known()["clients"].values()
    assert (client["client_id"], client["client_software_name"]) == ("metered-1", "confluent-kafka-python")
    assert "org.apache.kafka.producer.connection.creation.total" in client["metrics"]
    with cluster.admin() as admin:
        assert Resource.client_metrics("sub") in admin.list_config_resources()
    del producer, metered, other
    until(lambda: known()["instance-count"] == 0, WAIT_S)
    assert known()["metric-count"] == 0
    assert shell("client-metrics", "delete", "--name", "sub")[0] == 0
    assert shell.json("client-metrics", "describe") == []


def test_quotas_throttle_clients(cluster: LocalCluster, shell: CommandLine) -> None:
    """librdkafka gets the throttle time; consumers get all records; other clients are not throttled."""
    topic = new_topic(cluster, "slow", 1)
    assert shell("quota", "alter", "--client", "slow", "--set", "producer_byte_rate=200000", "--set",
        "consumer_byte_rate=300000")[0] == 0  # fmt: skip
    assert (
        shell("quota", "alter", "--user-defaults", "--client", "slow", "--set", "request_percentage=900")[0]
        == 0
    )
    assert shell.json("quota", "describe", "--client", "slow") == [
        {"entity": "client-id slow", "quota": "consumer_byte_rate", "value": 300000.0},
        {"entity": "client-id slow", "quota": "producer_byte_rate", "value": 200000.0},
        {"entity": "client-id slow, user defaults", "quota": "request_percentage", "value": 900.0},
    ]
    throttled: list[int] = []

    def throttle(event: Any) -> None:
        throttled.append(round(event.throttle_time * 1000))

    values = [bytes([number]) * 30_000 for number in range(9)]

    def send(client_id: str) -> Producer:
        about = {"client.id": client_id, "linger.ms": 0, "batch.num.messages": 1, "throttle_cb": throttle}
        producer = Producer({"bootstrap.servers": cluster.kafka_bootstrap, **about})
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(WAIT_S) == 0
        return producer

    send("fast")
    assert throttled == []
    slow = send("slow")
    until(lambda: slow.poll(0) >= 0 and bool(throttled), WAIT_S)
    consumer = confluent_consumer(cluster, "slow", client_id="slow", fetch_max_bytes=1_000_000)
    consumer.subscribe([topic])
    got = [consumer.poll(WAIT_S).value() for _ in range(2 * len(values))]
    assert got == values * 2
    consumer.close()
    counts = cluster.status()["nodes"][0]["kafka"]["quotas"]["throttled"]
    assert counts["producer_byte_rate"] > 0
    assert counts["consumer_byte_rate"] > 0
    # the other listener has the same quotas and the same meters
    with headrace.connect(cluster.bootstrap, client_id="slow") as own:
        with own.producer(linger_ms=0) as sender:
            for value in values:
                sender.send(topic, value).result(WAIT_S)
        with own.consumer(topic, auto_offset_reset="earliest") as reader:
            found: list[bytes] = []
            until(lambda: found.extend(r.value for r in reader.poll(0.1)) or len(found) >= 27, WAIT_S)
    assert found == values * 3
    now = cluster.status()["nodes"][0]["kafka"]["quotas"]["throttled"]
    assert now["producer_byte_rate"] > counts["producer_byte_rate"]
    assert now["consumer_byte_rate"] > counts["consumer_byte_rate"]
    with cluster.admin() as admin:
        found = admin.describe_client_quotas({"client_id": "slow"})
        assert set(admin.describe_client_quotas({"user": ANY_NAME}, strict=True)) == set()
        assert quota_entity(client_id="slow", user=None) in found
        gone = {entity: dict.fromkeys(values) for entity, values in found.items()}
        assert not admin.alter_client_quotas(gone).errors
    assert shell.json("quota", "describe") == []


def test_mutation_quota_covers_both_planes(cluster: LocalCluster) -> None:
    """The controller charges the client on both: a quota used up on one refuses requests on the other."""
    entity = quota_entity(client_id="maker")
    with cluster.admin() as admin:
        assert not admin.alter_client_quotas({entity: {"controller_mutation_rate": 0.1}}).errors
    kafka = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap, "client.id": "maker"})
    (made,) = kafka.create_topics([KafkaTopic("rationed", 60)]).values()
    made.result(WAIT_S)
    with headrace.connect(cluster.bootstrap, client_id="maker") as own, own.admin() as admin:
        refused = admin.create_topics(headrace.NewTopic("refused", 1), timeout=WAIT_S)
        assert isinstance(refused.errors["refused"], errors.ThrottlingQuotaExceededError)
    with cluster.admin() as admin:
        assert "refused" not in admin.describe_topics()
        assert not admin.alter_client_quotas({entity: {"controller_mutation_rate": None}}).errors


def test_features_are_downgraded_and_upgraded(cluster: LocalCluster) -> None:
    """Clients see the finalized level; invalid updates fail with a reason."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.kafka_bootstrap)
    try:
        down = {"transaction.version": ("SAFE_DOWNGRADE", 1), "group.version": ("SAFE_DOWNGRADE", 0)}
        assert admin.update_features(down, validate_only=True) == dict.fromkeys(down, "OK")
        assert admin.describe_features()["transaction.version"]["finalized"] == (2, 2)
        assert admin.update_features(down) == dict.fromkeys(down, "OK")
        found = admin.describe_features()
        assert found["transaction.version"]["finalized"] == (1, 1)
        assert found["group.version"] == {"supported": (0, 1)}
        up = {"transaction.version": 2, "group.version": 1}
        with pytest.raises(Exception, match="level 9"):
            admin.update_features({**up, "metadata.version": 9})
        assert admin.update_features(up) == dict.fromkeys(up, "OK")
        assert admin.describe_features()["group.version"]["finalized"] == (1, 1)
    finally:
        admin.close()
