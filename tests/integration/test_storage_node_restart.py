"""A storage node restarts after a kill or a shutdown: same node id, and all acknowledged records."""

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import node_process
import pytest
from fake_controller import FakeController
from fake_files import FakeFiles
from headrace.protocol import errors
from headrace.protocol.transport.dealer_io import Connection
from node_rig import TIMEOUT_S, Client, Rig, batch, node_rig, until


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
async def test_restart_keeps_port_id_and_records(rig: Rig, crash: bool) -> None:
    """Only after a clean stop no log is recovered."""
    topic_id = await rig.topic("t", partitions=2)
    client = await rig.client()
    for number in range(20):
        await client.produce(topic_id, batch(b"%d" % number), partition=number % 2)
    port, epoch = rig.node.port, rig.node.status()["broker_epoch"]
    client.close()
    await rig.restart(crash=crash)
    assert rig.node.port == port
    assert rig.node.status()["broker_epoch"] > epoch
    assert all(log_dir.was_clean is not crash for log_dir in rig.node._manager.dirs)
    client = await rig.client()
    found = [(await client.fetch(topic_id, partition=partition))[1] for partition in (0, 1)]
    assert [value for _, value in found[0]] == [b"%d" % number for number in range(0, 20, 2)]
    assert [value for _, value in found[1]] == [b"%d" % number for number in range(1, 20, 2)]


async def test_log_truncated_while_the_node_was_down_is_reported(
    rig: Rig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The registration names the log that lost its end, and so does the node's log."""

    def cut_the_log_of(folder: str) -> None:
        (path,) = tmp_path.rglob(f"{folder}/*.log")
        path.write_bytes(path.read_bytes()[:-1])

    topic_id = await rig.topic("t", partitions=2)
    client = await rig.client()
    for number in range(4):
        await client.produce(topic_id, batch(b"%d" % number), partition=number % 2)
    epoch = rig.node.status()["broker_epoch"]
    client.close()
    await rig.stop()
    cut_the_log_of("t-1")
    rig.node = rig.new_node()
    await rig.start()
    response = rig.controller.registrations[-1]
    assert (response.previous_broker_epoch, response.lost_replicas) == (epoch, (("t", 1),))
    assert "since the last shutdown: t-1" in caplog.text


async def start_process(directory: Path, controller: FakeController) -> tuple[Any, int]:
    """A node in its own process, ready; the process and its port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        node_process.__file__,
        str(directory),
        str(controller.router.port),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).split()
        assert line[:1] == [b"ready"], line
    except BaseException:
        await end(process)
        raise
    return process, int(line[1])


async def end(process: Any) -> None:
    """End the process in any state, and remove its files."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def test_kill_9_loses_no_acknowledged_batch(tmp_path: Path) -> None:
    """During acks=1 produces; the process returns on its port."""
    controller = FakeController()
    controller.start()
    process, port = await start_process(tmp_path / "d", controller)
    try:
        topic_id = controller.create_topic("t")
        client = Client(await Connection.open("127.0.0.1", port, client_id="t", timeout_s=TIMEOUT_S))
        acked: list[bytes] = []

        async def produce_on() -> None:
            number = 0
            while True:
                value = b"%d" % number
                answer = await client.produce(topic_id, batch(value), acks=1)
                if answer.error_code == 0:
                    acked.append(value)
                    number += 1

        producing = asyncio.create_task(produce_on())
        await until(lambda: len(acked) >= 200)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        with pytest.raises(errors.NetworkError):
            await producing
        process, again = await start_process(tmp_path / "d", controller)
        assert again == port
        await until(lambda: controller.heartbeats[-1].metadata_offset >= controller.epochs[1])
        client = Client(await Connection.open("127.0.0.1", port, client_id="t", timeout_s=TIMEOUT_S))
        found: list[bytes | None] = []
        while True:
            answer, values = await client.fetch(topic_id, len(found))
            assert answer.error_code == 0
            found += [value for _, value in values]
            if len(found) == answer.high_watermark:
                break
        client.close()
        assert found[: len(acked)] == acked
        assert len(found) <= len(acked) + 1, "at most the batch in flight"
    finally:
        await end(process)
        controller.close()


async def test_generated_node_id_is_stored_on_the_disk(tmp_path: Path) -> None:
    """The controller generated it; the next start registers with it."""
    async with node_rig(tmp_path, config={"node.id": -1}) as rig:
        assert rig.node.node_id == 1001
        await rig.restart()
        assert [request.node_id for request in rig.controller.registrations] == [-1, 1001]
        first, second = (request.log_dir_ids for request in rig.controller.registrations)
        assert first == second
        assert len(first[0]) == 16


async def test_identity_of_the_disk_is_checked(rig: Rig) -> None:
    """Another configured node id, or another cluster, ends the start."""
    await rig.stop()
    rig.config["node.id"] = 2
    with pytest.raises(errors.ConfigError, match="node 1"):
        await rig.new_node().start()
    rig.config["node.id"] = 1
    rig.controller.cluster_id = "another"
    with pytest.raises(errors.InconsistentClusterIdError, match="another"):
        await rig.new_node().start()


async def test_refused_registration_ends_the_node(tmp_path: Path) -> None:
    """Another cluster at once, a duplicate id after its retries; everything is released."""
    async with node_rig(tmp_path, config={"initial.broker.registration.timeout.ms": 150}) as rig:
        await rig.stop()
        for error in (
            errors.InconsistentClusterIdError("cluster x"),
            errors.DuplicateBrokerRegistrationError("node 1 is alive"),
        ):
            rig.controller.refuse_registration = error
            with pytest.raises(type(error), match=error.detail):
                await rig.new_node().start()
        rig.controller.refuse_registration = None
        rig.node = rig.new_node()
        await rig.start()


async def test_remembered_port_in_use_is_replaced(rig: Rig) -> None:
    """The new one is stored."""
    old = rig.node.port
    await rig.stop()
    with socket.create_server(("127.0.0.1", old)):
        rig.node = rig.new_node()
        await rig.start()
        assert rig.node.port != old
    chosen = rig.node.port
    await rig.restart()
    assert rig.node.port == chosen


async def test_configured_port_in_use_is_an_error(rig: Rig) -> None:
    """The dirs are released."""
    await rig.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        rig.config["listener.port"] = taken.getsockname()[1]
        error = rf"node 1: cannot listen on 127.0.0.1:{taken.getsockname()[1]}: .*in use \(.*ss -ltnp"
        with pytest.raises(OSError, match=error):
            await rig.new_node().start()
    del rig.config["listener.port"]
    rig.node = rig.new_node()
    await rig.start()


async def test_wiped_node_takes_the_port_of_its_registration(rig: Rig, tmp_path: Path) -> None:
    """Its log dir is empty; a node that was never registered takes any port."""
    old = rig.node.port
    await rig.node.kill()
    await rig.ended()
    shutil.rmtree(tmp_path / "d0")
    rig.controller.close()
    rig.node = rig.new_node()
    starting = asyncio.create_task(rig.start())
    await until((tmp_path / "d0").exists)
    rig.controller.restart()
    await starting
    assert rig.node.port == old
    assert (tmp_path / "d0" / "listener.port").read_text() == f"{old}\n"
    await rig.stop()
    rig.config |= {"node.id": 2, "log.dirs": str(tmp_path / "other")}
    rig.node = rig.new_node()
    await rig.start()
    assert rig.node.port not in (0, old)


@pytest.mark.parametrize("is_wiped", [True, False], ids=["wiped", "with its disk"])
async def test_node_without_a_controller_stops_while_it_starts(
    rig: Rig, tmp_path: Path, is_wiped: bool
) -> None:
    """It waits for its ports, or for its registration: the start ends, and the dirs are released."""
    await rig.stop()
    if is_wiped:
        shutil.rmtree(tmp_path / "d0")
    rig.controller.close()
    node = rig.new_node()
    starting = asyncio.create_task(node.start())
    await until((tmp_path / "d0").exists if is_wiped else lambda: node.status()["state"] != "starting")
    await node.stop()
    with pytest.raises(errors.ClosedError, match="stopped while it started"):
        await starting
    rig.controller.restart()
    rig.node = rig.new_node()
    await rig.start()


async def test_log_dir_in_use_is_refused(rig: Rig) -> None:
    """The first node is not disturbed."""
    with pytest.raises(errors.KafkaStorageError, match="in use"):
        await rig.new_node().start()
    topic_id = await rig.topic("t")
    assert (await (await rig.client()).produce(topic_id, batch(b"a"))).error_code == 0


async def test_starting_node_can_be_stopped(tmp_path: Path) -> None:
    """No controller: start waits, stop ends it."""
    rig = Rig(tmp_path, None, {})
    rig.controller.start()
    rig.controller.is_silent = True
    starting = asyncio.create_task(rig.node.start())
    await until(lambda: rig.node.status()["state"] != "starting")
    await rig.node.stop()
    with pytest.raises(errors.ClosedError):
        await starting
    rig.controller.close()


async def test_repeated_stop_is_no_error(rig: Rig) -> None:
    """Also after the end."""
    await asyncio.gather(rig.node.stop(), rig.node.stop())
    await rig.node.stop()
    await rig.ended()


async def test_node_that_fails_while_it_stops_does_not_hang(tmp_path: Path) -> None:
    """The controller does not respond to the controlled shutdown; the only disk fails meanwhile."""
    files = FakeFiles()
    async with node_rig(tmp_path, files, {"controlled.shutdown.timeout.ms": 3_600_000}) as rig:
        topic_id = await rig.topic("t")
        client = await rig.client()
        rig.controller.is_silent = True
        stopping = asyncio.create_task(rig.node.stop())
        await until(lambda: rig.node.status()["state"] == "shutting_down")
        files.fail("pwrite", "t-0")
        assert (await client.produce(topic_id, batch(b"a"))).error_code == errors.KafkaStorageError.code
        await stopping
        with pytest.raises(errors.KafkaStorageError):
            await rig.ended()


async def test_new_disk_that_fails_at_its_identity_is_offline(tmp_path: Path) -> None:
    """The first start with two dirs: the node starts on the other."""
    files = FakeFiles()
    files.fail("rename", "/a/meta.properties")
    async with node_rig(tmp_path, files, {"log.dirs": "/a,/b"}) as rig:
        status = json.loads(json.dumps(rig.node.status()))
        assert [bool(log_dir["failure"]) for log_dir in status["log_dirs"]] == [True, False]
        topic_id = await rig.topic("t")
        assert (await (await rig.client()).produce(topic_id, batch(b"a"))).error_code == 0
