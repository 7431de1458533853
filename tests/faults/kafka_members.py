"""Group members of Kafka's clients, each in a thread: they read, commit, and record both."""

import asyncio
from collections import defaultdict
from typing import Any, ClassVar

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition
from kafka_load import silent
from worker_thread import WorkerThread

POLL_S = 0.2
SESSION_MS = 6_000
END_S = 60.0


class Member(WorkerThread):
    """`seen`: the values that it read; `committed`: the acknowledged next offset of each partition."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__()
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.seen: list[bytes] = []
        self.committed: dict[int, int] = defaultdict(int)
        self.commits = 0

    def leave(self) -> None:
        """Leave the group. Fails with the thread's error."""
        self.end(END_S)

    def took(self, places: dict[int, int]) -> None:
        """The commit of these offsets was acknowledged."""
        self.commits += 1
        for partition, offset in places.items():
            self.committed[partition] = max(offset, self.committed[partition])


class LibrdkafkaMember(Member):
    """A member of a classic group, by confluent-kafka."""

    options: ClassVar[dict[str, Any]] = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500}

    def work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 500,
                **self.options,
            },
            logger=silent(),
        )
        consumer.subscribe([self.topic])
        while not self.stopping.is_set():
            places: dict[int, int] = {}
            for message in consumer.consume(200, POLL_S):
                error = message.error()
                if error is None:
                    self.seen.append(message.value())
                    places[message.partition()] = message.offset() + 1
                else:
                    assert not error.fatal(), error
            if places:
                self._commit(consumer, places)
        consumer.close()

    def _commit(self, consumer: Consumer, places: dict[int, int]) -> None:
        wanted = [TopicPartition(self.topic, partition, offset) for partition, offset in places.items()]
        try:
            done = consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException:
            return  # reassigned to another member, or no response: the records are read again
        self.took({each.partition: each.offset for each in done if each.error is None})


class NewLibrdkafkaMember(LibrdkafkaMember):
    """A member of a group of the new protocol, by confluent-kafka."""

    options: ClassVar[dict[str, Any]] = {"group.protocol": "consumer"}


class KafkaPythonMember(Member):
    """A member of a classic group, by kafka-python."""

    def work(self) -> None:
        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=2_000,
        )
        while not self.stopping.is_set():
            places: dict[int, int] = {}
            for tp, records in consumer.poll(timeout_ms=int(POLL_S * 1000)).items():
                self.seen += [record.value for record in records]
                places[tp.partition] = records[-1].offset + 1
            if places:
                wanted = {
                    PythonPartition(self.topic, partition): OffsetAndMetadata(offset, "", -1)
                    for partition, offset in places.items()
                }
                try:
                    consumer.commit(wanted, timeout_ms=5_000)
                except Exception:  # noqa: BLE001 - as above
                    continue
                self.took(places)
        consumer.close(timeout_ms=5_000)


class AioKafkaMember(Member):
    """A member of a classic group, by aiokafka."""

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=2_000,
        )
        await consumer.start()
        while not self.stopping.is_set():
            places: dict[int, int] = {}
            for tp, records in (await consumer.getmany(timeout_ms=int(POLL_S * 1000))).items():
                self.seen += [record.value for record in records]
                places[tp.partition] = records[-1].offset + 1
            if places:
                wanted = {AioPartition(self.topic, partition): offset for partition, offset in places.items()}
                try:
                    async with asyncio.timeout(5):
                        await consumer.commit(wanted)
                except Exception:  # noqa: BLE001 - as above
                    continue
                self.took(places)
        await consumer.stop()


KINDS = (LibrdkafkaMember, NewLibrdkafkaMember, KafkaPythonMember, AioKafkaMember)


def committed_of(bootstrap: str, topic: str, group: str, partitions: int) -> dict[int, int]:
    """The committed offsets of the group, from its coordinator."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group}, logger=silent())
    try:
        for _ in range(30):
            try:
                found = consumer.committed([TopicPartition(topic, each) for each in range(partitions)], 10)
            except KafkaException as error:
                if error.args[0].code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
                    continue
                raise
            return {each.partition: max(each.offset, 0) for each in found}
        raise AssertionError(f"no coordinator returns the committed offsets of {group}")
    finally:
        consumer.close()
