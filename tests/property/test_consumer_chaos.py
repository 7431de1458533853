"""Consumers over a cluster with all kinds of faults: from its last position each consumer reads every record
once and in order.

The oracle is the history checker; the log is in the fake cluster.
"""

import asyncio
from random import Random
from typing import Any

import pytest
import virtual_loop
from fake_cluster import Ask, FakeCluster, Fault
from headrace.clients.aio.cluster_io import AsyncCluster
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition
from history import History, Process

PARTITION_ERRORS = [
    errors.LeaderNotAvailableError.code,
    errors.NotLeaderOrFollowerError.code,
    errors.FencedLeaderEpochError.code,
    errors.UnknownLeaderEpochError.code,
    errors.KafkaStorageError.code,
    errors.UnknownTopicIdError.code,
]
RECORDS = 600


def chaos(random: Random) -> Any:
    """A rule by which one request in three fails in a random way."""

    def rule(ask: Ask) -> Fault | None:
        if random.random() > 0.33:
            return Fault(delay_ms=random.randrange(30))
        return random.choice(
            [
                Fault(lost_request=True),
                Fault(lost_reply=True),
                Fault(silent=True),
                Fault(partition_error=random.choice(PARTITION_ERRORS)),
                Fault(error=errors.ThrottlingQuotaExceededError("busy")),
                Fault(delay_ms=random.randrange(400)),
            ]
        )

    return rule


class Play:
    """One run: a producer, moving leaders, stopped nodes, and consumers that seek and pause."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fake = FakeCluster(3, seed=seed)
        self.fake.create("t", 3)
        self.fake.rules.append(chaos(self.random))
        self.history = History()
        self.is_written = False

    async def run(self) -> None:
        config = {
            "auto_offset_reset": "earliest",
            "max_partition_fetch_bytes": self.random.choice([1, 300, 100_000]),
            "fetch_max_bytes": self.random.choice([1024, 2000, 1 << 20]),
            "fetch_max_wait_ms": self.random.choice([0, 20, 500]),
            "request_timeout_ms": self.random.choice([1000, 10_000]),  # or the leader changes first
        }
        bootstrap = "node0:9000,node1:9001,node2:9002"
        async with AsyncCluster(bootstrap, make_hub=self.fake.make_hub, config=config) as cluster:
            readers = [asyncio.create_task(self.read(cluster, f"r{number}")) for number in range(3)]
            await self.write()
            async with asyncio.timeout(600):
                await asyncio.gather(*readers)

    async def write(self) -> None:
        """Produce batches; in between leaders move, nodes stop and start, partitions are added."""
        writer, random, fake = self.history.process("writer"), self.random, self.fake
        topic, number = fake.topics["t"], 0
        while number < RECORDS:
            partition = random.randrange(len(topic.partitions))
            values = [b"%05d" % (number + index) for index in range(random.randrange(1, 12))]
            number += len(values)
            base = fake.put("t", partition, *values)
            for index, value in enumerate(values):
                writer.send(partition, value).ok(base + index)
            await asyncio.sleep(random.choice([0, 0, 0.01, 0.3]))
            dice = random.random()
            if dice < 0.15:
                fake.move_leader("t", random.randrange(len(topic.partitions)), random.randrange(3))
            elif dice < 0.2:
                node_id = random.randrange(3)
                fake.stop_node(node_id)
                await asyncio.sleep(random.uniform(0.05, 1.5))
                fake.start_node(node_id)
            elif dice < 0.22 and len(topic.partitions) < 5:
                fake.grow("t", len(topic.partitions) + 1)
        self.is_written = True

    async def read(self, cluster: Any, name: str) -> None:
        process, random = self.history.process(name), Random(self.random.random())
        async with cluster.consumer("t") as consumer:
            while not await self.is_done(cluster, consumer):
                for _ in range(random.randrange(1, 20)):
                    note(process, await consumer.poll(random.choice([0, 0.05]), random.choice([1, 3, 500])))
                if not self.is_written:
                    await self.jump(consumer, process, random)
                await consumer.resume() if random.random() < 0.5 or self.is_written else None

    async def jump(self, consumer: Any, process: Process, random: Random) -> None:
        """Seek, pause, or iterate for a while."""
        assigned = await consumer.assignment(60)
        tp, dice = random.choice(assigned), random.random()
        if dice < 0.3:
            end = self.fake.topics["t"].partitions[tp.partition].end_offset
            await consumer.seek(tp, random.randrange(end + 1))
            process.move(tp.partition)
        elif dice < 0.4:
            await consumer.seek_to_beginning(tp)
            process.move(tp.partition)
        elif dice < 0.7:
            await consumer.pause(*random.sample(assigned, 2))

    async def is_done(self, cluster: Any, consumer: Any) -> bool:
        """Whether all records are read, also of new partitions."""
        if not self.is_written:
            return False
        parts = self.fake.topics["t"].partitions
        cluster.io.hub.metadata.refresh_soon()
        assigned = await consumer.assignment(60)
        if len(assigned) < len(parts):
            return False
        for number, part in enumerate(parts):
            if await consumer.position(TopicPartition("t", number), 60) < part.end_offset:
                return False
        return True


def note(process: Process, records: list[Any]) -> None:
    """Add the records of one poll to the history."""
    by_partition: dict[int, list[tuple[int, bytes]]] = {}
    for record in records:
        by_partition.setdefault(record.partition, []).append((record.offset, record.value))
    for partition, reads in by_partition.items():
        process.poll(partition, reads)


@pytest.mark.parametrize("seed", range(12))
def test_every_record_is_read_once_and_in_order(seed: int) -> None:
    """600 records on 3 to 5 partitions of 3 nodes under constant faults; a final consumer reads them all."""
    play = Play(seed)
    virtual_loop.run(play.run())
    final = play.history.process("final")
    for number, part in enumerate(play.fake.topics["t"].partitions):
        final.poll(number, [(record.offset, record.value) for record in part.records()])
    assert play.history.anomalies() == {}
    for process in play.history.processes[1:-1]:
        assert sum(len(poll.reads) for poll in process.polls) > RECORDS / 3, (
            "the consumer read too few records"
        )
