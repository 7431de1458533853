"""Idempotent and transactional producers on a real cluster, with lost responses and killed leaders.

Scenarios 38 to 40 and 42 of RELIABILITY 1.8, with a network that loses responses of executed requests.
"""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import headrace
import pytest
from headrace import NewTopic, TopicPartition
from headrace.clients.cluster.hub_io import Hub
from headrace.clients.cluster.network_io import ZmqNetwork
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.runtime.clock_io import monotonic_ms
from markers import until_markers_are_written
from reading import to_the_end
from waiting import wait_for

LOSABLE = (registry.PRODUCE, registry.END_TXN, registry.TXN_OFFSET_COMMIT, registry.INIT_PRODUCER_ID)


class LossyNetwork(ZmqNetwork):
    """Loses a share of the responses: the request was executed, and the connection is closed."""

    def __init__(self, config: Any, random: Random, share: float) -> None:
        super().__init__(config, monotonic_ms, random)
        self._loss, self._share, self.lost = random, share, 0

    async def request(self, address: Any, api: Any, body: Any, frames: Any = (), **facts: Any) -> Any:
        reply = await super().request(address, api, body, frames, **facts)
        if api in LOSABLE and self._loss.random() < self._share:
            self.lost += 1
            self.drop(address)
            raise errors.NetworkError("the response was lost")
        return reply

    def submit(self, *_args: Any, **_facts: Any) -> None:
        """Not used: clients fall back to `request`."""


class Lossy:
    """Clients over such networks."""

    def __init__(self, bootstrap: str, share: float = 0.3) -> None:
        self.networks: list[LossyNetwork] = []
        self._share = share
        self.clients = Cluster(bootstrap, make_hub=self._make_hub)

    def _make_hub(self, bootstrap: str | None, config: Any) -> Hub:
        random = Random(len(self.networks))
        self.networks.append(LossyNetwork(config, random, self._share))
        return Hub(self.networks[-1], bootstrap, config, random=random)

    @property
    def lost(self) -> int:
        return sum(network.lost for network in self.networks)

    def __enter__(self) -> Lossy:
        return self

    def __exit__(self, *_: object) -> None:
        self.clients.close()


def read(clients: Any, topic: str, partition: int = 0, **options: Any) -> list[Any]:
    """All records of a partition, after all markers are written."""
    until_markers_are_written(clients)
    with clients.consumer(auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        return to_the_end(consumer)


def are_in_sync(admin: Any, topic: str) -> bool:
    return all(len(each.isr) == 3 for each in admin.describe_topics(topic)[topic].partitions)


def test_s38_lost_responses_cause_no_duplicates() -> None:
    """Three responses in ten are lost: each record is stored once, in order, at the offset of its future."""
    with headrace.local(nodes=1) as cluster, Lossy(cluster.bootstrap) as lossy:
        lossy.clients.admin().create_topics(NewTopic("t", partitions=2)).raise_for_errors()
        producer = lossy.clients.producer(batch_size=1, linger_ms=0, retry_backoff_ms=5)
        sent: dict[int, list[Any]] = {0: [], 1: []}
        for number in range(20_000):  # the number of requests depends on the machine
            if number >= 600 and lossy.lost > 20:
                break
            future = producer.send("t", b"%d" % number, partition=number % 2)
            sent[number % 2].append((b"%d" % number, future))
            if number >= 20:  # at most three batches of a partition in flight
                sent[number % 2][-3][1].result(60)
        producer.flush(60)
        assert lossy.lost > 10
        assert producer.metrics()["producer-epoch-bump-total"] == 0
        for partition, outcomes in sent.items():
            records = read(lossy.clients, "t", partition)
            assert [record.value for record in records] == [value for value, _ in outcomes]
            assert [record.offset for record in records] == [f.result(1).offset for _, f in outcomes]


def test_s39_next_leader_recognizes_retries() -> None:
    """Leaders are killed under load, and responses are lost: still one copy each, in order."""
    with headrace.local(nodes=3) as cluster, Lossy(cluster.bootstrap, 0.1) as lossy:
        topic = NewTopic("t", partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"})
        admin = lossy.clients.admin()
        admin.create_topics(topic).raise_for_errors()
        producer = lossy.clients.producer(batch_size=1, linger_ms=0, retry_backoff_ms=5)
        numbers = itertools.count()
        futures = []

        def send(count: int) -> None:
            for number in itertools.islice(numbers, count):
                futures.append(producer.send("t", b"%d" % number, partition=0))

        for _ in range(3):
            send(200)
            leader = admin.describe_topics("t")["t"].partitions[0].leader
            cluster.kill_node(leader - 1)
            send(200)
            wait_for(lambda: futures[-1].done(), "another leader acknowledges")
            cluster.restart_node(leader - 1)
            wait_for(lambda: are_in_sync(admin, "t"), "all are in sync")
        producer.flush(60)
        offsets = [future.result(1).offset for future in futures]
        records = read(lossy.clients, "t")
        assert [record.value for record in records] == [b"%d" % number for number in range(len(futures))]
        assert [record.offset for record in records] == offsets


def test_s40_sequence_after_an_abort_is_no_duplicate() -> None:
    """The same bytes after the abort are stored, and committed."""
    with headrace.local(nodes=1) as cluster, headrace.connect(cluster.bootstrap) as clients:
        clients.admin().create_topics(NewTopic("t")).raise_for_errors()
        producer = clients.producer(transactional_id="me")
        for round_number in range(5):
            producer.begin_transaction()
            producer.send("t", b"%d" % round_number).result(60)
            producer.abort_transaction()
            with producer.transaction() as txn:
                txn.send("t", b"%d" % round_number)
        committed = read(clients, "t", isolation_level="read_committed")
        assert [record.value for record in committed] == [b"%d" % number for number in range(5)]
        assert len(read(clients, "t")) == 10


def test_s42_zombie_is_fenced() -> None:
    """By the next producer with its id, which aborts the open transaction."""
    with headrace.local(nodes=1) as cluster, headrace.connect(cluster.bootstrap) as clients:
        clients.admin().create_topics(NewTopic("t")).raise_for_errors()
        old, new = (clients.producer(transactional_id="me") for _ in range(2))
        old.begin_transaction()
        old.send("t", b"old").result(60)
        with new.transaction() as txn:
            txn.send("t", b"new")
        with pytest.raises(errors.KafkaError):
            old.send("t", b"older").result(60)
        with pytest.raises(errors.ProducerFencedError, match="close this one"):
            old.abort_transaction()
        with pytest.raises(errors.ProducerFencedError):
            old.begin_transaction()
        committed = read(clients, "t", isolation_level="read_committed")
        assert [record.value for record in committed] == [b"new"]


def test_transactions_with_lost_responses_are_atomic() -> None:
    """Commits and aborts in turn, three responses in ten lost, with offsets."""
    with headrace.local(nodes=1) as cluster, Lossy(cluster.bootstrap) as lossy:
        clients = lossy.clients
        clients.admin().create_topics(NewTopic("t", partitions=2)).raise_for_errors()
        producer = clients.producer(transactional_id="me", retry_backoff_ms=5)
        expected: dict[int, list[bytes]] = {0: [], 1: []}
        for number in range(30):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("t", b"%d" % number, partition=partition)
            if number % 3:
                producer.commit_transaction()
                for partition in (0, 1):
                    expected[partition].append(b"%d" % number)
            else:
                producer.abort_transaction()
        assert lossy.lost > 3
        for partition, values in expected.items():
            records = read(clients, "t", partition, isolation_level="read_committed")
            assert [record.value for record in records] == values


def test_copy_loop_is_exactly_once_through_aborts() -> None:
    """Consume, transform, produce: the offsets of the group advance with committed transactions only."""
    with headrace.local(nodes=1) as cluster, headrace.connect(cluster.bootstrap) as clients:
        clients.admin().create_topics(NewTopic("in"), NewTopic("out")).raise_for_errors()
        clients.producer().send_many("in", [b"%d" % number for number in range(100)]).results(20)
        random = Random(1)
        copied = 0
        while copied < 100:
            consumer = clients.consumer(
                "in", group="g", auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=10
            )
            producer = clients.producer(transactional_id="copier")
            for _ in range(3):
                records = consumer.poll(5)
                if not records:
                    break
                producer.begin_transaction()
                for record in records:
                    producer.send("out", record.value)
                offset = records[-1].offset + 1
                metadata = consumer.group_metadata()
                producer.send_offsets_to_transaction({TopicPartition("in", 0): offset}, metadata)
                if random.random() < 0.4:
                    producer.abort_transaction()
                    break
                producer.commit_transaction()
                copied = offset
            producer.close()
            consumer.close()
        values = [record.value for record in read(clients, "out", isolation_level="read_committed")]
        assert values == [b"%d" % number for number in range(100)]


def test_transactions_continue_through_killed_nodes() -> None:
    """Leaders and coordinators are killed in turn: committed records are stored once and in order."""
    with headrace.local(nodes=3) as cluster, headrace.connect(cluster.bootstrap) as clients:
        topic = NewTopic("t", partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})
        admin = clients.admin()
        admin.create_topics(topic).raise_for_errors()
        producer = clients.producer(transactional_id="me", linger_ms=1)
        expected: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        for number in range(12):
            if number % 3 == 1:
                cluster.kill_node(number // 3 % 3)
            sent = [(each % 3, b"%d/%d" % (number, each)) for each in range(60)]
            while True:
                producer.begin_transaction()
                for partition, value in sent:
                    producer.send("t", value, partition=partition)
                try:
                    producer.commit_transaction()
                    break
                except errors.TransactionAbortableError:
                    producer.abort_transaction()
            for partition, value in sent:
                expected[partition].append(value)
            if number % 3 == 1:
                cluster.restart_node(number // 3 % 3)
                wait_for(lambda: are_in_sync(admin, "t"), "all are in sync")
        for partition, values in expected.items():
            records = read(clients, "t", partition, isolation_level="read_committed")
            assert [record.value for record in records] == values
