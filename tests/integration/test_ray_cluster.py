"""A cluster on real Ray: `up`, kill -9 of its servers, and `down` without leftovers."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from console_pages import Pages, plain
from group_client import CoordinatorClient, GroupMember, committed
from headrace.clients.sync.consumer_io import Consumer
from headrace.clients.sync.producer_io import Producer
from headrace.protocol.model import TopicPartition
from headrace_command import PATIENCE_S, Headrace
from ray.core.generated.gcs_service_pb2 import GetAllNodeInfoRequest
from ray.core.generated.gcs_service_pb2_grpc import NodeInfoGcsServiceStub
from waiting import wait_for

pytestmark = pytest.mark.ray

PARTITIONS = 6
METRICS = (
    *("-X", "metrics.listener=127.0.0.1:0", "-X", "controller.metrics.listener=127.0.0.1:0"),
    *("-X", "metrics.ray.enable=true", "-X", "metrics.ray.interval.ms=200"),
)
RECOVERY_S = 300.0


@pytest.fixture(scope="module")
def headrace(tmp_path_factory: pytest.TempPathFactory, ray_address: str) -> Iterator[Headrace]:
    """A cluster of three storage nodes, for all tests of this module."""
    command = Headrace(tmp_path_factory.mktemp("cluster"), ray_address)
    try:
        command.up("--nodes", "3")
        yield command
        command.run("down", "--delete-data", "--yes")
        command.wait_until_nothing_runs()
    finally:
        command.kill_all()


class SteadyProducer:
    """Sends numbered records to every partition with acks=1, and records the acknowledged offsets."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)  # partition -> offset -> value
        self.failed: list[BaseException] = []
        self._producer = Producer(bootstrap, acks="1", linger_ms=5)
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> SteadyProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(RECOVERY_S)
        self._producer.flush(RECOVERY_S)
        self._producer.close(5.0)

    def count(self) -> dict[int, int]:
        """Acknowledged records per partition, so far."""
        return {partition: len(self.acknowledged[partition]) for partition in range(PARTITIONS)}

    def wait_for_more(self, what: str) -> None:
        """Wait until every partition has more acknowledged records."""
        before = self.count()
        wait_for(lambda: all(now > before[p] + 50 for p, now in self.count().items()), f"{what}: more acks")

    def _run(self) -> None:
        for number in itertools.count():
            if self._stop.wait(0.004):
                return
            partition, value = number % PARTITIONS, b"%010d" % number
            future = self._producer.send(self._topic, value, partition=partition)
            future.add_done_callback(lambda done, value=value: self._settle(done, value))

    def _settle(self, done: Any, value: bytes) -> None:
        error = done.exception()
        if error is not None:
            self.failed.append(error)
            return
        place = done.result()
        earlier = self.acknowledged[place.partition].setdefault(place.offset, value)
        assert earlier == value, f"offset {place.offset} was acknowledged twice"


def read_all(bootstrap: str, topic: str) -> dict[int, dict[int, bytes]]:
    """Every record of the topic: partition -> offset -> value."""
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found: dict[int, dict[int, bytes]] = {partition: {} for partition in range(PARTITIONS)}
    with Consumer(bootstrap=bootstrap, auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(*places)
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        ends_at = time.monotonic() + RECOVERY_S
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < ends_at, "the consumer has stalled"
            for record in consumer.poll(0.5):
                assert record.value is not None
                found[record.partition][record.offset] = record.value
    return found


def listening(processes: list[psutil.Process]) -> set[tuple[str, int]]:
    """Addresses and ports on which they accept connections."""
    found = [each for process in processes for each in process.net_connections("inet")]
    return {(each.laddr.ip, each.laddr.port) for each in found if each.status == psutil.CONN_LISTEN}


def test_acknowledged_records_survive_kill_9(headrace: Headrace) -> None:
    """kill -9 of a storage node, then of the controller, under a steady acks=1 producer. Ray restarts both
    under the same names and on the same disks; the producer sees no error; and every acknowledged record is
    at its offset, in order."""
    headrace.run("topic", "create", "steady", "-p", str(PARTITIONS), "-r", "1")
    status = headrace.running()
    bootstrap = ",".join(status["bootstrap"])
    with SteadyProducer(bootstrap, "steady") as producer:
        producer.wait_for_more("at the start")
        for victim in (status["nodes"][1], status["controller"]):
            os.kill(victim["pid"], signal.SIGKILL)

            def is_back(victim: dict[str, Any] = victim) -> bool:
                facts = headrace.status()
                servers = {server["name"]: server for server in [*facts["nodes"], *facts["controllers"]]}
                return facts["state"] == "running" and servers[victim["name"]]["pid"] != victim["pid"]

            wait_for(is_back, f"{victim['name']} is back")
            producer.wait_for_more(f"after the death of {victim['name']}")
    assert producer.failed == []

    found = read_all(bootstrap, "steady")
    for partition, acknowledged in producer.acknowledged.items():
        assert len(acknowledged) > 100
        lost = {
            offset: value for offset, value in acknowledged.items() if found[partition].get(offset) != value
        }
        assert lost == {}, f"partition {partition}: acknowledged, but not there"
        assert sorted(found[partition]) == list(range(len(found[partition]))), "offsets are dense"
        by_offset = [value for _, value in sorted(found[partition].items())]
        first_seen = list(
            dict.fromkeys(by_offset)
        )  # an unanswered batch may be in the log twice, never out of order
        assert first_seen == sorted(first_seen)


def test_restarted_node_keeps_its_identity(headrace: Headrace) -> None:
    """kill -9 of a node: it returns with the same node id, folder and port."""
    before = headrace.running()["nodes"][0]
    os.kill(before["pid"], signal.SIGKILL)

    def is_back() -> bool:
        facts = headrace.status()
        return facts["state"] == "running" and facts["nodes"][0]["pid"] != before["pid"]

    wait_for(is_back, "node-1 is back")
    after = headrace.running()["nodes"][0]
    for name in ("node_id", "cluster_id", "endpoint"):
        assert after[name] == before[name]
    assert after["broker_epoch"] > before["broker_epoch"]


def test_group_survives_kill_9_of_its_coordinator(headrace: Headrace) -> None:
    """Another node loads the group, and its member continues."""
    headrace.run("topic", "create", "read", "-p", "1")
    facts = headrace.running()

    async def scenario() -> None:
        with contextlib.closing(CoordinatorClient(",".join(facts["bootstrap"]))) as client:
            member = GroupMember(client, "g", session_ms=120_000)
            await member.join()
            await member.sync([(member.member_id, b"all")])
            await member.commit("read", 0, 5)
            coordinator = "{}:{}".format(*await client.find("g"))
            (victim,) = (node for node in facts["nodes"] if node["endpoint"] == coordinator)
            os.kill(victim["pid"], signal.SIGKILL)
            assert await committed(client, "g") == {("read", 0): 5}
            await member.commit("read", 0, 6)
            assert await committed(client, "g") == {("read", 0): 6}

    asyncio.run(asyncio.wait_for(scenario(), RECOVERY_S))
    headrace.running()


def test_up_adopts_running_actors(headrace: Headrace) -> None:
    """A second `up` finds them by name and starts nothing; contradicting options are refused."""
    before = headrace.running()
    _, errors = headrace.run("up")
    assert "adopted" in errors
    assert [node["pid"] for node in headrace.running()["nodes"]] == [node["pid"] for node in before["nodes"]]
    _, errors = headrace.run("up", "--nodes", "2", code=2)
    assert "does not remove" in errors


def test_up_serves_the_console(headrace: Headrace) -> None:
    """Of the running cluster, until Ctrl-C; the servers continue to run."""
    before = headrace.running()
    with headrace.start("up", "--console", "--console-port", "0") as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "the console is at" in line)
            with Pages(line.split()[4]) as pages:
                assert "Nodes active 3 of 3" in plain(pages.get("/"))
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 130
        finally:
            process.kill()
    assert [node["pid"] for node in headrace.running()["nodes"]] == [node["pid"] for node in before["nodes"]]


def test_records_through_the_command_line(headrace: Headrace, tmp_path: Path) -> None:
    """Produce from standard input and a file, consume with kcat's offsets and tokens, see the topic."""
    made = json.loads(headrace.run("topic", "create", "cli", "-p", "2", "-o", "json")[0])
    assert made[0]["replication_factor"] == 3  # the default for three nodes
    configs = json.loads(headrace.run("topic", "describe", "cli", "--all-configs", "-o", "json")[0])[0][
        "configs"
    ]
    assert configs["min.insync.replicas"] == "2"
    headrace.run("produce", "cli", "-K:", "-p", "0", data=b"k1:v1\nk2:v2\nplain")
    (tmp_path / "file").write_bytes(b"a\r\nb\r\n")
    headrace.run("produce", "cli", str(tmp_path / "file"), "-p", "1", "-H", "h=1", "-z", "zstd")
    out, _ = headrace.run("consume", "cli", "-e", "-p", "0", "-f", "%o %k %K %s\\n")
    assert out == b"0 k1 2 v1\n1 k2 2 v2\n2  -1 plain\n"
    out, _ = headrace.run("consume", "cli", "-e", "-p", "1", "-o", "-1", "-f", "%p/%o %s %h\\n")
    assert out == b"1/1 b h=1\n"
    out, _ = headrace.run("topic", "list", "-o", "jsonl")
    assert b'"cli"' in out
    out, _ = headrace.run("status")
    assert out.count(b"active") == 3
    _, errors = headrace.run("consume", "nowhere", "-e", code=3)
    assert "hint:" in errors


def check_metrics(headrace: Headrace) -> None:
    """The endpoints of the second cluster are its targets, and Ray takes its metrics, too."""
    groups = json.loads(headrace.run("telemetry", "targets", "--cluster", "second")[0])
    assert [each["labels"]["job"] for each in groups] == ["headrace-controllers", "headrace-nodes"]
    for group in groups:
        (target,) = group["targets"]
        with urllib.request.urlopen(f"http://{target}/metrics", timeout=30) as answer:
            assert b"headrace_build_info" in answer.read()

    def are_passed() -> bool:
        facts = json.loads(headrace.run("status", "--cluster", "second", "-o", "json")[0])
        pushed = [each["telemetry"]["ray"] for each in (*facts["nodes"], *facts["controllers"])]
        assert not any(each["failures"] for each in pushed)
        return all(each["pushes"] for each in pushed)

    wait_for(are_passed, "metrics are passed to Ray's pipeline")


def test_second_cluster_shares_the_ray(headrace: Headrace) -> None:
    """Nothing else is shared; the Ray cluster survives `down`."""
    headrace.up("--cluster", "second", "--nodes", "1", *METRICS)
    try:
        facts = json.loads(headrace.run("status", "--cluster", "second", "-o", "json")[0])
        assert (facts["state"], facts["ray_is_ours"], len(facts["nodes"])) == ("running", False, 1)
        assert facts["controller"]["cluster_id"] != headrace.running()["controller"]["cluster_id"]
        headrace.run("topic", "create", "mine", "--cluster", "second")
        headrace.run("topic", "describe", "mine", code=3)
        check_metrics(headrace)
    finally:
        headrace.run("down", "--cluster", "second", "--delete-data", "--yes")
    headrace.running()
    assert not (headrace.home / "data" / "second").exists()


def test_restart_doctor_and_bundle_act_through_ray(headrace: Headrace, tmp_path: Path) -> None:
    """A named server gets another process; the doctor reads the machine from there; the archive has the
    status, the stacks and the log of each server."""
    before = {each["name"]: each["pid"] for each in headrace.running()["nodes"]}
    _, errors = headrace.run("restart", "node-2")
    assert "node-2 runs headrace" in errors
    after = {each["name"]: each["pid"] for each in headrace.running()["nodes"]}
    assert {name for name in before if before[name] != after[name]} == {"node-2"}
    _, errors = headrace.run("restart", "node-9", code=1)
    assert "the cluster has no node-9" in errors
    doctor = headrace.start("doctor", "--all", "-o", "json")
    report = json.loads(doctor.communicate(timeout=PATIENCE_S)[0])
    assert doctor.returncode in (0, 1)  # the machine may have problems
    # topics with one replica and min.insync.replicas=2 accept acks=all, as in Kafka
    assert sum(topic["below_min"] for topic in report["cluster"]["topics"]) == 0
    (machine,) = report["machines"]
    assert machine["ray"]["niceness"] == os.nice(0)
    assert machine["clock"]["skew_s"] is not None
    assert {each["error"] for each in machine["reach"]} == {""}
    assert len(report["servers"]) == len(machine["reach"]) == 4
    archive = tmp_path / "bundle.tar.gz"
    facts = json.loads(headrace.run("debug", "bundle", "-f", str(archive), "-o", "json")[0])
    assert facts["missing"] == []
    with tarfile.open(archive) as opened:
        stream = opened.extractfile("bundle/servers/node-2.json")
        assert stream is not None
        server = json.loads(stream.read())
        names = opened.getnames()
    assert server["status"]["pid"] == after["node-2"]
    assert any("node-2" in thread for thread in server["stacks"])
    assert any(f"-{after['node-2']}.err" in name for name in names)


def test_client_inside_ray_finds_the_cluster(headrace: Headrace) -> None:
    """Without address and file: a driver of this Ray finds the storage nodes by their names."""
    facts = headrace.running()
    program = (
        "import os, ray, headrace\n"
        "os.environ['HEADRACE_HOME'] = '/nonexistent'\n"
        f"ray.init(address={facts['ray_address']!r}, log_to_driver=False)\n"
        "with headrace.Admin() as admin:\n"
        "    print(admin.describe_cluster().cluster_id)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=headrace.environment, capture_output=True, text=True, timeout=500
    )
    assert done.stdout.strip() == facts["controller"]["cluster_id"], done.stderr


def test_failed_start_gives_the_reason(tmp_path: Path) -> None:
    """A disk in use: `up` names the node and the reason, and leaves nothing behind."""
    command = Headrace(tmp_path)
    (tmp_path / "data" / "node-1").mkdir(parents=True)
    try:
        with (tmp_path / "data" / "node-1" / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            fcntl.lockf(lock, fcntl.LOCK_EX)
            arguments = ("--nodes", "1", "--ray-address", "local", "--data-dir", str(tmp_path / "data"))
            _, errors = command.run("up", *arguments, code=1)
        assert "node-1 cannot start" in errors
        assert "in use" in errors
        command.wait_until_nothing_runs()
        assert list(command.temp.iterdir()) == []
        assert not list(command.home.rglob("*.json"))
    finally:
        command.kill_all()


def test_failed_up_leaves_no_data(tmp_path: Path, ray_address: str) -> None:
    """A node that cannot listen has created its folder before: no file of the new cluster stays."""
    command = Headrace(tmp_path)
    where = ("--cluster", "failing", "--ray-address", ray_address)
    arguments = (*where, "--nodes", "1", "-X", "listener.host=192.0.2.1")
    _, errors = command.run("up", *arguments, code=1)
    assert "cannot start" in errors
    assert not (command.home / "data").exists()
    assert not list(command.home.rglob("*.json"))


def test_down_leaves_only_the_data(tmp_path: Path, ray_address: str) -> None:
    """No process and no temp dir is left after `down`; the data stays, and `up` finds it, on any Ray. The own
    Ray listens on loopback alone, and answers no caller without its token."""
    command = Headrace(tmp_path)
    command.environment["HEADRACE_CLUSTER"] = "kept"
    del command.environment["RAY_AUTH_MODE"]  # as outside of tests
    try:
        command.run("up", "--nodes", "1", "--ray-address", "local")
        facts = command.running("kept")
        cluster_id = facts["controller"]["cluster_id"]
        ports = listening(command.processes())
        assert len(ports) > 5
        assert {host for host, _ in ports} <= {"127.0.0.1", "::ffff:127.0.0.1"}
        secrets = {path.suffix: path for path in (command.home / "clusters").iterdir()}
        assert secrets.keys() == {".json", ".ray_token", ".secret"}
        assert {secrets[each].stat().st_mode & 0o777 for each in (".ray_token", ".secret")} == {0o600}
        with grpc.insecure_channel(facts["ray_address"]) as channel:
            asked = NodeInfoGcsServiceStub(channel)
            with pytest.raises(grpc.RpcError) as refused:
                asked.GetAllNodeInfo(GetAllNodeInfoRequest(), timeout=RECOVERY_S)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        command.run("down")
        command.wait_until_nothing_runs()
        assert list(command.temp.iterdir()) == []
        assert [path.name for path in command.home.iterdir() if any(path.iterdir())] == ["data"]
        command.run("down", code=3)
        command.run("status", code=3)
        command.run("up", "--nodes", "1", "--ray-address", ray_address, "-X", "listener.host=127.0.0.1")
        assert command.running("kept")["controller"]["cluster_id"] == cluster_id
        command.run("down", "--delete-data", "--yes")
        assert not (command.home / "data" / "kept").exists()
        command.wait_until_nothing_runs()
    finally:
        command.kill_all()
