"""Clients of a cluster whose leaders lose the ends of their logs, with lagging followers.

The oracle: a consumer has read the records of the final log, and has re-read records only from an offset of
divergence; no record acknowledged with acks=all is lost, unless an election was unclean.
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

PARTITIONS = 2
LAST = b"the end"

Content = tuple[bytes, int]


def content_of(record: Any) -> Content:
    """The identity of a record at its offset: a truncated batch may be written there again."""
    return record.value, record.leader_epoch


def chaos(random: Random) -> Any:
    """A rule by which one request in five fails in a random way."""
    codes = (6, 19, 20, 74, 75, 78)

    def rule(ask: Ask) -> Fault | None:
        if random.random() > 0.2:
            return Fault(delay_ms=random.randrange(20))
        code = random.choice([code for code in codes if ask.api == "Produce" or code not in (19, 20)])
        return random.choice([Fault(lost_request=True), Fault(lost_reply=True), Fault(partition_error=code)])

    return rule


class View:
    """The log as one consumer has read it."""

    def __init__(self) -> None:
        self.read: dict[int, list[tuple[int, Content]]] = {number: [] for number in range(PARTITIONS)}
        self.went_back = 0

    def take(self, records: list[Any]) -> None:
        for record in records:
            seen = self.read[record.partition]
            kept = [pair for pair in seen if pair[0] < record.offset]
            if len(kept) < len(seen):
                self.went_back += 1
                old = dict(seen).get(record.offset)
                assert old != content_of(record), f"{record.offset} was read again without a truncation"
            expected = kept[-1][0] + 1 if kept else 0
            assert record.offset == expected, f"read {record.offset}, not {expected}"
            self.read[record.partition] = [*kept, (record.offset, content_of(record))]


class Play:
    """One run. `is_clean`: only records that were never acknowledged are lost."""

    def __init__(self, seed: int, *, is_clean: bool) -> None:
        self.random, self.is_clean = Random(f"{seed} {is_clean}"), is_clean
        self.fake = FakeCluster(3, seed=seed)
        self.fake.racks = {0: "a", 1: "b", 2: "c"}
        self.fake.create("t", PARTITIONS)
        self.fake.rules.append(chaos(self.random))
        self.sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.futures: list[tuple[bytes, Any]] = []
        self.views: list[View] = []
        self.is_written = False

    async def run(self) -> None:
        config = {"request_timeout_ms": 1000, "metadata_max_age_ms": 3000}
        async with AsyncCluster(
            "node0:9000,node1:9001,node2:9002", make_hub=self.fake.make_hub, config=config
        ) as c:
            policies = ["earliest", "none", "earliest"]
            readers = [
                asyncio.create_task(self.read(c, *pair)) for pair in zip(policies, ("", "", "b"), strict=True)
            ]
            troubles = asyncio.create_task(self.elect())
            await self.write(c)
            troubles.cancel()
            await asyncio.gather(troubles, return_exceptions=True)
            for number, part in enumerate(self.fake.topics["t"].partitions):
                part.followers.clear()
                self.fake.put("t", number, LAST)  # a truncation is noticed with the next record
            self.is_written = True
            async with asyncio.timeout(600):
                await asyncio.gather(*readers)

    async def write(self, cluster: AsyncCluster) -> None:
        producer = cluster.producer(linger_ms=0, batch_size=self.random.choice([1, 200]))
        for number in range(250):
            partition, value = self.random.randrange(PARTITIONS), b"%04d" % number
            self.sent[partition].append(value)
            self.futures.append((value, producer.send("t", value, partition=partition)))
            await asyncio.sleep(self.random.choice([0, 0.01, 0.1]))
        await producer.flush()
        # Elections truncate records: their errors are expected, so `close` does not raise them.
        await asyncio.gather(*(future for _, future in self.futures), return_exceptions=True)

    async def elect(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.02, 0.6))
            number = self.random.randrange(PARTITIONS)
            part = self.fake.topics["t"].partitions[number]
            if self.random.random() < 0.5:
                least = part.acknowledged if self.is_clean else max(part.end_offset - 6, 0)
                cut = self.random.randrange(least, part.end_offset + 1)
                part.followers.clear()  # a follower serves nothing before it has truncated and caught up
                self.fake.elect_uncleanly("t", number, self.random.randrange(3), cut)
            else:
                node_id = self.random.randrange(3)
                if node_id != part.leader:
                    known = part.followers.get(node_id, 0)
                    part.followers[node_id] = self.random.randrange(known, part.end_offset + 1)

    async def read(self, cluster: AsyncCluster, policy: str, rack: str) -> None:
        view = View()
        self.views.append(view)
        consumer = cluster.consumer(
            auto_offset_reset=policy,
            client_rack=rack,
            max_partition_fetch_bytes=self.random.choice([1, 10_000]),
        )
        assigned = [TopicPartition("t", number) for number in range(PARTITIONS)]
        await consumer.assign(assigned)
        for tp in assigned:
            await consumer.seek(tp, 0)
        while not (self.is_written and self.has_all(view)):
            try:
                view.take(
                    await consumer.poll(self.random.choice([0, 0.05, 0.3]), self.random.choice([1, 500]))
                )
            except errors.LogTruncationError as error:
                assert policy == "none"
                tp = TopicPartition(error.topic, error.partition)
                await consumer.seek(tp, error.divergent_offset)
            await asyncio.sleep(0.01)
        await consumer.close()

    def has_all(self, view: View) -> bool:
        parts = self.fake.topics["t"].partitions
        return all(view.read[n] == self.log(n) for n in range(PARTITIONS) if parts[n].end_offset)

    def log(self, number: int) -> list[tuple[int, Content]]:
        part = self.fake.topics["t"].partitions[number]
        return [(record.offset, content_of(record)) for record in part.records()]


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("is_clean", [True, False])
def test_consumers_never_read_a_mixed_log(seed: int, is_clean: bool) -> None:
    """250 records, elections that truncate logs, consumers by reset policy, by seek, and from a follower."""
    play = Play(seed, is_clean=is_clean)
    virtual_loop.run(play.run())
    if not is_clean:
        assert sum(view.went_back for view in play.views) > 5, "the run proves nothing"
        return
    for value, future in play.futures:
        response = future.result()
        assert dict(play.log(response.partition))[response.offset][0] == value, (
            "an acknowledged record is lost"
        )
    for number, values in play.sent.items():
        found = [value for _, (value, _) in play.log(number)]
        assert list(dict.fromkeys(found)) == [*values, LAST], (
            "a first copy came before that of an earlier record"
        )
