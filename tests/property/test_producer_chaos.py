"""A producer over a cluster with all kinds of faults: no acknowledged record is lost, none is reordered.

The oracle: a partition has the sent records once and in order, and each acknowledged record at the offset of
its future; a failed record may be there or not. Without idempotence lost responses and timeouts may duplicate
records: then the first copies, and the last ones, are in order.
"""

import asyncio
import contextlib
from random import Random
from typing import Any

import pytest
import virtual_loop
from fake_cluster import Ask, FakeCluster, Fault
from headrace.clients.aio.cluster_io import AsyncCluster
from headrace.protocol import errors

RETRIABLE = [
    errors.NotEnoughReplicasError.code,
    errors.RequestTimedOutError.code,
    errors.LeaderNotAvailableError.code,
    errors.ThrottlingQuotaExceededError.code,
]


def chaos(random: Random, *, may_repeat: bool) -> Any:
    """A rule by which one request in three fails in a random way."""

    def rule(ask: Ask) -> Fault | None:
        if random.random() > 0.33:
            return Fault(delay_ms=random.randrange(30))
        kinds = [
            Fault(lost_request=True),
            Fault(partition_error=random.choice(RETRIABLE)),
            Fault(error=errors.ThrottlingQuotaExceededError("busy")),
            Fault(delay_ms=random.randrange(200)),
        ]
        if may_repeat and ask.api == "Produce":
            kinds += [Fault(lost_reply=True), Fault(silent=True)]
        return random.choice(kinds)

    return rule


async def upheaval(fake: FakeCluster, random: Random, may_repeat: bool) -> None:
    """Leaders move, and nodes stop (which may lose responses) and start, until it is cancelled."""
    while True:
        await asyncio.sleep(random.uniform(0.02, 0.4))
        if not may_repeat or random.random() < 0.5:
            fake.move_leader("t", random.randrange(4), random.randrange(3))
        else:
            node_id = random.randrange(3)
            fake.stop_node(node_id)
            await asyncio.sleep(random.uniform(0.05, 0.5))
            fake.start_node(node_id)


async def produce(
    fake: FakeCluster,
    random: Random,
    sent: dict[int, list[bytes]],
    acks: list[Any],
    *,
    may_repeat: bool,
    is_idempotent: bool = True,
) -> None:
    config = {
        "enable_idempotence": is_idempotent,
        "request_timeout_ms": random.choice([1000, 30_000]),  # or the leader changes first
        "linger_ms": random.choice([0, 5]),
        "batch_size": random.choice([100, 5000]),
    }
    async with AsyncCluster("node0:9000,node1:9001", make_hub=fake.make_hub) as cluster:
        producer = cluster.producer(**config)
        troubles = asyncio.create_task(upheaval(fake, random, may_repeat))
        for number in range(400):
            partition, value = random.randrange(4), b"%05d" % number
            sent[partition].append(value)
            # fixed timestamps: the machine's clock would change the sizes of records and batches
            acks.append((value, producer.send("t", value, partition=partition, timestamp=number)))
            if random.random() < 0.2:
                await asyncio.sleep(random.uniform(0, 0.05))
        await producer.flush()
        troubles.cancel()
        await asyncio.gather(troubles, return_exceptions=True)
        await asyncio.gather(*(future for _, future in acks), return_exceptions=True)
        assert_nothing_is_held(producer)


def assert_nothing_is_held(producer: Any) -> None:
    """The producer holds no memory once every record has its outcome."""
    accumulator = producer._engine._accumulator
    accumulator.check()
    assert accumulator.used_bytes == 0
    assert not accumulator.live
    assert not accumulator.ready
    assert accumulator.waiting_for_memory == 0


async def produce_in_need(fake: FakeCluster, random: Random, outcomes: list[Any]) -> bool:
    """Produce with short deadlines, few retries, a small buffer; returns whether it was idempotent."""
    config = {
        "acks": random.choice(["all", "all", "1", "0"]),
        "retries": random.choice([0, 1, 5, 1000]),
        "delivery_timeout_ms": random.choice([700, 2000]),
        "request_timeout_ms": 600,
        "linger_ms": random.choice([0, 30]),
        "batch_size": random.choice([100, 2000]),
        "buffer_memory": random.choice([5000, 1 << 20]),
        "max_block_ms": 3000,
    }
    config["enable_idempotence"] = config["acks"] == "all" and config["retries"] > 0 and random.random() < 0.8
    loop = asyncio.get_running_loop()
    async with AsyncCluster("node0:9000,node1:9001", make_hub=fake.make_hub) as cluster:
        producer = cluster.producer(**config)
        troubles = asyncio.create_task(upheaval(fake, random, may_repeat=True))
        for number in range(300):
            fake.topics["t"].max_message_bytes = random.choice([90, 150, 400, 1 << 20])
            partition, value = random.randrange(4), b"%05d" % number + b"x" * random.choice([0, 20, 200])
            entered = loop.time()
            try:
                future = producer.send("t", value, partition=partition)
            except errors.BufferExhaustedError:
                continue
            outcome = {"partition": partition, "value": value, "future": future, "took_s": None}
            future.add_done_callback(
                lambda _, outcome=outcome, entered=entered: outcome.update(took_s=loop.time() - entered)
            )
            outcomes.append(outcome)
            if random.random() < 0.3:
                await asyncio.sleep(random.uniform(0, 0.1))
        if random.random() < 0.5:
            await producer.flush()
        troubles.cancel()
        await asyncio.gather(troubles, return_exceptions=True)
        engine = producer._engine
        # The futures are checked below; another test checks that close raises their errors.
        with contextlib.suppress(errors.HeadraceError):
            await producer.close(random.choice([None, 0, 0.2]))
        assert engine._accumulator.used_bytes == 0
        await asyncio.gather(*(outcome["future"] for outcome in outcomes), return_exceptions=True)
        await asyncio.sleep(0)  # from Python 3.12 on, gather does not wait for callbacks of completed futures
        limit_s = (config["delivery_timeout_ms"] + config["max_block_ms"]) / 1000 + 0.05
        for outcome in outcomes:
            assert outcome["took_s"] is not None
            assert outcome["took_s"] < limit_s, "the record exceeded its delivery timeout"
        return producer.config.is_idempotent


@pytest.mark.parametrize("seed", range(30))
def test_every_record_has_its_outcome_in_time_and_nothing_leaks(seed: int) -> None:
    """Deadlines expire, batches are split, buffers are full, the producer closes meanwhile: acknowledged
    records are stored, and first copies are in order."""
    random = Random(f"need {seed}")
    fake = FakeCluster(3, seed=seed)
    fake.create("t", 4)
    fake.rules.append(chaos(random, may_repeat=True))
    outcomes: list[Any] = []
    is_idempotent = virtual_loop.run(produce_in_need(fake, random, outcomes))
    order: dict[int, list[bytes]] = {partition: [] for partition in range(4)}
    for outcome in outcomes:
        future, found = outcome["future"], fake.topics["t"].partitions[outcome["partition"]].records()
        order[outcome["partition"]].append(outcome["value"])
        if future.exception() is None:
            offset = future.result().offset
            assert offset < 0 or found[offset].value == outcome["value"]
    for partition, values in order.items():
        stored = fake.values("t", partition)
        found_values = list(dict.fromkeys(stored))
        assert found_values == [value for value in values if value in set(found_values)]
        if is_idempotent:
            assert stored == found_values, "stored twice"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("may_repeat", [False, True])
@pytest.mark.parametrize("is_idempotent", [False, True])
def test_nothing_acknowledged_is_lost_and_order_holds(
    seed: int, may_repeat: bool, is_idempotent: bool
) -> None:
    """400 records to 4 partitions on 3 nodes under constant faults, all delivered in the end."""
    random = Random(f"{seed} {may_repeat}")
    fake = FakeCluster(3, seed=seed)
    fake.create("t", 4)
    fake.rules.append(chaos(random, may_repeat=may_repeat))
    sent: dict[int, list[bytes]] = {partition: [] for partition in range(4)}
    acks: list[Any] = []
    virtual_loop.run(produce(fake, random, sent, acks, may_repeat=may_repeat, is_idempotent=is_idempotent))
    lost = set()
    for value, future in acks:
        if isinstance(future.exception(), errors.OutOfOrderSequenceNumberError):
            assert is_idempotent, "an unknown outcome without a retry"
            lost.add(value)
            continue
        metadata = future.result()
        records = fake.topics["t"].partitions[metadata.partition].records()
        assert records[metadata.offset].value == value
    for partition, values in sent.items():
        found = fake.values("t", partition)
        values = [value for value in values if value not in lost or value in found]
        if is_idempotent or not may_repeat:
            assert found == values
        assert list(dict.fromkeys(found)) == values, "a first copy came before that of an earlier record"
        last_copies = list(dict.fromkeys(reversed(found)))[::-1]
        assert last_copies == values, "a last copy came before that of an earlier record"


def test_seed_determines_the_run() -> None:
    """Determinism: two runs leave the same log, byte for byte."""
    logs = []
    for _ in range(2):
        random, fake = Random(5), FakeCluster(3, seed=5)
        fake.create("t", 4)
        fake.rules.append(chaos(random, may_repeat=True))
        sent: dict[int, list[bytes]] = {partition: [] for partition in range(4)}
        virtual_loop.run(produce(fake, random, sent, [], may_repeat=True))
        logs.append([[fake.values("t", partition)] for partition in range(4)])
    assert logs[0] == logs[1]
