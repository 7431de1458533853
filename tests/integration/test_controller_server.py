"""A controller on real sockets and files: registrations, topics, fencing, restarts."""

import asyncio
import dataclasses
from contextlib import asynccontextmanager

import pytest
from controller_kit import incarnation
from fake_files import FakeFiles
from headrace.controller.config import ControllerConfig
from headrace.controller.controller_io import ControllerServer
from headrace.protocol import errors
from headrace.protocol.messages import control, registry
from headrace.protocol.messages.data import MetadataRequest
from headrace.protocol.metadata.features import OWN_RANGES
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.records import FormatRecord, TopicRecord
from headrace.protocol.metadata.replay import image_of, replay
from headrace.protocol.transport.dealer_io import Connection
from headrace.runtime.files.files_io import OsFiles
from metadata_rig import Voter


@asynccontextmanager
async def controller(directory, **config):
    # the tests send the nodes' heartbeats, on a machine of any speed
    keys = {"metadata.log.dir": str(directory), "broker.session.timeout.ms": 60_000}
    server = ControllerServer(ControllerConfig.of({**keys, **config}))
    await server.start()
    running = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        await server.stop()
        await running


class Node:
    """A storage node's requests: registration, heartbeats, FetchMetadata."""

    def __init__(self, connection: Connection, node_id: int = 1, process: int = 1) -> None:
        self.connection, self.node_id, self.process = connection, node_id, process
        self.image = MetadataImage()
        self.broker_epoch = -1
        self.snapshots = 0

    async def ask(self, api, body):
        return (await self.connection.request(api, body, timeout_s=100)).body

    async def register(self):
        answer = await self.ask(
            registry.BROKER_REGISTRATION,
            control.BrokerRegistrationRequest(
                self.node_id, "", incarnation(self.process), "localhost", 9000, features=OWN_RANGES
            ),
        )
        if not answer.error_code:
            self.node_id, self.broker_epoch = answer.node_id, answer.broker_epoch
        return answer

    async def beat(self, **facts):
        return await self.ask(
            registry.BROKER_HEARTBEAT,
            control.BrokerHeartbeatRequest(self.node_id, self.broker_epoch, self.image.offset, **facts),
        )

    async def follow(self, max_wait_ms: int = 0):
        request = control.FetchMetadataRequest(self.node_id, self.image.offset, max_wait_ms)
        answer = await self.ask(registry.FETCH_METADATA, request)
        if answer.is_snapshot:
            self.snapshots += 1
            self.image = image_of(answer.records, answer.end_offset - 1)
        elif answer.records:
            self.image, _ = replay(self.image, answer.base_offset, answer.records)
        return answer

    async def catch_up(self):
        while (await self.follow()).records:
            pass

    async def join(self):
        await self.register()
        await self.catch_up()
        assert not (await self.beat()).is_fenced
        await self.catch_up()

    async def create(self, name, **spec):
        answer = await self.ask(
            registry.CREATE_TOPICS, control.CreateTopicsRequest((control.NewTopicSpec(name, **spec),))
        )
        return answer.topics[0]


@asynccontextmanager
async def node(server, node_id: int = 1, process: int = 1):
    connection = await Connection.open(server.host, server.port, client_id="node", timeout_s=100)
    try:
        yield Node(connection, node_id, process)
    finally:
        connection.close()


async def eventually(condition) -> None:
    """Run the loop until the condition holds."""
    for _ in range(60_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the condition never held")


async def test_node_registers_and_topics_are_changed(tmp_path) -> None:
    """Register, catch up, be unfenced; then create, grow, alter, describe and delete a topic."""
    async with controller(tmp_path) as server, node(server, -1) as me:
        await me.join()
        assert me.node_id == 1001
        made = await me.create("t", num_partitions=2, configs={"max.message.bytes": "2048"})
        assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 1)
        grown = await me.ask(
            registry.CREATE_PARTITIONS, control.CreatePartitionsRequest((control.PartitionGrowth("t", 3),))
        )
        assert not grown.results[0].error_code
        resource = control.ConfigResource(2, "t")
        change = control.AlterConfigs(resource, (control.ConfigChange("min.insync.replicas", 0, "1"),))
        altered = await me.ask(
            registry.INCREMENTAL_ALTER_CONFIGS, control.IncrementalAlterConfigsRequest((change,))
        )
        assert not altered.results[0].error_code
        described = await me.ask(registry.DESCRIBE_CONFIGS, control.DescribeConfigsRequest((resource,)))
        values = {e.name: e.value for e in described.results[0].entries if e.source == 1}
        assert values == {"max.message.bytes": "2048", "min.insync.replicas": "1"}
        await me.catch_up()
        assert me.image.offset == altered.metadata_offset
        assert [p.leader for p in me.image.topics["t"].partitions] == [1001] * 3
        assert (await me.create("t")).error_code == errors.TopicAlreadyExistsError.code
        gone = await me.ask(registry.DELETE_TOPICS, control.DeleteTopicsRequest(("t",)))
        assert not gone.results[0].error_code
        await me.catch_up()
        assert not me.image.topics
        assert me.image.configs == {(4, ""): {"min.insync.replicas": "1"}}


async def test_restart_keeps_cluster_epochs_and_topics(tmp_path) -> None:
    """On the same port; the node continues its old session."""
    async with controller(tmp_path) as server, node(server) as me:
        await me.join()
        topic_id = (await me.create("t", num_partitions=3)).topic_id
        await me.catch_up()
        before, cluster_id, port = me.image, server.cluster_id, server.port
        first_epoch = server.status()["controller_epoch"]
    async with controller(tmp_path) as server, node(server) as again:
        assert (server.cluster_id, server.port) == (cluster_id, port)
        assert server.status()["controller_epoch"] == first_epoch + 1
        await again.catch_up()
        # The new epoch has a record of its own, and so a higher offset.
        assert again.image == dataclasses.replace(before, offset=again.image.offset)
        assert again.image.topic_names == {topic_id: "t"}
        again.broker_epoch = me.broker_epoch
        assert not (await again.beat()).is_fenced


async def test_log_without_voters_is_adopted(tmp_path) -> None:
    """It has no directory id and no voters: the controller becomes the only voter, in a higher epoch."""
    old = Voter(OsFiles(), metadata_dir=str(tmp_path))
    old.decide(FormatRecord("old-cluster"), TopicRecord("t", bytes(16)))
    old.flush()
    epoch = old.epoch
    old.log.close()
    for expected_epoch in (epoch + 1, epoch + 2):
        async with controller(tmp_path) as server:
            assert server.cluster_id == "old-cluster"
            facts = server.status()
            assert (facts["topics"], facts["controller_epoch"]) == (1, expected_epoch)
            assert facts["quorum"]["voters"] == [1]
    assert "cluster.id=old-cluster" in (tmp_path / "meta.properties").read_text()


async def test_node_without_heartbeats_is_fenced(tmp_path) -> None:
    """After its session its partitions lose their leader; the next heartbeat of the same registration
    unfences it, with higher leader epochs."""
    times = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500}
    async with controller(tmp_path, **times) as server, node(server) as me:
        await me.join()
        await me.create("t")
        await me.catch_up()
        answer = await me.follow(max_wait_ms=60_000)
        assert answer.records
        assert me.image.brokers[1].is_fenced
        assert me.image.topics["t"].partitions[0].leader == -1
        assert not (await me.beat()).is_fenced
        await me.follow(max_wait_ms=60_000)
        partition = me.image.topics["t"].partitions[0]
        assert (partition.leader, partition.leader_epoch) == (1, 2)


async def test_controlled_shutdown_ends_the_session(tmp_path) -> None:
    """A new process need not wait for the old session; the old broker epoch is stale from then on."""
    async with controller(tmp_path) as server, node(server) as old, node(server, process=2) as new:
        await old.join()
        await old.create("t")
        assert (await new.register()).error_code == 101
        await old.catch_up()
        leaving = await old.beat(want_shutdown=True)
        assert leaving.should_shutdown
        assert leaving.is_fenced
        await new.join()
        assert new.broker_epoch > old.broker_epoch
        assert (await old.beat()).error_code == errors.StaleBrokerEpochError.code
        assert new.image.topics["t"].partitions[0].leader == 1


async def test_metadata_polls_wait_for_records_or_their_timeout(tmp_path) -> None:
    """A poll ahead of the log is refused; polls of closed connections are dropped."""
    async with controller(tmp_path) as server, node(server) as me, node(server) as other:
        await me.join()
        empty = await me.follow(max_wait_ms=30)
        assert (empty.records, empty.base_offset, empty.end_offset) == (
            (),
            me.image.offset + 1,
            me.image.offset + 1,
        )
        other.image = me.image
        poll = asyncio.create_task(other.follow(max_wait_ms=20_000))
        await eventually(lambda: server.status()["parked_polls"] == 1)
        made = await me.create("t")
        assert made.error_code == 0
        await poll
        assert "t" in other.image.topics
        ahead = control.FetchMetadataRequest(1, 10_000, 0)
        with pytest.raises(errors.OffsetOutOfRangeError):
            await me.ask(registry.FETCH_METADATA, ahead)
        poll = asyncio.create_task(other.follow(max_wait_ms=20_000))
        await eventually(lambda: server.status()["parked_polls"] == 1)
        other.connection.close()
        await asyncio.gather(poll, return_exceptions=True)
        await eventually(lambda: server.status()["parked_polls"] == 0)


async def test_snapshots_are_written_served_and_loaded(tmp_path) -> None:
    """A short interval and a short tail: a new reader gets a snapshot, and so does a restart."""
    small = {"metadata.log.max.record.bytes.between.snapshots": 500, "metadata.tail.max.records": 2}
    async with controller(tmp_path, **small) as server, node(server) as me, node(server) as late:
        await me.join()
        for number in range(20):
            assert not (await me.create(f"t{number}")).error_code
        await me.catch_up()
        await late.catch_up()
        assert late.snapshots
        assert late.image == me.image
        assert server.status()["snapshot_end_offset"] > 0
    async with controller(tmp_path, **small) as server, node(server) as again:
        await again.catch_up()
        assert again.image == dataclasses.replace(me.image, offset=again.image.offset)


async def test_hostile_requests_are_refused(tmp_path) -> None:
    """A million partitions, too many topics, an API of a storage node: each gets its error."""
    async with controller(tmp_path) as server, node(server) as me:
        await me.join()
        assert (await me.create("t", num_partitions=1_000_000)).error_code == 37
        assert (await me.create("t", replication_factor=32767)).error_code == 38
        many = tuple(control.NewTopicSpec(f"t{n}") for n in range(20_000))
        with pytest.raises(errors.InvalidRequestError, match="at most"):
            await me.ask(registry.CREATE_TOPICS, control.CreateTopicsRequest(many))
        with pytest.raises(errors.UnsupportedVersionError):
            await me.ask(registry.METADATA, MetadataRequest())
        assert (
            await me.ask(registry.UNREGISTER_BROKER, control.UnregisterBrokerRequest(9))
        ).error_code == 102
        assert not (await me.create("t")).error_code


async def test_folder_is_locked_by_one_controller(tmp_path) -> None:
    """A second process on the same folder fails after a while, and the first one continues."""
    async with controller(tmp_path) as server, node(server) as me:
        config = {"metadata.log.dir": str(tmp_path), "metadata.log.lock.timeout.ms": 60}
        second = ControllerServer(ControllerConfig.of(config))
        with pytest.raises(errors.KafkaStorageError, match="locked"):
            await second.start()
        await me.join()


def fake_controller(files, **config) -> ControllerServer:
    """A controller on a disk of the test; its checkpoints are far between, so that faults hit decisions."""
    keys = {"metadata.log.dir": "/metadata", "metadata.log.checkpoint.interval.ms": 60_000}
    return ControllerServer(ControllerConfig.of({**keys, **config}), files)


async def test_acknowledged_topics_survive_power_loss() -> None:
    """After every response the power could fail: each topic is flushed. Concurrent clients share flushes."""
    files = FakeFiles()
    server = fake_controller(files)
    await server.start()
    running = asyncio.create_task(server.run())
    async with node(server) as me:
        await me.join()
        for number in range(5):
            made = await asyncio.gather(*(me.create(f"t{number}-{i}") for i in range(8)))
            assert not any(answer.error_code for answer in made)
            found = Voter(files.power_loss("none")).image
            assert {answer.name for answer in made} <= found.topics.keys()
    syncs = sum(
        operation.startswith("fdatasync") and operation.endswith(".log") for operation in files.operations
    )
    assert syncs < 30, "40 topics in groups of up to 8"
    await server.stop()
    await running


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
async def test_disk_error_ends_the_controller_without_a_response(operation) -> None:
    """`run` raises, the client sees a closed connection, and acknowledged topics exist after the restart."""
    files = FakeFiles()
    server = fake_controller(files)
    await server.start()
    running = asyncio.create_task(server.run())
    async with node(server) as me:
        await me.join()
        assert not (await me.create("kept")).error_code
        files.fail(operation, ".log")
        with pytest.raises(errors.NetworkError):
            await me.create("lost")
        with pytest.raises(errors.KafkaStorageError):
            await running
    again = fake_controller(files.power_loss("none"))
    await again.start()
    running = asyncio.create_task(again.run())
    assert again.status()["topics"] == 1
    await again.stop()
    await running


async def test_failed_start_releases_the_lock() -> None:
    """The disk fails during recovery."""
    files = FakeFiles()
    files.fail("fdatasync")
    with pytest.raises(errors.KafkaStorageError):
        await fake_controller(files).start()
    server = fake_controller(files)
    await server.start()
    running = asyncio.create_task(server.run())
    await server.stop()
    await running


async def test_full_queue_refuses_requests(tmp_path) -> None:
    """With a retriable error; queued requests are answered."""
    async with controller(tmp_path, **{"queued.max.requests": 3}) as server, node(server) as me:
        await me.join()
        answers = await asyncio.gather(*(me.create(f"t{n}") for n in range(50)), return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, errors.ThrottlingQuotaExceededError)]
        made = [answer.name for answer in answers if not isinstance(answer, Exception)]
        await me.catch_up()
        assert refused
        assert set(made) == set(me.image.topics)
        assert len(refused) + len(made) == 50


async def test_remembered_port_in_use_is_replaced(tmp_path) -> None:
    """A configured port is not."""
    async with controller(tmp_path / "a") as first:
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "listener.port").write_text(str(first.port))
        async with controller(tmp_path / "b") as second:
            assert second.port != first.port
        config = {"metadata.log.dir": str(tmp_path / "c"), "listener.port": first.port}
        with pytest.raises(OSError, match="listen"):
            await ControllerServer(ControllerConfig.of(config)).start()
