"""`headrace.local`: a whole cluster inside this process."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from headrace import NewTopic, TopicPartition
from headrace.protocol.errors import ClosedError, ConfigError
from headrace.services import local_io
from headrace.services.local_io import LocalCluster, local
from headrace.storage_node.log import files_io

if TYPE_CHECKING:
    from pathlib import Path


def test_a_cluster_lives_and_goes_without_a_trace() -> None:
    """Afterwards neither its thread nor its files are there."""
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


def test_servers_come_back_over_the_same_files(tmp_path: Path) -> None:
    """The data dir outlives the cluster; ids, ports and the cluster's id are found again."""
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
def test_only_what_stays_is_brought_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_temporary: bool
) -> None:
    """Files that go at the end are not: with hundreds of small ones, of groups and transactions, both the
    syncs and the removal of what is on a disk take seconds."""
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


def test_clients_that_were_made_here_end_first(tmp_path: Path) -> None:
    """While there is somebody to answer: what they have to send and to commit is there the next time. One
    whose callback raises holds up nobody."""

    class Listener:
        def on_revoked(self, _consumer: object, _tps: object) -> None:
            raise ValueError("the user's")

    with local(data_dir=str(tmp_path)) as cluster:
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


def test_two_clusters_do_not_meet() -> None:
    """Each has its own ports and files."""
    with local() as one, local() as two:
        assert one.bootstrap != two.bootstrap
        assert one.status()["controller"]["cluster_id"] != two.status()["controller"]["cluster_id"]


def test_config_reaches_the_servers() -> None:
    """Keys of nodes and controller are taken; a typo is refused before anything starts."""
    with local(num_partitions=4, log_segment_bytes=1024 * 1024) as cluster:
        assert cluster.status()["nodes"]
    with pytest.raises(ConfigError, match=r"num_partitions"):
        local(num_partition=4)
    with pytest.raises(ValueError, match="at least one"):
        local(nodes=0)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """Two clusters over the same files would destroy them; the first one goes on."""
    with local(data_dir=str(tmp_path)) as cluster:
        with pytest.raises(Exception, match="lock"):
            local(data_dir=str(tmp_path), metadata_log_lock_timeout_ms=0)
        assert cluster.status()["nodes"]


def test_a_server_that_fails_is_not_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead server task ends the cluster, and every further use says why."""
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


def test_the_body_s_own_error_gets_through() -> None:
    """A failing test inside `with` is not hidden by closing the cluster."""
    with pytest.raises(KeyError, match="mine"), local():
        raise KeyError("mine")


def test_the_fixture_gives_a_running_cluster(headrace_cluster: LocalCluster) -> None:
    """The pytest plugin: nothing to import, nothing to close."""
    assert headrace_cluster.status()["nodes"][0]["state"] == "active"
