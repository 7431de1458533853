"""Measures failure detection on a loaded machine: fenced nodes, leader changes, and the time of failovers.

`python tests/faults/detection.py cpu fsync --seconds 120` starts three controllers and three nodes with 90
partitions of three replicas and a slow load with acks=all, loads the machine, and prints the changes in the
metadata log; `--kill N` kills a node N times meanwhile, `--session 9000` sets another session timeout.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fakes")]

import headrace  # noqa: E402
from disturbance import KINDS, Disturbance  # noqa: E402
from fault_cluster import FaultCluster, Server, hold  # noqa: E402
from headrace.controller.quorum.record_batches import decode_batches  # noqa: E402
from headrace.protocol.errors import HeadraceError  # noqa: E402
from headrace.protocol.metadata.records import FenceBrokerRecord, PartitionChangeRecord, UnfenceBrokerRecord  # noqa: E402

TOPIC, PARTITIONS = "t", 90
SEND_EVERY_S = 0.02


@dataclass
class Moves:
    """The changes in the metadata log from an offset on."""

    end_offset: int = 0
    fenced: list[int] = field(default_factory=list)  # one node id per fencing
    unfenced: list[int] = field(default_factory=list)
    leaders_moved: int = 0
    epochs: set[int] = field(default_factory=set)  # of active controllers
    fenced_at_ms: dict[int, int] = field(default_factory=dict)  # node id: wall clock time of its last fencing

    def __str__(self) -> str:
        counts = {node: self.fenced.count(node) for node in sorted(set(self.fenced))}
        return (
            f"fenced {len(self.fenced)} times {counts}, {self.leaders_moved} leaders moved, "
            f"{max(0, len(self.epochs) - 1)} controller changes"
        )


def moves(controller: Server, from_offset: int) -> Moves:
    """Read the metadata log on one controller's disk; its process may run."""
    found = Moves()
    for folder in controller.directory.iterdir():
        if folder.is_dir() and folder.name.startswith("__cluster_metadata"):
            for path in sorted(folder.glob("*.log")):
                _read(path.read_bytes(), from_offset, found)
    return found


def _read(data: bytes, from_offset: int, found: Moves) -> None:
    for batch in decode_batches(data):
        base = batch.header.base_offset
        found.end_offset = max(found.end_offset, base + len(batch.to_apply))
        if base < from_offset:
            continue
        found.epochs.add(batch.header.leader_epoch)
        for record in batch.records:
            if isinstance(record, FenceBrokerRecord):
                found.fenced.append(record.node_id)
                found.fenced_at_ms[record.node_id] = batch.header.max_timestamp
            elif isinstance(record, UnfenceBrokerRecord):
                found.unfenced.append(record.node_id)
            elif isinstance(record, PartitionChangeRecord) and record.leader is not None:
                found.leaders_moved += 1


class Load:
    """Sends one record after the other to random partitions with acks=all, and notes when each was
    acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acked_s: list[float] = []
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap,))

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def longest_pause_s(self, since_s: float, until_s: float) -> float:
        """The longest time without an acknowledgement."""
        at = [since_s, *(each for each in sorted(self.acked_s) if since_s <= each <= until_s), until_s]
        return max(later - earlier for earlier, later in pairwise(at))

    def _run(self, bootstrap: str) -> None:
        def acked(delivery: Any) -> None:
            error = delivery.exception()
            if error is None:
                self.acked_s.append(time.monotonic())
            else:
                self.failures.append(repr(error))

        with headrace.connect(bootstrap, client_id="observer-2") as clients:
            producer = clients.producer(acks="all", linger_ms=0, delivery_timeout_ms=120_000)
            number = 0
            while not self._stop.wait(SEND_EVERY_S):
                producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS).add_done_callback(acked)
                number += 1
            producer.flush(60)


def end_offset(cluster: FaultCluster) -> int:
    """The end offset of the longest metadata log."""
    return max(moves(each, 1 << 62).end_offset for each in cluster.controllers)


def since(cluster: FaultCluster, offset: int) -> Moves:
    """The changes in the longest metadata log from an offset on."""
    return max((moves(each, offset) for each in cluster.controllers), key=lambda found: found.end_offset)


def failover_s(cluster: FaultCluster, node_id: int) -> float:
    """SIGKILL a node; returns the seconds until its partitions have other leaders."""
    offset, begun_ms = end_offset(cluster), time.time_ns() // 1_000_000
    cluster.node(node_id).kill()
    cluster.until(
        lambda: all(each.leader not in (node_id, -1) for each in cluster.image().topics[TOPIC].partitions),
        f"node {node_id} leads nothing",
    )
    return (since(cluster, offset).fenced_at_ms[node_id] - begun_ms) / 1000


class Pauses:
    """Pauses servers with SIGSTOP again and again, one node at a time, or all servers at once like a paused
    virtual machine."""

    def __init__(self, cluster: FaultCluster, pause_s: float, every_s: float, *, whole: bool) -> None:
        self._cluster, self._pause_s, self._every_s, self._is_whole = cluster, pause_s, every_s, whole
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Pauses:
        if self._pause_s:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._pause_s:
            self._thread.join()

    def _run(self) -> None:
        for number in count():
            if self._stop.wait(self._every_s):
                return
            nodes = self._cluster.nodes
            servers = list(self._cluster.servers.values()) if self._is_whole else [nodes[number % len(nodes)]]
            for server in servers:
                server.pause()
            hold(self._pause_s)
            for server in servers:
                server.resume()


class Writes:
    """Creates and deletes a topic again and again, to write to the metadata log."""

    def __init__(self, cluster: FaultCluster, every_s: float) -> None:
        self._cluster, self._every_s = cluster, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writes:
        if self._every_s:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._every_s:
            self._thread.join()

    def _run(self) -> None:
        with headrace.connect(self._cluster.bootstrap, client_id="observer-3") as clients:
            for number in count():
                if self._stop.wait(self._every_s):
                    return
                with contextlib.suppress(HeadraceError, TimeoutError), clients.admin() as admin:
                    admin.create_topics(headrace.NewTopic(f"w{number}", 1, 3, {}))


def measure(options: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """One run; returns its figures."""
    config = dict(pair.split("=", 1) for pair in options.controller)
    if options.session:
        config |= {"broker.session.timeout.ms": options.session, "broker.heartbeat.interval.ms": 2_000}
    with FaultCluster(directory, nodes=3, controllers=3, controller_config=config, proxied=False) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3, min_insync_replicas=2)
        with Load(cluster.bootstrap) as load:
            cluster.until(lambda: len(load.acked_s) > 100, "records are acknowledged")
            begun_s, offset = time.monotonic(), end_offset(cluster)
            with (
                Disturbance(options.kinds, directory, options.seconds + 300),
                Pauses(cluster, options.pause or options.freeze, options.every, whole=not options.pause),
                Writes(cluster, options.writes),
            ):
                cluster.stall_controllers_disks(options.disk_stall)
                while time.monotonic() - begun_s < options.seconds:
                    hold(1)
                cluster.stall_controllers_disks(0)
                loads = os.getloadavg()
                false = since(cluster, offset)
                pause_s = load.longest_pause_s(begun_s, time.monotonic())
                say(
                    f"{' '.join(sys.argv[1:])}: load {loads[0]:.1f}: {false}; "
                    f"longest pause of acks {pause_s:.1f} s, {len(load.acked_s)} acked"
                )
                took = []
                for number in range(options.kill):
                    node_id = 1 + number % 3
                    took.append(failover_s(cluster, node_id))
                    cluster.node(node_id).start()
                    cluster.until_in_sync(TOPIC)
                if took:
                    say(f"  fail-over of killed nodes: {', '.join(f'{each:.2f}' for each in took)} s")
        if options.logs:
            for server in cluster.servers.values():
                say(f"--- {server.name}")
                lines = server.log_path.read_text().splitlines()
                say("\n".join(each for each in lines if options.grep in each))
    return {
        "kinds": options.kinds,
        "fenced": false.fenced,
        "leaders_moved": false.leaders_moved,
        "controller_changes": max(0, len(false.epochs) - 1),
        "failover_s": took,
        "pause_s": pause_s,
        "load": loads[0],
        "failures": load.failures[:3],
    }


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[[], *KINDS])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kill", type=int, default=0)
    parser.add_argument("--session", type=int, default=0)
    parser.add_argument("--controller", action="append", default=[], help="KEY=VALUE of the controllers")
    parser.add_argument("--pause", type=float, default=0, help="one node at a time stands still, in s")
    parser.add_argument("--freeze", type=float, default=0, help="all servers stand still at once, in s")
    parser.add_argument("--every", type=float, default=10, help="seconds between pauses")
    parser.add_argument("--writes", type=float, default=0, help="seconds between two topics that are created")
    parser.add_argument("--disk-stall", type=int, default=0, help="ms that a controller's fsync takes longer")
    parser.add_argument("--logs", action="store_true")
    parser.add_argument("--grep", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("DETECTION_DIR")) as directory:
        try:
            found = measure(options, Path(directory))
        except HeadraceError as error:
            sys.exit(repr(error))
    say(json.dumps(found))


if __name__ == "__main__":
    main()
