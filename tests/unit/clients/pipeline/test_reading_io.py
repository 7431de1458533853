"""Ranges over random logs of a fake cluster, with gaps, markers, aborted records and faults."""

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest
from fake_cluster import Ask, FakeCluster, Fault
from headrace.clients.pipeline import Filters, Loss, OffsetRange, Planner, fetch_arrow, pool_io, read_options
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol import errors
from headrace.protocol.records.codec import active_codec
from headrace.protocol.records.control import EndTransaction, encode_control


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Two nodes; the connection pool connects to them."""
    made = FakeCluster(2, latency_ms=0)
    monkeypatch.setattr(pool_io, "Cluster", partial(Cluster, make_hub=made.make_hub))
    yield made
    assert pool_io.close_idle() == 0


def options(**given: Any) -> Any:
    quick = {"kafka.retry.backoff.ms": 1, "kafka.retry.backoff.max.ms": 5, "kafka.fetch.max.wait.ms": 5}
    return read_options({"bootstrap": "node0:9000", "subscribe": "t", **quick, **given})


def marker(producer_id: int, *, committed: bool) -> bytes:
    key, value = encode_control(EndTransaction(committed, 0))
    builder = active_codec().builder(
        max_bytes=1000, producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
    )
    builder.append(1000, key, value, ())
    return bytes(builder.build())


def fill(fake: FakeCluster, random: Random, count: int) -> list[int]:
    """Batches of random size and transaction, with markers and gaps between some; the committed offsets."""
    part, aborted, good = fake.topics["t"].partitions[0], [], []
    while part.end_offset < count:
        size = random.choice([1, 2, 5, 17])
        values, kind = [b"v"] * size, random.random()
        if kind < 0.2:
            part.end_offset += random.choice([1, 3, 10])  # compacted away
            continue
        if kind < 0.5:
            producer = part.end_offset  # one id each: the fake's responses list all aborted transactions
            facts = {"producer_id": producer, "producer_epoch": 0, "is_transactional": True}
            first = fake.put("t", 0, *values, base_sequence=0, **facts)
            committed = random.random() < 0.5
            part.append(marker(producer, committed=committed), 0)
            if not committed:
                aborted.append((producer, first))
                continue
        else:
            first = fake.put("t", 0, *values, timestamp=1000 + part.end_offset)
        good += range(first, first + size)
    good.append(fake.put("t", 0, b"v"))  # no log ends with a gap
    part.aborted = tuple(aborted)
    return good


def offsets(cut: OffsetRange, wanted: Any, **more: Any) -> list[int]:
    batches = fetch_arrow(cut, wanted, columns=["offset"], **more)
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def trouble(random: Random) -> Any:
    """About every tenth request fails."""

    def rule(ask: Ask) -> Fault | None:
        if ask.api not in ("Fetch", "Metadata") or random.random() > 0.1:
            return None
        if ask.api == "Metadata":
            return Fault(lost_request=True)
        return random.choice(
            [
                Fault(lost_request=True),
                Fault(lost_reply=True),
                Fault(partition_error=errors.NotLeaderOrFollowerError.code),
            ]
        )

    return rule


@pytest.mark.parametrize("seed", range(6))
def test_any_range_of_any_log_has_its_records(fake: FakeCluster, seed: int) -> None:
    """With any edges, any leader, and failing requests."""
    random = Random(seed)
    fake.create("t")
    good = fill(fake, random, 300)
    stored = [record.offset for header, records in fake.topics["t"].partitions[0].headers_and_records()
              for record in records if not header.is_control]  # fmt: skip
    fake.rules.append(trouble(random))
    for isolation, expected in (("read_committed", good), ("read_uncommitted", stored)):
        small = random.choice([100, 700, 1 << 20])
        wanted = options(**{"kafka.isolation.level": isolation, "kafka.max.partition.fetch.bytes": small})
        (whole,) = Planner(wanted).batch().ranges
        assert offsets(whole, wanted, max_rows=random.choice([1, 7, 1000])) == expected
        for _ in range(12):
            start, end = sorted(random.sample(range(whole.end + 1), 2))
            if random.random() < 0.2:
                fake.move_leader("t", 0, random.randrange(2))
            cut = whole._replace(start=start, end=end)
            found = offsets(cut, wanted, max_rows=random.choice([1, 3, 1000]))
            assert found == [offset for offset in expected if start <= offset < end]
            low = random.randrange(whole.end)
            above = Filters.of([("offset", ">=", low), ("timestamp", "<", 1000 + end)])
            assert offsets(cut, wanted, filters=above) == [
                offset for offset in found if offset >= low and fake_time(fake, offset) < 1000 + end
            ]


def fake_time(fake: FakeCluster, offset: int) -> int:
    part = fake.topics["t"].partitions[0]
    return next(record.timestamp for record in part.records() if record.offset == offset)


def test_nothing_behind_the_end_is_fetched(fake: FakeCluster) -> None:
    """A task with a short range sends one Fetch, with a bound."""
    fake.create("t")
    for _ in range(100):
        fake.put("t", 0, *[b"x" * 1000] * 100)
    wanted = options()
    (whole,) = Planner(wanted).batch().ranges
    assert len(offsets(whole._replace(end=10), wanted)) == 10
    (fetch,) = fake.requests("Fetch")
    assert fetch.partitions[0].max_bytes == 64 << 10
    assert len(offsets(whole, wanted)) == 10_000
    behind = [part.fetch_offset for body in fake.requests("Fetch") for part in body.partitions]
    assert max(behind) < 10_000


def test_plan_sets_the_isolation_level(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from the task's environment: open transactions are planned, and would not be read."""
    fake.create("t")
    part = fake.topics["t"].partitions[0]
    fake.put("t", 0, b"v", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    part.append(marker(1, committed=False), 0)
    part.aborted = ((1, 0),)
    monkeypatch.setenv("HEADRACE_ISOLATION_LEVEL", "read_committed")
    wanted = options()
    (cut,) = Planner(wanted).batch().ranges
    assert offsets(cut, wanted) == [0]


def test_preferred_replica_is_read(fake: FakeCluster) -> None:
    """The leader's empty response with a preferred replica does not end the range."""
    fake.create("t")
    fake.put("t", 0, b"a", b"b")
    part = fake.topics["t"].partitions[0]
    fake.racks[1] = "near"
    part.replicas = part.isr = (0, 1)
    part.followers[1] = 2
    wanted = options(**{"kafka.client.rack": "near"})
    (whole,) = Planner(wanted).batch().ranges
    assert offsets(whole, wanted) == [0, 1]


@pytest.mark.parametrize("left", [0, 4])
def test_diverged_log_of_an_unclean_leader_is_a_loss(fake: FakeCluster, left: int) -> None:
    """With as many offsets as the plan, or more."""
    fake.create("t")
    for _ in range(5):
        fake.put("t", 0, b"a", b"b")
    strict, lax = options(), options(failOnDataLoss="false")
    (whole,) = Planner(strict).batch().ranges
    fake.elect_uncleanly("t", 0, 1, left)
    fake.put("t", 0, *[b"other"] * 20)
    with pytest.raises(errors.DataLossError, match=f"from {left} on"):
        offsets(whole, strict)
    losses: list[Loss] = []
    assert offsets(whole, lax, on_loss=losses.append) == list(range(10))
    assert [(loss.start, loss.end) for loss in losses] == [(left, 10)]


def test_leader_change_without_truncation_is_no_loss(fake: FakeCluster) -> None:
    """However often, with or without new records."""
    fake.create("t")
    fake.put("t", 0, b"a", b"b")
    wanted = options()
    (whole,) = Planner(wanted).batch().ranges
    for leader in (1, 0, 1):
        fake.move_leader("t", 0, leader)
        assert offsets(whole, wanted) == [0, 1]
    fake.put("t", 0, b"c")
    fake.move_leader("t", 0, 0)
    assert offsets(whole, wanted) == [0, 1]


def test_unavailable_records_are_an_error(fake: FakeCluster) -> None:
    """After kafkaConsumer.pollTimeoutMs: a partition without a leader, a log that ends before the range."""
    fake.create("t")
    fake.put("t", 0, b"a", b"b")
    wanted = options(**{"kafkaConsumer.pollTimeoutMs": 50})
    (whole,) = Planner(wanted).batch().ranges
    with pytest.raises(errors.DataLossError, match="the log ends at 2"):
        offsets(whole._replace(end=3), wanted)
    lax = options(**{"kafkaConsumer.pollTimeoutMs": 50, "failOnDataLoss": "false"})
    assert offsets(whole._replace(end=3), lax) == [0, 1]
    fake.stop_node(0)
    with pytest.raises(errors.ReplicaNotAvailableError, match="pollTimeoutMs"):
        offsets(whole, wanted)


def test_abandoned_iterator_returns_its_connections(fake: FakeCluster) -> None:
    """To the pool."""
    fake.create("t")
    fake.put("t", 0, b"a", b"b")
    wanted = options()
    (whole,) = Planner(wanted).batch().ranges
    batches = fetch_arrow(whole, wanted, max_rows=1)
    next(batches)
    assert pool_io.close_idle() == 1
    del batches
    assert pool_io.close_idle() == 0


def test_unreachable_cluster_is_an_error_and_a_known_one_is_retried(fake: FakeCluster) -> None:
    """At the first connection the error names the addresses; afterwards calls retry until their timeout."""
    fake.create("t", 1)
    planner = Planner(options(**{"fetchOffset.numRetries": 0}))
    planner.batch()
    pool_io.close_idle()  # the next call opens a new connection
    fake.stop_node(0)
    fake.stop_node(1)
    quick = options(**{"kafka.socket.connection.setup.timeout.ms": 50, "kafka.default.api.timeout.ms": 200})
    with pytest.raises(errors.NoClusterError, match=r"node0:9000, tried for 0\.05 s"):
        Planner(quick).batch()
    planner._config, planner._connecting = Planner(quick)._config, Planner(quick)._connecting
    with pytest.raises(errors.ApiTimeoutError):
        planner.batch()


def test_plan_with_newer_metadata_than_the_worker(fake: FakeCluster) -> None:
    """The worker's connections know the old id of a recreated topic until they refresh; no row is lost."""
    fake.create("t")
    fake.put("t", 0, b"old")
    (before,) = Planner(options()).batch().ranges
    assert offsets(before, options()) == [0]
    del fake.topics["t"]
    topic = fake.create("t")
    fake.put("t", 0, b"new", b"new")
    newer = before._replace(end=2, topic_id=topic.topic_id)
    assert offsets(newer, options()) == [0, 1]
    with pytest.raises(errors.DataLossError, match="created again"):
        offsets(before, options())
