"""A closing producer reports lost records: raised, or logged behind another exception."""

import asyncio
import logging
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster
from headrace.clients.aio.cluster_io import AsyncCluster
from headrace.clients.aio.lines_io import Lines
from headrace.clients.config import ProducerConfig
from headrace.clients.losses_io import MAX_UNREPORTED, Losses, Unfinished
from headrace.clients.producer.appending import NO_TOPIC
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol.errors import ClosedError, DeliveryTimeoutError, FlushTimeoutError, HeadraceError

SHORT = {"linger_ms": 0, "delivery_timeout_ms": 300, "request_timeout_ms": 200}


def failed(number: int, *, is_reported: bool = False) -> Any:
    return SimpleNamespace(is_reported=is_reported, error=HeadraceError(str(number)))


def test_first_unobserved_error_is_kept_with_the_count() -> None:
    """Observed errors do not count, before `add` or after it; errors beyond the bound count."""
    losses, outcomes = Losses(), [failed(number) for number in range(MAX_UNREPORTED + 5)]
    losses.add(failed(-1, is_reported=True), 1000)
    assert losses.first() is None
    for outcome in outcomes[:MAX_UNREPORTED]:
        losses.add(outcome, 2)
    outcomes[0].is_reported = True
    for outcome in outcomes[MAX_UNREPORTED:]:
        losses.add(outcome, 2)
    error = losses.first()
    assert error is outcomes[1].error
    assert error.__notes__[0].endswith(str(2 * (len(outcomes) - 1)))


def test_unfinished_records_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """A collected owner reports by itself; a finished one, or one without records, does not."""
    with pytest.warns(ResourceWarning, match="3 for 't'"):
        Unfinished(lambda: Counter(t=3)).report()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    Unfinished(Counter).report()
    over = Unfinished(lambda: Counter(t=3))
    over.over()
    over.report()
    assert len(caplog.records) == 1


def test_block_without_an_error_raises_the_count(fake: FakeCluster, cluster: Cluster) -> None:
    """close(timeout) raises after everything is released; a second close does nothing."""
    producer = cluster.producer()
    producer.send("t", b"0").result(60)
    fake.stop_node(0)
    futures = [producer.send("t", b"%d" % number) for number in range(7)]
    with pytest.raises(FlushTimeoutError, match=r"7 records .* 7 for 't'") as lost:
        producer.close(0.01)
    assert lost.value.remaining == 7
    assert all(isinstance(future.exception(0), ClosedError) for future in futures)
    producer.close()
    with pytest.raises(ClosedError):
        producer.send("t", b"late")


def test_block_without_an_error_raises_an_unobserved_error(fake: FakeCluster, cluster: Cluster) -> None:
    """Records failed long before the end of the block; if all errors were observed, nothing is raised."""
    fake.stop_node(0)
    cluster.producer().close()

    def block() -> None:
        with cluster.producer(**SHORT) as producer:
            fake.start_node(0)
            producer.partitions_for("t")
            fake.stop_node(0)
            producer.send("t", b"1")
            producer.flush()

    with pytest.raises(DeliveryTimeoutError):
        block()
    with cluster.producer(**SHORT) as producer:
        fake.start_node(0)
        producer.partitions_for("t")
        fake.stop_node(0)
        assert isinstance(producer.send("t", b"2").exception(60), DeliveryTimeoutError)


def test_another_exception_passes_and_the_loss_is_logged(
    fake: FakeCluster, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The block's own exception is not replaced."""

    def block() -> None:
        with cluster.producer(**SHORT) as producer:
            producer.partitions_for("t")
            fake.stop_node(0)
            producer.send_many("t", [b"x"] * 9)
            raise ZeroDivisionError

    with caplog.at_level(logging.ERROR), pytest.raises(ZeroDivisionError):
        block()
    assert "were not checked: 9" in caplog.text


def test_a_cluster_closes_all_clients_and_raises_the_first_error(caplog: pytest.LogCaptureFixture) -> None:
    """One producer cannot flush: the other one and the connections are closed nevertheless."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    cluster = Cluster("node0:9000", make_hub=fake.make_hub)
    first, second = cluster.producer(), cluster.producer()
    for producer in (first, second):
        producer.partitions_for("t")
    fake.stop_node(0)
    for producer in (first, second):
        producer.send("t", b"x")
    with pytest.raises(FlushTimeoutError):
        cluster.close(0)
    assert len(caplog.records) == 1
    for producer in (first, second):
        with pytest.raises(ClosedError):
            producer.send("t", b"late")


async def test_records_in_line_are_counted_after_their_task_was_collected() -> None:
    """A loop is closed with the producer open: its tasks may be collected before the count."""
    begun: list[Any] = []

    async def load_topic(*_: Any) -> None:
        await asyncio.get_running_loop().create_future()

    engine: Any = SimpleNamespace(
        append=lambda *_: NO_TOPIC, load_topic=load_topic, add_memory_listener=lambda _: None
    )
    loop = SimpleNamespace(is_closed=lambda: True)
    hub: Any = SimpleNamespace(loop=loop, tasks=SimpleNamespace(spawn=begun.append), now_ms=lambda: 0)
    preparer: Any = None
    lines = Lines(engine, hub, ProducerConfig(), preparer)
    for _ in range(3):
        lines.add("t", (None, b"x", (), 0), None)
    (serving,) = begun
    serving.send(None)
    serving.close()
    assert lines.counts() == {"t": 3}
    lines.over()


class Interrupted:
    """A client whose close is interrupted."""

    def __init__(self, interrupt: BaseException) -> None:
        self._interrupt = interrupt

    def close(self, *_: Any) -> None:
        raise self._interrupt

    def forked(self) -> None:
        pass


class AsyncInterrupted(Interrupted):
    """The same of asyncio."""

    async def close(self, *_: Any) -> None:
        raise self._interrupt


def test_interrupted_close_of_a_cluster_logs_lost_records(caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C ends the flush of one client: the records of the other one are counted in the log."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    cluster = Cluster("node0:9000", make_hub=fake.make_hub)
    cluster.io.add(Interrupted(KeyboardInterrupt()))
    producer = cluster.producer()
    producer.partitions_for("t")
    fake.stop_node(0)
    producer.send("t", b"x")
    with pytest.raises(KeyboardInterrupt):
        cluster.close()
    assert "1 records were not acknowledged" in caplog.text


async def test_cancelled_close_of_a_cluster_logs_lost_records(
    fake: Any, cluster: AsyncCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """As an interrupt."""
    fake.create("t")
    cluster.io.add(interrupted := AsyncInterrupted(asyncio.CancelledError()))
    producer = cluster.producer()
    await producer.partitions_for("t")
    fake.stop_node(0)
    sent = producer.send("t", b"x")
    with pytest.raises(asyncio.CancelledError):
        await cluster.close()
    await cluster.io.leave(interrupted)
    assert "1 records were not acknowledged" in caplog.text
    assert isinstance(sent.exception(), ClosedError)


async def test_asyncio_producer_reports_lost_records(
    fake: Any, cluster: AsyncCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """An awaited error is observed; a future that was never awaited, or cancelled, is not."""
    fake.create("t")
    async with cluster.producer(**SHORT) as producer:
        await producer.partitions_for("t")
        fake.stop_node(0)
        with pytest.raises(DeliveryTimeoutError):
            await producer.send("t", b"awaited")
    kept: list[Any] = []

    async def block(end: Any) -> None:
        async with cluster.producer(**SHORT) as producer:
            fake.start_node(0)
            await producer.partitions_for("t")
            fake.stop_node(0)
            kept.append(producer.send("t", b"1"))
            end()

    for end in (list, lambda: kept[-1].cancel()):
        with pytest.raises(DeliveryTimeoutError, match="t-0"):
            await block(end)
    with pytest.raises(ZeroDivisionError):
        await block(lambda: 1 / 0)
    assert "were not checked: 1" in caplog.text
    kept.append(producer := cluster.producer())
    fake.start_node(0)
    await producer.partitions_for("t")
    fake.stop_node(0)
    kept.append(producer.send("t", b"3"))
    with pytest.raises(FlushTimeoutError):
        await producer.close(1)
    for future in kept:
        if isinstance(future, asyncio.Future) and not future.cancelled():
            future.exception()
