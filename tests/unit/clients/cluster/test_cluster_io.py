"""The IO thread of the synchronous clients: calls, callbacks, forks, the end of the process."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from headrace.clients.bootstrap import register_resolver, unregister_resolver
from headrace.clients.cluster import cluster_io
from headrace.clients.cluster.cluster_io import ClusterIo
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol.errors import ApiTimeoutError, ClosedError, ConfigError, HeadraceError


@pytest.fixture
def fake() -> FakeCluster:
    """One node, one topic, no latency."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t")
    return fake


def test_calls_run_on_the_io_thread(fake: FakeCluster) -> None:
    """The caller gets their results and errors; a timeout is an ApiTimeoutError."""
    io = ClusterIo("node0:1", {}, fake.make_hub)

    async def where() -> int:
        return threading.get_ident()

    async def fail() -> None:
        raise KeyError("own error")

    async def hang() -> None:
        import asyncio

        await asyncio.sleep(60)

    assert io.call(where()) == io.thread_id != threading.get_ident()
    with pytest.raises(KeyError):
        io.call(fail())
    with pytest.raises(ApiTimeoutError):
        io.call(hang(), 0.01)
    io.close()
    with pytest.raises(ClosedError):
        io.call(where())
    io.close()


def test_an_outcome_that_outlives_the_io_thread_is_a_closed_error(fake: FakeCluster) -> None:
    """Not a cancellation, of which callbacks would not learn."""
    io = ClusterIo("node0:1", {}, fake.make_hub)
    outcome = io.start(lambda: io.hub.loop.create_future())
    io.close()
    with pytest.raises(ClosedError):
        outcome.result(60)


def test_blocking_calls_in_callbacks_raise(fake: FakeCluster) -> None:
    """flush, result, close and admin calls inside a done callback; `send` does not block there."""
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        producer, admin = cluster.producer(linger_ms=0), cluster.admin()
        outcomes: list[Any] = []
        done = threading.Event()

        def attempt(action: Any) -> None:
            try:
                outcomes.append(action())
            except HeadraceError as error:
                outcomes.append(str(error))

        def callback(_: Any) -> None:
            later = producer.send("t", b"2")
            attempt(lambda: later.result(1))
            attempt(producer.close)
            attempt(admin.list_topics)
            attempt(lambda: producer.partitions_for("other"))
            done.set()

        producer.send("t", b"1").add_done_callback(callback)
        assert done.wait(60)
        assert len(outcomes) == 4
        assert all("IO thread" in outcome for outcome in outcomes), outcomes
        producer.flush(60)
        assert fake.values("t") == [b"1", b"2"]


def test_constructor_raises_without_a_cluster() -> None:
    """Without a bootstrap address and resolvers, and for a bad address."""
    import headrace.clients.bootstrap as bootstrap

    kept = dict(bootstrap._resolvers)
    bootstrap._resolvers.clear()
    try:
        with pytest.raises(ConfigError, match="no cluster to connect to"):
            Cluster()
        register_resolver("test", lambda: "host:0")
        with pytest.raises(ConfigError, match="bad port"):
            Cluster()
        unregister_resolver("test")
        with pytest.raises(ConfigError, match="bad port"):
            Cluster("host:x")
    finally:
        bootstrap._resolvers.update(kept)


def test_open_clusters_share_the_timeout_at_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends in time with any number of open clusters."""
    given: list[float] = []

    class Forgotten:
        def close(self, timeout_s: float) -> None:
            given.append(timeout_s)
            threading.Event().wait(0.01)  # it takes some of it

    monkeypatch.setattr(cluster_io, "_open", [Forgotten() for _ in range(3)])
    cluster_io._close_at_exit()
    assert cluster_io.EXIT_FLUSH_S >= given[0] > given[1] > given[2] > 0


def test_closing_a_cluster_closes_its_clients(fake: FakeCluster) -> None:
    """Producers are flushed, every further call raises ClosedError."""
    cluster = Cluster("node0:9000", make_hub=fake.make_hub)
    producer = cluster.producer(linger_ms=60_000)
    consumer = cluster.consumer("t")
    future = producer.send("t", b"x")
    cluster.close()
    assert future.result(0).offset == 0
    with pytest.raises(ClosedError):
        producer.send("t", b"x")
    with pytest.raises(ClosedError):
        consumer.poll()
    with pytest.raises(ClosedError):
        cluster.admin().list_topics()


def test_keys_of_the_cluster_are_defaults_of_its_clients(fake: FakeCluster) -> None:
    """A client's own arguments win; keys of connections belong to the cluster."""
    config = {"linger.ms": 77, "fetch.max.wait.ms": 5}
    with Cluster("node0:9000", config=config, make_hub=fake.make_hub, client_id="me") as cluster:
        assert cluster.producer().config.linger_ms == 77
        assert cluster.producer(linger_ms=3).config.linger_ms == 3
        assert cluster.consumer("t").config.fetch_max_wait_ms == 5
        with pytest.raises(ConfigError, match="unknown config key 'client_id'"):
            cluster.producer(client_id="other")


def test_clients_raise_in_a_forked_child(fake: FakeCluster) -> None:
    """Every call raises at once instead of hanging; the parent continues."""
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        producer, consumer = cluster.producer(), cluster.consumer("t")
        producer.send("t", b"1").result(60)
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            reported = []
            for action in (lambda: producer.send("t", b"2"), consumer.poll, cluster.admin):
                try:
                    action()
                except ClosedError as error:
                    reported.append("after fork" in str(error))
            os.write(write_end, b"yes" if reported == [True] * 3 else b"no")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(read_end, 10) == b"yes"
        os.close(read_end)
        os.close(write_end)
        assert producer.send("t", b"3").result(60).offset == 1


def test_open_producers_are_flushed_at_exit() -> None:
    """The program sends one record and ends; with linger.ms of an hour only the flush at exit delivers it."""
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import atexit
from fake_cluster import FakeCluster
fake = FakeCluster(latency_ms=0)
fake.create("t")
atexit.register(lambda: print(fake.values("t")))
from headrace.clients.sync.cluster_io import Cluster
producer = Cluster("node0:9000", make_hub=fake.make_hub).producer(
    linger_ms=3_600_000, delivery_timeout_ms=7_200_000)
producer.send("t", b"tail")
"""
    fakes = str(Path(__file__).parents[3] / "fakes")
    ended = subprocess.run([sys.executable, "-c", program, fakes], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == "[b'tail']", ended.stderr
