"""A consumer whose user polls, iterates, takes tables, seeks and pauses in any order, while the loop fetches
ahead with thread switches everywhere, faults, moving leaders and wakeups: each record comes in its turn."""

import contextlib
import itertools
import threading
from random import Random
from typing import Any

import pytest
from fake_cluster import Ask, FakeCluster, Fault
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol import errors
from headrace.protocol.model import TopicPartition

PARTITIONS, GROWN, RECORDS = 3, 5, 400
pytestmark = pytest.mark.usefixtures("switches_everywhere")

REFUSED = [errors.NotLeaderOrFollowerError.code, errors.LeaderNotAvailableError.code]


def troubles(random: Random) -> Any:
    """A rule that makes one fetch in four fail."""

    def rule(ask: Ask) -> Fault | None:
        if ask.api != "Fetch" or random.random() > 0.25:
            return None
        return random.choice(
            [Fault(lost_request=True), Fault(partition_error=random.choice(REFUSED)), Fault(delay_ms=2)]
        )

    return rule


def fill(fake: FakeCluster, random: Random, partition: int) -> None:
    """Batches of any size; each value says where it lies."""
    offset = 0
    while offset < RECORDS:
        count = min(random.choice([1, 3, 40, 200]), RECORDS - offset)
        values = [b"%d %d " % (partition, offset + index) + b"x" * 20 for index in range(count)]
        fake.put("t", partition, *values)
        offset += count


class Reader:
    """A user that knows which offset comes next."""

    def __init__(self, consumer: Any, random: Random) -> None:
        self.consumer, self.random = consumer, random
        self.expected: dict[int, int] = {}
        self.paused: set[TopicPartition] = set()

    def got(self, partition: int, offset: int, value: bytes) -> None:
        assert TopicPartition("t", partition) not in self.paused
        assert offset == self.expected.get(partition, 0), f"partition {partition}"
        assert value.startswith(b"%d %d " % (partition, offset))
        self.expected[partition] = offset + 1

    def poll(self) -> None:
        with contextlib.suppress(errors.WakeupError):
            for record in self.consumer.poll(0.005, max_records=self.random.choice([1, 7, 100, 1000])):
                self.got(record.partition, record.offset, record.value)

    def iterate(self) -> None:
        for record in itertools.islice(self.consumer, self.random.choice([1, 30, 300])):
            self.got(record.partition, record.offset, record.value)
            if self.random.random() < 0.01:
                self.move()

    def batches(self) -> None:
        for batch in itertools.islice(self.consumer.batches(50, 0.005), 2):
            for record in batch:
                self.got(record.partition, record.offset, record.value)
            self.move()

    def tables(self) -> None:
        rows = self.random.choice([1, 10, 150, 1000])
        for batch in itertools.islice(self.consumer.arrow_batches(rows, 0.005), self.random.choice([1, 3])):
            columns = [batch.column(name).to_pylist() for name in ("partition", "offset", "value")]
            for row in zip(*columns, strict=True):
                self.got(*row)
            self.move()

    def move(self) -> None:
        """Go elsewhere, pause, or only look."""
        tp = TopicPartition("t", self.random.randrange(PARTITIONS))
        way = self.random.random()
        if way < 0.2:
            self.expected[tp.partition] = self.random.randrange(RECORDS)
            self.consumer.seek(tp, self.expected[tp.partition])
        elif way < 0.4:
            self.consumer.pause(tp)
            self.paused.add(tp)
        elif way < 0.7:
            self.consumer.resume(tp)
            self.paused.discard(tp)
        assert self.consumer.position(tp) == self.expected.get(tp.partition, 0)

    def finish(self, total: int) -> None:
        """Read what is left, with whatever comes in between."""
        self.consumer.resume()
        self.paused.clear()
        while [self.expected.get(number, 0) for number in range(total)] != [RECORDS] * total:
            self.random.choice([self.poll, self.tables_in_full])()

    def tables_in_full(self) -> None:
        for batch in itertools.islice(self.consumer.arrow_batches(500, 0.005), 2):
            columns = [batch.column(name).to_pylist() for name in ("partition", "offset", "value")]
            for row in zip(*columns, strict=True):
                self.got(*row)


@pytest.mark.parametrize("seed", range(4))
def test_each_record_is_returned_in_order(seed: int) -> None:
    """After every step the position is the next unseen offset; in the end all records were returned."""
    fake, random = FakeCluster(2, latency_ms=0), Random(seed)
    fake.create("t", PARTITIONS)
    for partition in range(PARTITIONS):
        fill(fake, random, partition)
    fake.rules.append(troubles(Random(seed + 100)))
    is_over = threading.Event()
    with Cluster("node0:9000", make_hub=fake.make_hub, metadata_max_age_ms=50) as cluster:
        consumer = cluster.consumer(
            "t",
            auto_offset_reset="earliest",
            iter_timeout=0.05,
            max_partition_fetch_bytes=3000,
            fetch_max_bytes=12_000,
            fetch_max_wait_ms=5,
            retry_backoff_ms=1,
            retry_backoff_max_ms=5,
        )

        async def move_leader(partition: int, leader: int) -> None:
            if partition < len(fake.topics["t"].partitions):
                fake.move_leader("t", partition, leader)

        async def grow() -> None:
            fake.grow("t", GROWN)
            for partition in range(PARTITIONS, GROWN):
                fill(fake, random, partition)

        def disturb() -> None:
            mine = Random(seed + 200)
            while not is_over.wait(0.003):
                consumer.wakeup()
                consumer._io.call(move_leader(mine.randrange(GROWN), mine.randrange(2)))

        reader = Reader(consumer, random)
        disturbing = threading.Thread(target=disturb)
        disturbing.start()
        try:
            for step in range(150):
                random.choice([reader.poll, reader.iterate, reader.batches, reader.tables, reader.move])()
                if step == 75:
                    consumer._io.call(grow())
            reader.finish(GROWN)
        finally:
            is_over.set()
            disturbing.join()
        consumer._engine.buffer.fetcher.check()
        assert consumer.metrics()["bytes-buffered"] == 0
        assert set(consumer.lag().values()) == {0}
