"""Three controllers on real sockets and files: election, replication, failure of the leader."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from controller_kit import incarnation
from headrace.controller.config import ControllerConfig
from headrace.controller.controller_io import ControllerServer
from headrace.protocol import errors
from headrace.protocol.messages import control, quorum, registry
from headrace.protocol.metadata.features import OWN_RANGES
from headrace.protocol.metadata.image import MetadataImage
from headrace.protocol.metadata.replay import image_of, replay
from headrace.protocol.transport.dealer_io import Connection

FAST = {
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1_500,
    "controller.quorum.election.backoff.max.ms": 100,
    "broker.session.timeout.ms": 30_000,
    "broker.heartbeat.interval.ms": 50,
}


class Cluster:
    """Controllers by their ids, from 1; a dead one is None. Everything is started in one loop."""

    def __init__(self, directory: Path, size: int, **config: Any) -> None:
        self.directory, self.config = directory, {**FAST, **config}
        self.servers: dict[int, ControllerServer | None] = dict.fromkeys(range(1, size + 1))
        self.runs: dict[int, asyncio.Task[None]] = {}
        self.addresses: dict[int, tuple[str, int]] = {}

    async def start(self, node: int) -> ControllerServer:
        config = {**self.config, "controller.id": node, "metadata.log.dir": str(self.directory / str(node))}
        others = [self._locator(other) for other in self.servers if other != node]
        server = ControllerServer(ControllerConfig.of(config), bootstrap=others)
        await server.start()
        self.servers[node], self.addresses[node] = server, (server.host, server.port)
        self.runs[node] = asyncio.create_task(server.run())
        return server

    async def stop(self, node: int) -> None:
        server, self.servers[node] = self.servers[node], None
        if server is not None:
            await server.stop()
            await self.runs.pop(node)

    async def kill(self, node: int) -> None:
        server, self.servers[node] = self.servers[node], None
        assert server is not None
        await server.kill()
        await self.runs.pop(node)

    def _locator(self, node: int) -> Any:
        async def locate() -> tuple[str, int]:
            return self.addresses.get(node, ("127.0.0.1", 0))

        return locate

    @property
    def alive(self) -> list[ControllerServer]:
        return [server for server in self.servers.values() if server is not None]

    def leaders(self) -> list[int]:
        return [node for node, server in self.servers.items() if server is not None and server.is_active]

    async def leader(self) -> int:
        await eventually(lambda: len(self.leaders()) == 1)
        return self.leaders()[0]

    async def caught_up(self) -> None:
        """Wait until every live controller has the committed records."""
        await eventually(lambda: len({s.status()["metadata_offset"] for s in self.alive}) == 1)

    async def ask(self, node: int, api: Any, body: Any) -> Any:
        host, port = self.addresses[node]
        connection = await Connection.open(host, port, client_id="test", timeout_s=60)
        try:
            return (await connection.request(api, body, timeout_s=60)).body
        finally:
            connection.close()

    async def create(self, node: int, name: str) -> Any:
        answer = await self.ask(
            node, registry.CREATE_TOPICS, control.CreateTopicsRequest((control.NewTopicSpec(name),))
        )
        return answer.topics[0]

    async def image(self, node: int) -> MetadataImage:
        """The image from FetchMetadata of a controller."""
        image = MetadataImage()
        while True:
            request = control.FetchMetadataRequest(1, image.offset, 0)
            answer = await self.ask(node, registry.FETCH_METADATA, request)
            if answer.is_snapshot:
                image = image_of(answer.records, answer.end_offset - 1)
            elif answer.records:
                image, _ = replay(image, answer.base_offset, answer.records)
            else:
                return image

    async def join_node(self, leader: int) -> int:
        """Register and unfence a storage node; returns its broker epoch."""
        request = control.BrokerRegistrationRequest(
            1, "", incarnation(1), "localhost", 9000, features=OWN_RANGES
        )
        epoch = (await self.ask(leader, registry.BROKER_REGISTRATION, request)).broker_epoch
        beat = control.BrokerHeartbeatRequest(1, epoch, epoch)
        assert not (await self.ask(leader, registry.BROKER_HEARTBEAT, beat)).is_fenced
        return int(epoch)


async def eventually(condition: Callable[[], bool], timeout_s: float = 120) -> None:
    for _ in range(int(timeout_s / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the condition never held")


@asynccontextmanager
async def cluster(directory: Path, size: int = 3, **config: Any) -> AsyncIterator[Cluster]:
    """A new quorum."""
    found = Cluster(directory, size, **config)
    try:
        for node in found.servers:
            await found.start(node)
        if size > 1:
            assert all(server.is_blank for server in found.alive)
            first = found.servers[1]
            assert first is not None
            first.begin([server.describe_voter() for server in found.alive])
        yield found
    finally:
        for node in list(found.servers):
            await found.stop(node)


@pytest.fixture
def three(tmp_path: Path) -> AbstractAsyncContextManager[Cluster]:
    return cluster(tmp_path)


async def test_three_controllers_form_a_quorum(three: Cluster) -> None:
    """One controller leads; all three apply its decisions; followers refuse requests and name the leader."""
    leader = await three.leader()
    await three.join_node(leader)
    assert (await three.create(leader, "t")).error_code == 0
    await three.caught_up()
    assert [server.status()["topics"] for server in three.alive] == [1, 1, 1]
    assert len({server.cluster_id for server in three.alive}) == 1
    for other in {1, 2, 3} - {leader}:
        with pytest.raises(errors.NotControllerError, match=f"controller {leader} at"):
            await three.create(other, "u")
        with pytest.raises(errors.NotControllerError):
            await three.image(other)
        response = await three.ask(other, registry.DESCRIBE_QUORUM, quorum.DescribeQuorumRequest())
        assert (response.leader_id, (response.endpoint.host, response.endpoint.port)) == (
            leader,
            three.addresses[leader],
        )
    response = await three.ask(leader, registry.DESCRIBE_QUORUM, quorum.DescribeQuorumRequest())
    assert [each.replica_id for each in response.voters] == [1, 2, 3]


@pytest.mark.parametrize("is_killed", [True, False])
async def test_leader_change_keeps_acknowledged_decisions(three: Cluster, is_killed: bool) -> None:
    """The leader is killed or stopped: the session of a node continues, and the old leader returns."""
    leader = await three.leader()
    epoch = await three.join_node(leader)
    assert (await three.create(leader, "before")).error_code == 0
    await (three.kill(leader) if is_killed else three.stop(leader))
    second = await three.leader()
    assert second != leader
    image = await three.image(second)
    assert set(image.topics) == {"before"}
    assert not image.brokers[1].is_fenced
    beat = control.BrokerHeartbeatRequest(1, epoch, image.offset)
    assert not (await three.ask(second, registry.BROKER_HEARTBEAT, beat)).is_fenced
    assert (await three.create(second, "after")).error_code == 0
    await three.start(leader)
    await three.caught_up()
    assert [server.status()["topics"] for server in three.alive] == [2, 2, 2]


async def test_no_acknowledged_topic_is_lost_under_load(three: Cluster) -> None:
    """Clients create topics without pause at the present leader; leaders are killed again and again."""
    await three.join_node(await three.leader())
    made: set[str] = set()
    is_over = False

    async def client(number: int) -> None:
        count = 0
        while not is_over:
            count += 1
            name = f"t-{number}-{count}"
            for leader in three.leaders() or [1]:
                try:
                    if (await three.create(leader, name)).error_code == 0:
                        made.add(name)
                except errors.KafkaError:
                    await asyncio.sleep(0.02)

    clients = [asyncio.create_task(client(number)) for number in range(4)]
    for _ in range(3):
        leader = await three.leader()
        goal = len(made) + 20
        await eventually(lambda goal=goal: len(made) >= goal)
        await three.kill(leader)
        await three.leader()
        await three.start(leader)
    is_over = True
    await asyncio.gather(*clients)
    image = await three.image(await three.leader())
    assert made <= set(image.topics)
    await three.caught_up()
    assert {server.status()["topics"] for server in three.alive} == {len(image.topics)}


async def test_minority_decides_nothing(three: Cluster) -> None:
    """Two of three are down: the last one refuses requests soon; one returns, and decisions continue."""
    leader = await three.leader()
    await three.join_node(leader)
    assert (await three.create(leader, "before")).error_code == 0
    others = sorted({1, 2, 3} - {leader})
    for other in others:
        await three.kill(other)
    with pytest.raises(errors.KafkaError) as caught:
        await three.create(leader, "lost")
    assert caught.value.retriable
    with pytest.raises(errors.NotControllerError) as refused:
        await three.create(leader, "refused")
    assert refused.value.retriable
    await three.start(others[0])
    again = await three.leader()
    assert (await three.create(again, "after")).error_code == 0
    assert {"before", "after"} <= set((await three.image(again)).topics)


async def test_all_controllers_restart(three: Cluster) -> None:
    """In another order: same cluster, same topics."""
    leader = await three.leader()
    await three.join_node(leader)
    assert (await three.create(leader, "t")).error_code == 0
    cluster_id = three.alive[0].cluster_id
    for node in (1, 2, 3):
        await three.kill(node)
    for node in (3, 1, 2):
        server = await three.start(node)
        assert not server.is_blank
    again = await three.leader()
    assert set((await three.image(again)).topics) == {"t"}
    assert {server.cluster_id for server in three.alive} == {cluster_id}


async def test_wiped_controller_is_another_voter(three: Cluster, tmp_path: Path) -> None:
    """Its votes are lost, so it is refused under the old directory id, and only fetches; an operator removes
    the lost voter and adds the new one."""
    leader = await three.leader()
    await three.join_node(leader)
    assert (await three.create(leader, "t")).error_code == 0
    victim = next(node for node in (1, 2, 3) if node != leader)
    lost = three.servers[victim]
    assert lost is not None
    old_key = lost.quorum.key
    await three.kill(victim)
    shutil.rmtree(tmp_path / str(victim))
    server = await three.start(victim)
    await three.caught_up()
    assert server.quorum.key not in server.quorum.voters
    vote = quorum.VoteRequest("", *old_key, 99, leader, bytes(16), 99, 999)
    answer = await three.ask(victim, registry.VOTE, vote)
    assert (answer.error_code, answer.vote_granted) == (errors.InvalidVoterKeyError.code, False)

    key, host, port = server.quorum.key, server.host, server.port
    add = quorum.AddRaftVoterRequest("", *key, host, port)
    refused = await three.ask(leader, registry.ADD_RAFT_VOTER, add)
    assert refused.error_code == errors.DuplicateVoterError.code
    removed = await three.ask(leader, registry.REMOVE_RAFT_VOTER, quorum.RemoveRaftVoterRequest("", *old_key))
    assert removed.error_code == 0
    added = await three.ask(leader, registry.ADD_RAFT_VOTER, add)
    while added.error_code == errors.RequestTimedOutError.code:  # until the new one has fetched the removal
        added = await three.ask(leader, registry.ADD_RAFT_VOTER, add)
    assert added.error_code == 0
    await eventually(lambda: key in server.quorum.voters)
    assert len(server.quorum.voters) == 3


async def test_wiped_controller_joins_by_auto_join(tmp_path: Path) -> None:
    """With controller.quorum.auto.join.enable, as for clusters of several hosts."""
    async with cluster(tmp_path, **{"controller.quorum.auto.join.enable": True}) as three:
        leader = await three.leader()
        victim = next(node for node in (1, 2, 3) if node != leader)
        await three.kill(victim)
        shutil.rmtree(tmp_path / str(victim))
        server = await three.start(victim)
        await eventually(lambda: server.quorum.key in server.quorum.voters)
        await eventually(lambda: len(server.quorum.voters) == 3)


async def test_quorum_grows_from_one_to_three(tmp_path: Path) -> None:
    """The other two controllers find the first one, catch up and join one by one."""
    async with cluster(tmp_path, size=1) as grown:
        await grown.join_node(1)
        assert (await grown.create(1, "t")).error_code == 0
        grown.config["controller.quorum.auto.join.enable"] = True
        grown.servers.update({2: None, 3: None})
        for node in (2, 3):
            await grown.start(node)
        await eventually(lambda: all(len(server.quorum.voters) == 3 for server in grown.alive))
        await grown.kill(1)
        leader = await grown.leader()
        assert set((await grown.image(leader)).topics) == {"t"}


async def test_quorum_is_found_at_new_ports(three: Cluster, tmp_path: Path) -> None:
    """All addresses in the log are old: the bootstrap servers have the new ones."""
    await three.join_node(await three.leader())
    for node in (1, 2, 3):
        await three.kill(node)
        (tmp_path / str(node) / "listener.port").unlink()
    before = dict(three.addresses)
    for node in (1, 2, 3):
        await three.start(node)
    assert all(three.addresses[node] != before[node] for node in before)
    leader = await three.leader()
    assert (await three.create(leader, "t")).error_code == 0


async def test_a_controller_of_an_earlier_version_does_not_become_a_voter(tmp_path: Path) -> None:
    """The cluster has a level of security.version that it does not report."""
    async with cluster(tmp_path, size=1) as one:
        leader = await one.leader()
        image = await one.image(leader)
        epoch = (await one.ask(leader, registry.DESCRIBE_QUORUM, quorum.DescribeQuorumRequest())).leader_epoch
        directory = bytes(range(16))

        fetch = quorum.QuorumFetchRequest(
            image.cluster_id,
            9,
            directory,
            leader_epoch=epoch,
            fetch_offset=image.offset + 1,
            last_fetched_epoch=epoch,
            high_watermark=image.offset + 1,
            max_bytes=1,
            max_wait_ms=0,
        )
        assert (await one.ask(leader, registry.QUORUM_FETCH, fetch)).error_code == 0
        add = quorum.AddRaftVoterRequest(image.cluster_id, 9, directory, "127.0.0.1", 1)
        refused = await one.ask(leader, registry.ADD_RAFT_VOTER, add)
        assert refused.error_code == errors.UnsupportedVersionError.code
        text = "controller 9 supports levels 0 to 1 of feature security.version, and the cluster has 2"
        assert refused.error_detail.startswith(text)
        assert len(one.alive[0].quorum.voters) == 1
