"""Faults of Ray: its processes are killed one kind at a time, on a Ray of several machines.

The session timeout is ten minutes in the short tests, so that only a notice of Ray can fence a node.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_cluster import hold
from fault_workload import Workload
from headrace import utf8
from headrace_command import Headrace
from ray_machines import RayMachines, kill_process

pytestmark = pytest.mark.ray

NEVER_MS = 600_000
PATIENCE_S = 300.0
PLACES = """
import os
import ray
from headrace import stream, utf8
app = stream.App("placed", key=utf8, value=utf8, commit_interval_ms=100, standby_replicas=1)
place = lambda _: f"{ray.get_runtime_context().get_node_id()} {os.environ.get('CUDA_VISIBLE_DEVICES')}"
app.stream("placed-in").group_by_key().count(store="counts").to_stream().map_values(place).to("placed-out")
"""
SUBSCRIBED = "subscribed to notifications of Ray's GCS"
# Ray's health checks; by default a machine is dead about 15 s after its raylet. Here a refused connection is
# retried at once, so a dead machine is detected in 2.5 s; a slow one has 10 s.
QUICK = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2_000,
    "health_check_failure_threshold": 5,
}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayMachines]:
    """Three machines, whose nodes have a session timeout of ten minutes."""
    streams = {"group.streams.session.timeout.ms": 6_000, "group.streams.heartbeat.interval.ms": 1_000}
    config = {"broker.session.timeout.ms": NEVER_MS, **streams}
    with RayMachines(tmp_path_factory.mktemp("ray"), config=config, ray=QUICK) as found:
        yield found


def test_notice_of_ray_alone_fences_a_killed_node(machines: RayMachines) -> None:
    """SIGKILL of the leader's process under load: another node leads long before its session expires. Ray
    restarts it, and it registers under a new broker epoch although the old session has not expired."""
    machines.create_topic("killed", 3, min_insync_replicas=2)
    work = Workload(machines, "killed").start()
    leader = machines.leader("killed")
    before = machines.server(f"node-{leader}")
    kill_process(before["pid"])
    machines.until_led_by_another("killed", leader)
    work.more()
    machines.until_in_sync("killed")
    work.more()
    work.finish()
    after = machines.server(f"node-{leader}")
    assert after["pid"] != before["pid"]
    assert after["broker_epoch"] > before["broker_epoch"]
    assert after["node_id"] == before["node_id"]


def test_node_waits_for_the_machine_with_its_disk(machines: RayMachines) -> None:
    """The raylet of a machine is killed: the other nodes serve, and Ray starts the node on no other machine.
    When the machine is back, the node runs there, with its disk, and rejoins the ISRs."""
    machines.create_topic("moved", 3, min_insync_replicas=2)
    work = Workload(machines, "moved").start()
    before = machines.server("node-2")
    machines.kill(2)
    machines.until_led_by_another("moved", 2)
    work.more()
    assert machines.servers()["node-2"]["state"] == "waiting"
    assert "node-2 waits for a machine with Ray resource headrace-disk-2" in machines.up()
    machines.add(2)
    machines.until_in_sync("moved")
    work.more()
    work.finish()
    after = machines.server("node-2")
    assert after["log_dirs"][0]["path"] == before["log_dirs"][0]["path"]
    assert after["broker_epoch"] > before["broker_epoch"]
    machines.until(
        lambda: all(each["state"] in ("running", "active") for each in machines.servers().values()),
        "all servers run",
    )


@pytest.mark.faults
def test_workers_of_streams_have_a_gpu_each(machines: RayMachines, tmp_path: Path) -> None:
    """Three workers that need a GPU are on three machines. A machine dies: the tasks of its worker go on with
    the others, and the worker waits for a GPU, which a machine that comes back has."""
    (tmp_path / "placed.py").write_text(PLACES)
    known = machines.command.environment.get("PYTHONPATH", "")
    machines.command.environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(tmp_path), known)))
    machines.create_topic("placed-in", 6, min_insync_replicas=2)
    machines.create_topic("placed-out", min_insync_replicas=2)
    machines.until_in_sync("placed-in")
    where = ("-b", machines.bootstrap, "--ray-address", machines.address)
    options = ("--workers", "3", "--gpus", "1", "--cpus", "0.1", "--working-dir", str(tmp_path))
    options = (*options, "--detach", "--timeout", str(PATIENCE_S))
    machines.command.run("stream", "run", "placed:app", *where, *options)
    found: dict[str, str] = {}  # by key, where it was processed last
    config = {"auto.offset.reset": "earliest"}
    with (
        machines.clients.producer(key=utf8, value=utf8) as producer,
        machines.clients.consumer("placed-out", key=utf8, value=utf8, config=config) as consumer,
    ):

        def places() -> set[str]:
            """Where a record of each partition is processed now."""
            found.clear()
            keys = [f"k{number}" for number in range(40)]
            for key in keys:
                producer.send("placed-in", "x", key=key).result(PATIENCE_S)

            def is_complete() -> bool:
                for record in consumer.poll(0.5):
                    found[record.key] = record.value
                return len(found) == len(keys)

            machines.until(is_complete, "each record is processed")
            return set(found.values())

        machines.until(lambda: len(places()) == 3, "three workers have tasks")
        first = set(found.values())
        assert {place.split()[1] for place in first} == {"0"}, "each has the only GPU of its machine"
        assert len({place.split()[0] for place in first}) == 3, "on a machine of its own"
        machines.kill(3)
        machines.until(
            lambda: len(places()) == 2 and set(found.values()) < first, "two workers have all tasks"
        )
        machines.add(3)
        machines.until(lambda: len(places()) == 3, "a worker runs on the new machine")
        (gone,), (new,) = first - set(found.values()), set(found.values()) - first
        assert gone.split()[1] == new.split()[1] == "0"
    machines.command.run("stream", "stop", "placed", "--ray-address", machines.address)
    machines.until_in_sync("placed-in")


def test_data_plane_works_without_the_gcs(machines: RayMachines) -> None:
    """Ray's GCS is down for a while: records are written and read, topics are created. Neither its end nor
    its restart fences a node. Then Ray finds its actors again, and reports the end of a process again."""
    machines.create_topic("headless", 3, min_insync_replicas=2)
    work = Workload(machines, "headless").start()
    fencings, subscriptions = machines.log_lines(" fencing node"), machines.log_lines(SUBSCRIBED)
    before = machines.partition("headless")
    machines.kill_gcs()
    _, errors = machines.command.run("status", code=1)
    assert "start its head node again; -b asks the storage nodes" in errors
    machines.create_topic("made-meanwhile")
    work.more()
    machines.start_gcs()
    names = {"node-1", "node-2", "node-3", "controller-1"}
    machines.until(lambda: set(machines.servers()) == names, "Ray knows its actors again")
    machines.until(
        lambda: len(machines.log_lines(SUBSCRIBED)) > len(subscriptions), "the controller is subscribed again"
    )
    work.more()
    assert machines.log_lines(" fencing node") == fencings
    leader = machines.leader("headless")
    assert (leader, machines.partition("headless").leader_epoch) == (before.leader, before.leader_epoch)
    kill_process(machines.server(f"node-{leader}")["pid"])
    machines.until_led_by_another("headless", leader)
    machines.until_in_sync("headless")
    work.more()
    work.finish()
    assert len(machines.log_lines(" fencing node")) == len(fencings) + 1


def test_up_restarts_an_ended_actor(machines: RayMachines) -> None:
    """An actor has ended permanently, as after too many restarts or a GCS without storage: `up` adopts the
    other actors, and starts this one with its disk."""
    machines.create_topic("again", 3, min_insync_replicas=2)
    machines.end_actor("node-3")
    machines.until_led_by_another("again", 3)
    assert "adopted controller-1, node-1, node-2\n" in machines.up()
    machines.until_in_sync("again")


# --- long tests, with the default session -----------------------------------------------------------------


@pytest.mark.faults
def test_leader_is_killed_five_times(tmp_path: Any, measured: Any) -> None:
    """SIGKILL of the leader's process, five times, under load and with all defaults."""
    with RayMachines(tmp_path) as machines:
        machines.create_topic("t", 3, min_insync_replicas=2)
        work = Workload(machines, "t").start()
        begun_s = time.monotonic()
        for _ in range(5):
            leader = machines.leader("t")
            kill_process(machines.server(f"node-{leader}")["pid"])
            machines.until_led_by_another("t", leader)
            work.more()
            machines.until_in_sync("t")
        measured(work, begun_s)
        work.finish()


@pytest.mark.faults
def test_every_machine_is_killed_and_restarted(tmp_path: Any, measured: Any) -> None:
    """One machine after the other, with its raylet; missed heartbeats fence the node long before Ray
    notices."""
    with RayMachines(tmp_path) as machines:
        machines.create_topic("t", 3, min_insync_replicas=2)
        work = Workload(machines, "t").start()
        begun_s = time.monotonic()
        for number in (1, 2, 3):
            machines.kill(number)
            machines.until_led_by_another("t", number)
            work.more()
            machines.add(number)
            machines.until_in_sync("t")
        measured(work, begun_s)
        work.finish()


@pytest.mark.faults
def test_gcs_is_down_for_longer_than_rays_timeout(tmp_path: Any, measured: Any) -> None:
    """75 s without the GCS, where raylets end after 60 s by default. A node that is killed meanwhile is
    fenced by its missed heartbeats, and Ray restarts it when the GCS is back."""
    with RayMachines(tmp_path, ray={"gcs_rpc_server_reconnect_timeout_s": 3_600}) as machines:
        machines.create_topic("t", 3, min_insync_replicas=2)
        work = Workload(machines, "t").start()
        pids = {name: server["pid"] for name, server in machines.servers().items()}
        machines.kill_gcs()
        begun_s = time.monotonic()
        leader = machines.leader("t")
        kill_process(pids[f"node-{leader}"])
        machines.until_led_by_another("t", leader)
        hold(75)
        work.more()
        measured(work, begun_s)
        machines.start_gcs()
        machines.until_in_sync("t")
        work.more()
        work.finish()


@pytest.mark.faults
def test_up_and_down_with_a_missing_machine(tmp_path: Any) -> None:
    """`up` refuses a node without a machine and names the missing resource; with the machine it starts.
    `down` does not wait for a missing machine, and reports the files that it could not delete."""
    with RayMachines(tmp_path, nodes=1, ray=QUICK) as machines:
        errors = machines.up(nodes=2, code=2)
        assert "node-2 needs a machine with the Ray resource headrace-disk-2" in errors
        machines.add(2)
        machines.up(nodes=2)
        assert machines.servers()["node-2"]["state"] == "active"
        machines.kill(2)
        machines.until(
            lambda: machines.servers()["node-2"]["state"] == "waiting", "Ray reports the missing machine"
        )
        errors = machines.command.run("down", "--delete-data", "--yes", code=4)[1]
        assert "node-2: no machine, its data was not deleted" in errors
        assert machines.command.run("status", code=3)[0] == b""


@pytest.mark.faults
def test_up_restarts_a_local_ray_whose_gcs_ended(tmp_path: Any) -> None:
    """On one machine Ray ends all its processes with the GCS. `status` reports the command, and `up` restarts
    the cluster with every acknowledged record."""
    command = Headrace(tmp_path)
    try:
        command.run("up", "--nodes", "1", "--ray-address", "local")
        command.run("topic", "create", "t")
        command.run("produce", "t", data=b"a\nb\n")
        (gcs,) = [process for process in command.processes() if process.name() == "gcs_server"]
        kill_process(gcs.pid)
        command.wait_until_nothing_runs()
        assert "`headrace up` restarts it with its data" in command.run("status", code=1)[1]
        command.run("up")
        assert command.run("consume", "t", "-e")[0] == b"a\nb\n"
        command.run("down", "--delete-data", "--yes")
        command.wait_until_nothing_runs()
    finally:
        command.kill_all()
