"""ControllerLink against a scripted controller over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from fake_controller import CLUSTER_ID, FakeController
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.control import CreateTopicsRequest, FetchMetadataResponse, NewTopicSpec
from headrace.protocol.metadata.records import FenceBrokerRecord, NoOpRecord
from headrace.protocol.model import TopicPartition
from headrace.protocol.transport.wire import encode
from headrace.runtime.shell_io import TaskOwner
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.links.controller_link_io import (
    ControllerLink,
    LinkEvents,
    NodeIdentity,
    fixed_locator,
)
from headrace.storage_node.links.leader_search_io import LeaderSearch
from headrace.storage_node.links.membership import MembershipState
from headrace.storage_node.log.losses import PreviousEnd
from node_rig import until

CONFIG = NodeConfig.of(
    {
        "log.dirs": "/none",
        "controller.request.timeout.ms": 2000,
        "controller.backoff.ms": 5,
        "controller.backoff.max.ms": 10,
        "metadata.fetch.max.wait.ms": 50,
        "broker.heartbeat.interval.ms": 20,
        "controlled.shutdown.timeout.ms": 100,
    }
)
TIMEOUT_S = 60


class Node:
    """Records the callbacks of the link."""

    def __init__(self) -> None:
        self.adopted: list[tuple[int, str, int]] = []
        self.offset = -1
        self.news = asyncio.Event()

    def events(self) -> LinkEvents:
        return LinkEvents(lambda *facts: self.adopted.append(facts), self.apply, lambda: self.offset)

    async def apply(self, response: FetchMetadataResponse) -> int:
        self.offset += len(response.records)
        self.news.set()
        return self.offset

    async def reaches(self, offset: int) -> None:
        while self.offset < offset:
            self.news.clear()
            await self.news.wait()


class Rig:
    """One link with its controller."""

    def __init__(self, node_id: int) -> None:
        self.controller = FakeController()
        self.tasks = TaskOwner()
        self.node = Node()
        end = PreviousEnd(7, (TopicPartition("t", 3),))
        identity = NodeIdentity(node_id, "", b"i" * 16, "127.0.0.1", 1, None, (), end)
        self.link = ControllerLink(CONFIG, self.controller.locate, identity, self.node.events(), self.tasks)


@asynccontextmanager
async def rig(node_id: int = 1) -> AsyncIterator[Rig]:
    """A started link; everything is closed at the end."""
    parts = Rig(node_id)
    parts.controller.start()
    parts.link.start()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield parts
    finally:
        parts.link.close()
        parts.tasks.stop()
        try:
            await parts.tasks.run()
        finally:
            parts.controller.close()


@pytest.fixture
def parts() -> AbstractAsyncContextManager[Rig]:
    return rig()


async def test_a_node_registers_and_follows_the_metadata() -> None:
    """Registration, generated id, metadata, heartbeat, unfenced; later records arrive by long polling."""
    async with rig(node_id=-1) as parts:
        await parts.link.is_active.wait()
        assert parts.node.adopted == [(1001, CLUSTER_ID, 9_000)]
        assert parts.link.broker_epoch == 1
        await parts.node.reaches(parts.controller.append(NoOpRecord()))


async def test_a_restarted_controller_is_found_again(parts: Rig) -> None:
    """The node reconnects, keeps its broker epoch and continues to fetch metadata."""
    await parts.link.is_active.wait()
    parts.controller.restart()
    await parts.node.reaches(parts.controller.append(NoOpRecord()))
    assert len(parts.controller.registrations) == 1


async def test_the_connection_to_a_silent_controller_is_closed(parts: Rig) -> None:
    """It accepts connections but does not answer: after the request timeout the node searches again."""
    await parts.link.is_active.wait()
    parts.controller.is_silent = True
    await until(lambda: parts.link.membership.state is MembershipState.SEARCHING)
    parts.controller.is_silent = False
    await parts.node.reaches(parts.controller.append(NoOpRecord()))


async def test_an_unreachable_controller_is_searched_again(parts: Rig) -> None:
    """The locator has no port, no response or no leader: none of these ends the node."""
    answers: list[Any] = [("127.0.0.1", 0), OSError("no file"), errors.NetworkError("not known"), None]

    locate = parts.controller.locate

    async def stumble() -> tuple[str, int]:
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer or await locate()

    parts.link._search = LeaderSearch(stumble, 0.3)
    await parts.link.is_active.wait()
    parts.controller.restart()
    await until(lambda: not answers)
    await parts.node.reaches(parts.controller.append(NoOpRecord()))


async def test_a_forgotten_node_registers_again(parts: Rig) -> None:
    """The controller does not know the broker epoch: a new registration of the same incarnation. The first
    one reports the losses since the last shutdown; the second has none."""
    await parts.link.is_active.wait()
    epoch = parts.link.broker_epoch
    parts.controller.refuse_heartbeat = errors.BrokerIdNotRegisteredError("unknown node")
    await until(lambda: len(parts.controller.registrations) >= 2)
    first, second = parts.controller.registrations
    assert first.incarnation_id == second.incarnation_id
    assert (first.previous_broker_epoch, first.lost_replicas) == (7, (("t", 3),))
    assert (second.previous_broker_epoch, second.lost_replicas) == (epoch, ())


async def test_the_wrong_cluster_ends_the_node() -> None:
    """The task owner fails with the error."""
    parts = Rig(1)
    parts.controller.refuse_registration = errors.InconsistentClusterIdError("cluster x, not y")
    parts.controller.start()
    parts.link.start()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(errors.InconsistentClusterIdError, match="cluster x"):
                await parts.tasks.run()
    finally:
        parts.link.close()
        parts.controller.close()


async def test_requests_are_forwarded(parts: Rig) -> None:
    """The raw body is unchanged; an error in the response header is raised."""
    body = encode(CreateTopicsRequest((NewTopicSpec("t"),)))
    # also without a connection: the request waits for it
    response = await parts.link.forward(registry.CREATE_TOPICS, body, TIMEOUT_S)
    assert response.body.topics[0].name == "t"
    error = errors.TopicAlreadyExistsError("t is there")
    parts.controller.on_admin = lambda request: parts.controller.router.reply_error(request, error)
    with pytest.raises(errors.TopicAlreadyExistsError, match="t is there"):
        await parts.link.forward(registry.CREATE_TOPICS, body, TIMEOUT_S)


async def test_forwarding_without_a_controller_fails_in_time(parts: Rig) -> None:
    await parts.link.is_active.wait()
    parts.controller.close()
    await until(lambda: not parts.link.membership.is_connected)
    with pytest.raises(errors.NotControllerError):
        await parts.link.forward(registry.CREATE_TOPICS, b"", 0.05)


@pytest.mark.parametrize("is_there", [True, False])
async def test_shutdown_with_and_without_a_controller(parts: Rig, is_there: bool) -> None:
    """With one it is a controlled shutdown; without one the node does not wait."""
    await parts.link.is_active.wait()
    if not is_there:
        parts.controller.close()
    parts.link.request_shutdown()
    await parts.link.may_stop.wait()
    if is_there:
        assert parts.controller.heartbeats[-1].want_shutdown


async def test_fixed_locators() -> None:
    """A port outside the range is refused."""
    assert await fixed_locator("h", 5)() == ("h", 5)
    with pytest.raises(ValueError, match="port"):
        fixed_locator("h", 0)


async def test_heartbeats_continue_while_the_metadata_log_is_slow(
    parts: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """Their responses wait for the controllers' disks. The node sends further heartbeats, keeps the
    connection on which other requests are answered, and logs what is slow."""
    await parts.link.is_active.wait()
    parts.controller.has_slow_log = True
    count = len(parts.controller.heartbeats)
    await until(lambda: len(parts.controller.heartbeats) >= count + 10)
    await until(lambda: "no response to BrokerHeartbeat within 2 s, but to other requests" in caplog.text)
    parts.controller.has_slow_log = False
    count = len(parts.controller.heartbeats)
    await until(lambda: len(parts.controller.heartbeats) > count)


async def test_a_node_logs_its_own_fencing(caplog: pytest.LogCaptureFixture) -> None:
    """With node, metadata offset and its own heartbeat statistics; not the fencing of another process."""
    caplog.set_level("INFO", "headrace.storage_node")
    async with rig() as parts:
        await parts.link.is_active.wait()
        epoch = parts.link.broker_epoch
        parts.controller.append(FenceBrokerRecord(1, epoch - 1))
        offset = parts.controller.append(FenceBrokerRecord(1, epoch))
        name = f"this node (node 1, broker epoch {epoch})"
        line = f"{name} was fenced at metadata offset {offset}: last heartbeat sent "
        await until(lambda: line in caplog.text)
        await until(lambda: f"{name} was unfenced at metadata offset " in caplog.text)
        assert "ms until the response; its event loop was stalled for up to " in caplog.text
        assert f"epoch {epoch - 1})" not in caplog.text
