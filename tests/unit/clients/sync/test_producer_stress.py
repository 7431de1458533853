"""Many threads on the compiled way and the locked one at once, thread switches everywhere, and a cluster that
refuses, loses and splits: each record's outcome is what the cluster stored."""

import contextlib
import sys
import threading
import tracemalloc
from random import Random
from typing import Any

import pytest
from fake_cluster import Ask, FakeCluster, Fault
from headrace.clients.records import ProducerRecord
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol import errors

THREADS, RECORDS = 4, 500
pytestmark = pytest.mark.usefixtures("switches_everywhere")

REFUSED = [errors.NotEnoughReplicasError.code, errors.LeaderNotAvailableError.code]


def troubles(random: Random, *, may_repeat: bool) -> Any:
    """A rule that makes one request in three fail; without `may_repeat` only before it is executed."""

    def rule(ask: Ask) -> Fault | None:
        if ask.api != "Produce" or random.random() > 0.33:
            return None
        faults = [Fault(lost_request=True), Fault(partition_error=random.choice(REFUSED)), Fault(delay_ms=3)]
        if may_repeat:
            faults += [Fault(lost_reply=True), Fault(silent=True)]
        return random.choice(faults)

    return rule


def send_all(producer: Any, number: int, reported: list[tuple[bytes, Any]]) -> None:
    """One thread's records, by every way there is, in order."""
    random, index = Random(number), 0

    def value() -> bytes:
        nonlocal index
        index += 1
        return b"%d %05d " % (number, index) + b"x" * random.choice([0, 10, 10, 300])

    while index < RECORDS:
        data, way = value(), random.random()
        try:
            if way < 0.5:
                reported.append((data, producer.send("t", data)))
            elif way < 0.7:
                reported.append((data, producer.send("t", data, key=b"%d" % random.randrange(50))))
            elif way < 0.85:
                reported.append((data, producer.send("t", data, partition=random.randrange(3))))
            elif way < 0.9:
                reported.append((data, producer.send("t", data, headers=[("a", b"b")], partition=0)))
            elif way < 0.95:
                many = [data, *(value() for _ in range(random.randrange(30)))]
                reported += zip(many, producer.send_many("t", many), strict=True)
            else:
                many = [data, *(value() for _ in range(random.randrange(5)))]
                keyed = [ProducerRecord(each, key=b"k%d" % number) for each in many]
                reported += zip(many, producer.send_many("t", keyed), strict=True)
        except errors.BufferExhaustedError:
            continue
        if random.random() < 0.001:
            producer.flush(60)


def run_threads(producer: Any, work: Any = send_all) -> list[list[tuple[bytes, Any]]]:
    """What each thread sent, in its order."""
    reported: list[list[tuple[bytes, Any]]] = [[] for _ in range(THREADS)]
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(producer, number, reported[number])
        except errors.ClosedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return reported


def check_successes(fake: FakeCluster, reported: list[list[tuple[bytes, Any]]]) -> int:
    """Whatever is acknowledged lies where its future says; how many are."""
    stored = [part.records() for part in fake.topics["t"].partitions]
    acknowledged = 0
    for value, future in (pair for mine in reported for pair in mine):
        if future.exception(30) is None:
            metadata = future.result()
            record = stored[metadata.partition][metadata.offset]
            assert (record.value, record.timestamp) == (value, metadata.timestamp)
            assert metadata.serialized_value_size == len(value)
            acknowledged += 1
    return acknowledged


@pytest.mark.parametrize("seed", range(3))
def test_each_record_is_stored_once_and_in_order(seed: int) -> None:
    """Refusals, splits, a buffer that is often full, partitions that are added: without lost answers nothing
    is stored twice, and each thread's order holds in each partition."""
    fake, random = FakeCluster(2, latency_ms=0), Random(seed)
    fake.create("t", 3, max_message_bytes=1500)
    fake.rules.append(troubles(random, may_repeat=False))
    with Cluster("node0:9000", make_hub=fake.make_hub, metadata_max_age_ms=100) as cluster:
        producer = cluster.producer(
            batch_size=2000, linger_ms=1, buffer_memory=60_000, retry_backoff_ms=1, retry_backoff_max_ms=5
        )
        grow = threading.Timer(0.05, fake.grow, ("t", 5))
        grow.start()
        reported = run_threads(producer)
        producer.flush(60)
        grow.join()
        metrics = producer.metrics()
        assert metrics["batch-split-total"] > 0
        assert metrics["record-send-total"] == sum(map(len, reported))
        accumulator = producer._engine._accumulator
        accumulator.check()
        assert (accumulator.used_bytes, accumulator.waiting_for_memory) == (0, 0)
    assert check_successes(fake, reported) == sum(map(len, reported))
    assert sorted(fake.values("t")) == sorted(value for mine in reported for value, _ in mine)
    for partition in range(len(fake.topics["t"].partitions)):
        for number in range(THREADS):
            mine = [value for value in fake.values("t", partition) if value.startswith(b"%d " % number)]
            assert mine == sorted(mine)


def test_acknowledged_records_are_stored_under_losses() -> None:
    """Batches expire while they are open, queued and in flight."""
    fake = FakeCluster(2, latency_ms=0)
    fake.create("t", 3, max_message_bytes=1500)
    fake.rules.append(troubles(Random(9), may_repeat=True))
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        producer = cluster.producer(
            batch_size=2000, linger_ms=1, buffer_memory=60_000, max_block_ms=500,
            request_timeout_ms=60, delivery_timeout_ms=150, retry_backoff_ms=1,
        )  # fmt: skip
        reported = run_threads(producer)
        producer.flush(60)
        with pytest.raises(errors.DeliveryTimeoutError):
            producer.close()
        assert producer._engine._accumulator.used_bytes == 0
    assert check_successes(fake, reported) > 0
    assert set(fake.values("t")) <= {value for mine in reported for value, _ in mine}


def test_close_during_sends_resolves_every_future() -> None:
    """Every appended record has an outcome, every later send raises ClosedError."""
    fake = FakeCluster(2, latency_ms=0)
    fake.create("t", 3)
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        producer = cluster.producer(batch_size=2000, linger_ms=1)

        some_are_stored = threading.Event()

        def until_closed(producer: Any, number: int, reported: list[tuple[bytes, Any]]) -> None:
            while True:
                value = b"%d %05d" % (number, len(reported))
                reported.append((value, producer.send("t", value)))
                if len(reported) == 100:
                    reported[-1][1].result(60)
                    some_are_stored.set()

        def close() -> None:
            some_are_stored.wait(60)
            with contextlib.suppress(errors.FlushTimeoutError):  # what was sent between its flush and its end
                producer.close()

        closing = threading.Thread(target=close)
        closing.start()
        reported = run_threads(producer, until_closed)
        closing.join()
        with pytest.raises(errors.ClosedError):
            producer.send("t", b"late")
    assert all(future.done() for mine in reported for _, future in mine)
    assert check_successes(fake, reported) > 0


def test_memory_is_bounded_with_many_partitions_and_a_slow_cluster() -> None:
    """500 partitions without responses: builders hold at most twice buffer.memory (they double)."""
    sys.setswitchinterval(0.005)
    fake = FakeCluster(1, latency_ms=0)
    fake.create("t", 500)
    fake.rules.append(lambda ask: Fault(delay_ms=60_000) if ask.api == "Produce" else None)
    limit = 4 << 20
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        producer = cluster.producer(buffer_memory=limit, max_block_ms=300, linger_ms=1, acks="1")
        producer.partitions_for("t")
        value, sent = b"x" * 500, 0
        tracemalloc.start()
        try:
            with contextlib.suppress(errors.BufferExhaustedError):
                for sent in range(100_000):
                    producer.send("t", value, partition=sent % 500)
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        accumulator = producer._engine._accumulator
        assert accumulator.used_bytes <= limit + 500 * len(value)
        assert limit // 4 < sent * len(value) < 3 * limit, "the buffer was full once, and not too early"
        assert held <= 2 * limit + (2 << 20)
        with pytest.raises(errors.FlushTimeoutError) as lost:
            producer.close(0)
        assert lost.value.remaining == sent
        assert accumulator.used_bytes == 0
