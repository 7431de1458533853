"""Scenarios 28 and 29 of RELIABILITY 1.8 on real disks: a log dir that cannot be written, a full file system.

They mount a tmpfs and set attributes of a folder, which needs root and a file system with such attributes.
"""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import headrace
import pytest
from fault_cluster import FaultCluster, Server
from fault_workload import Workload
from kafka_load import KafkaLoad, Librdkafka, LibrdkafkaTransactions

pytestmark = pytest.mark.faults

TMPFS_BYTES = 48 << 20
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
CHECKPOINT_MS = 300  # the interval of writes to each log dir


def changed(*command: str) -> None:
    """Run a command that needs root; skip the test where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(command)}: {done.stderr.strip()}")


@pytest.fixture
def mount() -> Iterator[Callable[[Path], None]]:
    """Mounts small file systems, and unmounts them at the end."""
    with contextlib.ExitStack() as stack:

        def mounted(path: Path) -> None:
            path.mkdir()
            changed("mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(path))
            stack.callback(subprocess.run, ["umount", "-l", str(path)], check=True)

        yield mounted


@pytest.fixture
def freeze() -> Iterator[Callable[[Path], None]]:
    """Makes a folder immutable until the end, or `thaw`."""
    with contextlib.ExitStack() as stack:

        def frozen(path: Path) -> None:
            changed("chattr", "+i", str(path))
            stack.callback(thaw, path)

        yield frozen


def thaw(path: Path) -> None:
    subprocess.run(["chattr", "-i", str(path)], check=True)


def lead(cluster: FaultCluster, node: Server) -> None:
    """Elect the preferred leader."""
    with cluster.clients.admin() as admin:
        cluster.until(
            lambda: (
                not admin.elect_leaders(headrace.ElectionType.PREFERRED) and cluster.leader("t") == node.id
            ),
            f"node {node.id} leads",
        )


def leader_on_a_small_disk(cluster: FaultCluster, mount: Any) -> Server:
    """Move the first replica's node to a small file system; it catches up and leads."""
    node = cluster.node(cluster.partition("t").replicas[0])
    node.kill()
    node.wipe()
    mount(node.directory)
    node.start()
    cluster.until_in_sync("t")
    lead(cluster, node)
    return node


def fill(directory: Path) -> Path:
    """Write a file that fills the file system."""
    filler = directory / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    return filler


def test_s29_leader_with_a_full_disk(make_cluster: Any, measured: Any, mount: Any) -> None:
    """The leader resigns and leaves the ISR; producers continue with the other two replicas. When the disk
    has room again the node catches up without a restart."""
    cluster = make_cluster()
    cluster.create_topic("t", min_insync_replicas=2)
    node = leader_on_a_small_disk(cluster, mount)
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    filler = fill(node.directory)
    cluster.until(lambda: cluster.leader("t") != node.id, "another node leads")
    cluster.until(lambda: node.id not in cluster.partition("t").isr, "it left the ISR")
    assert node.is_alive
    work.more()
    filler.unlink()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    assert "is full" in node.log_tail()
    work.finish()
    cluster.until_replicas_agree("t")


def test_leader_with_a_full_disk_under_kafka_producers(make_cluster: Any, mount: Any) -> None:
    """As above, with librdkafka over the listener, with and without transactions."""
    cluster = make_cluster(kafka=True)
    with KafkaLoad(cluster, Librdkafka, LibrdkafkaTransactions) as load:
        node = leader_on_a_small_disk(cluster, mount)
        filler = fill(node.directory)
        cluster.until(lambda: cluster.leader("t") != node.id, "another node leads")
        load.more()
        filler.unlink()
        cluster.until_in_sync("t")
        load.more()
        load.finish()
    cluster.until_replicas_agree("t")


def test_s28_leader_with_a_read_only_log_dir(make_cluster: Any, measured: Any, freeze: Any) -> None:
    """One of the leader's two log dirs fails: its partition gets another leader at once, the node and its
    other dir stay online; after a repair and a restart the replica returns."""
    cluster = make_cluster(config={"log.flush.offset.checkpoint.interval.ms": CHECKPOINT_MS})
    node = cluster.nodes[0]
    node.stop()
    good, bad = node.directory, node.directory.with_name(f"{node.name}-bad")
    node.arguments[0] = f"{good},{bad}"
    node.start()
    cluster.create_topic("t", 2, min_insync_replicas=2)
    number = next(number for number in (0, 1) if (bad / f"t-{number}").is_dir())
    work = Workload(cluster, "t").start()
    begun_s = time.monotonic()
    freeze(bad)
    cluster.until(lambda: node.id not in cluster.partition("t", number).isr, "its replica left the ISR")
    cluster.until(lambda: cluster.leader("t", number) != node.id, "another node leads")
    work.more()
    assert node.is_alive
    assert node.id in cluster.partition("t", 1 - number).isr, "the other disk works"
    thaw(bad)
    node.stop()
    node.start()
    cluster.until_in_sync("t")
    work.more()
    measured(work, begun_s)
    work.finish()


def test_node_is_killed_while_replicas_move_between_log_dirs(make_cluster: Any, measured: Any) -> None:
    """The moves are throttled, and the node is killed meanwhile: its future replicas are deleted and the
    replicas stay where they were. Another request moves them all, one of them under load, without loss."""
    cluster = make_cluster(config={"log.tail.cache.bytes": 1 << 20})
    node = cluster.nodes[0]
    node.stop()
    dirs = node.directory, node.directory.with_name(f"{node.name}-second")
    node.arguments[0] = ",".join(map(str, dirs))
    node.start()
    for topic in ("t", "large"):
        cluster.create_topic(topic, min_insync_replicas=2)
    work = Workload(cluster, "t").start()
    with cluster.clients.producer(acks="all") as producer:
        for _ in range(200):
            producer.send("large", b"x" * 50_000)
    begun_s = time.monotonic()
    homes = {topic: next(each for each in dirs if (each / f"{topic}-0").is_dir()) for topic in ("t", "large")}
    targets = {topic: next(each for each in dirs if each != home) for topic, home in homes.items()}
    moves = {headrace.TopicPartitionReplica(topic, 0, node.id): str(path) for topic, path in targets.items()}
    throttled = {headrace.Resource.broker(node.id): {RATE: 500_000}}
    with cluster.clients.admin() as admin:
        admin.alter_configs(throttled).raise_for_errors()
        cluster.until_serving("large")
        admin.alter_replica_log_dirs(moves).raise_for_errors()
        cluster.until(lambda: list(targets["large"].glob("large-0.*-future/*.log")), "the copy has begun")
        node.kill()
        work.more()
        node.start()
        cluster.until_in_sync("large")
        cluster.until(lambda: not any([*each.glob("*-future")] for each in dirs), "the copies are gone")
        assert (homes["large"] / "large-0").is_dir()
        admin.alter_configs({broker: {RATE: None} for broker in throttled}).raise_for_errors()
        cluster.until(lambda: not admin.alter_replica_log_dirs(moves).errors, "the moves are accepted")
    for topic, home in homes.items():
        cluster.until(lambda topic=topic: (targets[topic] / f"{topic}-0").is_dir(), f"{topic} has moved")
        cluster.until(
            lambda topic=topic, home=home: not (home / f"{topic}-0").exists(), "its old log is gone"
        )
    work.more()
    measured(work, begun_s)
    work.finish()
    for topic, target in targets.items():
        cluster.until_in_sync(topic)
        node.directory = target
        cluster.until_replicas_agree(topic)
