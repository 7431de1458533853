"""`headrace.local`: a whole cluster inside this process."""

import asyncio
import contextlib
import shutil
import socket
import threading
from pathlib import Path

import pytest
from headrace import NewTopic, TopicPartition, connect
from headrace.protocol.errors import ClosedError, ConfigError
from headrace.runtime.files import files_io
from headrace.runtime.ports_io import reserve_ports
from headrace.services import local_io
from headrace.services.local_io import LocalCluster, local


def test_closed_cluster_leaves_no_thread_and_no_file() -> None:
    cluster = local(nodes=3)
    assert len(cluster.bootstrap.split(",")) == 3
    assert [node["node_id"] for node in cluster.status()["nodes"]] == [1, 2, 3]
    data_dir = cluster.data_dir
    assert data_dir.is_dir()
    cluster.close()
    cluster.close()
    assert not data_dir.exists()
    assert "headrace-local" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ClosedError):
        _ = cluster.bootstrap


def test_cluster_restarts_on_its_data_dir(tmp_path: Path) -> None:
    """Node ids, ports and the cluster id are kept."""
    with local(data_dir=str(tmp_path)) as cluster:
        before = cluster.status()
    with local(data_dir=str(tmp_path)) as cluster:
        after = cluster.status()
        cluster.restart_node(0)
        cluster.restart_controller()
        restarted = cluster.status()
    for facts in (after, restarted):
        assert facts["controller"]["cluster_id"] == before["controller"]["cluster_id"]
        assert facts["nodes"][0]["endpoint"] == before["nodes"][0]["endpoint"]


@pytest.mark.parametrize("is_temporary", [True, False])
def test_temporary_files_are_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_temporary: bool
) -> None:
    """Fsyncs of hundreds of small files, and their deletion, would take seconds."""
    synced: list[int] = []
    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(f"{files_io.__name__}.os.{name}", synced.append)
    with local(data_dir=None if is_temporary else str(tmp_path), log_durability="fsync") as cluster:
        with cluster.admin() as admin:
            admin.create_topics(NewTopic("t", 1)).raise_for_errors()
        with cluster.producer(transactional_id="me") as producer, producer.transaction() as txn:
            txn.send("t", b"1")
        cluster.restart_node(0)
        with cluster.consumer("t", group="g", auto_offset_reset="earliest") as consumer:
            assert consumer.poll(60)
            consumer.commit()
    assert bool(synced) is not is_temporary


def test_clients_of_the_cluster_are_closed_before_the_servers(tmp_path: Path) -> None:
    """Records and commits in flight are stored; the error of a listener is raised afterwards."""

    class Listener:
        def on_revoked(self, _consumer: object, _tps: object) -> None:
            raise ValueError("the user's")

    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.raises(ValueError, match="the user's"))
        cluster = stack.enter_context(local(data_dir=str(tmp_path)))
        cluster.admin().create_topics(NewTopic("t")).raise_for_errors()
        producer = cluster.producer(linger_ms=60_000, delivery_timeout_ms=120_000)
        consumers = [
            cluster.consumer("t", group=group, auto_offset_reset="earliest", listener=listener)
            for group, listener in (("a", Listener()), ("b", None))
        ]
        producer.send("t", b"x")
        producer.flush()
        for consumer in consumers:
            assert len(consumer.poll(60)) == 1
            consumer.poll(0)
        future = producer.send("t", b"y")
    assert future.result(0).offset == 1
    for consumer in consumers:
        with pytest.raises(ClosedError):
            consumer.poll(0)
    place = TopicPartition("t", 0)
    with local(data_dir=str(tmp_path)) as cluster:
        for group in ("a", "b"):
            found = cluster.consumer(group=group).committed(place)[place]
            assert found is not None
            assert found.offset == 1


def test_two_clusters_are_separate() -> None:
    """Each has its own ports and files."""
    with local() as one, local() as two:
        assert one.bootstrap != two.bootstrap
        assert one.status()["controller"]["cluster_id"] != two.status()["controller"]["cluster_id"]


def test_configs_reach_the_servers() -> None:
    """Keys of nodes and controller; a typo is refused before anything starts."""
    with local(num_partitions=4, log_segment_bytes=1024 * 1024) as cluster:
        assert cluster.status()["nodes"]
    with pytest.raises(ConfigError, match=r"num_partitions"):
        local(num_partition=4)
    with pytest.raises(ValueError, match="at least 1"):
        local(nodes=0)


def test_data_dir_in_use_is_refused(tmp_path: Path) -> None:
    """The first cluster continues."""
    with local(data_dir=str(tmp_path)) as cluster:
        with pytest.raises(Exception, match="lock"):
            local(data_dir=str(tmp_path), metadata_log_lock_timeout_ms=0)
        assert cluster.status()["nodes"]


def test_failed_server_ends_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every further use raises the reason."""
    fate: list[asyncio.Event] = []

    class Doomed(local_io.NodeServer):
        async def run(self) -> None:
            fate.append(asyncio.Event())
            await fate[0].wait()
            await self.kill()
            raise RuntimeError("disk on fire")

    monkeypatch.setattr(local_io, "NodeServer", Doomed)
    cluster = local()
    try:
        assert cluster.status()["nodes"]
        cluster._thread.wake(fate[0].set)
        assert cluster._thread.join(10.0)
        with pytest.raises(ClosedError, match="disk on fire"):
            _ = cluster.bootstrap
        with pytest.raises(ClosedError, match="disk on fire"):
            cluster.producer()
    finally:
        with pytest.raises(ClosedError, match="disk on fire"):
            cluster.close()


def test_error_of_the_body_is_raised() -> None:
    """A failing test inside `with` is not hidden by closing the cluster."""
    with pytest.raises(KeyError, match="mine"), local():
        raise KeyError("mine")


def test_fixture_provides_a_running_cluster(headrace_cluster: LocalCluster) -> None:
    """Of the pytest plugin: no import, no close."""
    assert headrace_cluster.status()["nodes"][0]["state"] == "active"


def test_port_in_use_is_an_error_with_node_listener_and_address() -> None:
    """The node has not joined its cluster yet."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        text = f"node 1: listener PLAINTEXT: cannot listen on {address}: .*another process uses the port"
        with pytest.raises(OSError, match=text):
            local(listeners=f"PLAINTEXT://{address}")


def test_wiped_node_keeps_its_ports(tmp_path: Path) -> None:
    """A node is killed, loses its disk and starts again: clients with its old addresses, native and Kafka's,
    find it there, as its registration names its ports. A node whose disk is there needs no controller."""
    (tmp_path / "node-2").mkdir()
    for name, port in zip(("listener.port", "listener.PLAINTEXT.port"), reserve_ports(2), strict=True):
        (tmp_path / "node-2" / name).write_text(str(port))  # no other process takes them meanwhile
    with local(nodes=2, data_dir=str(tmp_path), listeners="PLAINTEXT://127.0.0.1:0") as cluster:
        native, kafka = cluster.bootstrap, cluster.kafka_bootstrap
        with connect(native.split(",")[1]) as clients:
            assert len(clients.admin().describe_cluster().nodes) == 2
        for _ in range(2):
            cluster.kill_node(1)
            shutil.rmtree(tmp_path / "node-2")
            cluster.restart_node(1)
            assert (cluster.bootstrap, cluster.kafka_bootstrap) == (native, kafka)
        with connect(native.split(",")[1]) as clients:
            clients.admin().create_topics(NewTopic("t")).raise_for_errors()
