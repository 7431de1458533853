"""Refreshes of the view."""

import asyncio
from typing import Any

import pytest
import virtual_loop
from fake_cluster import FakeCluster, Fault
from headrace.clients.aio.cluster_io import AsyncCluster
from headrace.clients.cluster.hedging_io import MAX_IN_FLIGHT
from headrace.clients.cluster.metadata_io import HEDGE_MS, REQUEST_HEDGE_MS
from headrace.protocol import errors
from headrace.protocol.messages.data import MetadataRequest, MetadataResponse, TopicMetadata
from headrace.protocol.messages.registry import METADATA


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


async def test_many_stale_partitions_cause_one_request(fake: Any, cluster: Any) -> None:
    """A hundred calls in a row, then again shortly after."""
    fake.create("t")
    metadata = cluster.io.hub.metadata
    metadata.watch(["t"])
    await metadata.topic("t", now_ms() + 1000)
    before = len(fake.requests("Metadata"))
    for _ in range(2):
        for _ in range(100):
            metadata.refresh_soon()
        await asyncio.sleep(0.3)
    assert len(fake.requests("Metadata")) == before + 2


@pytest.mark.fake_cluster(metadata_max_age_ms=2000)
async def test_metadata_is_refreshed_by_age(fake: Any, cluster: Any) -> None:
    """Every 2 s without a call."""
    cluster.io.hub.metadata.refresh_soon()
    await asyncio.sleep(11)
    assert 5 <= len(fake.requests("Metadata")) <= 7


@pytest.mark.fake_cluster(nodes=3)
async def test_dead_nodes_cost_no_refresh(fake: Any, cluster: Any) -> None:
    """Two of three nodes are down; one of them hangs."""
    fake.create("t")
    metadata = cluster.io.hub.metadata
    await metadata.refresh(now_ms() + 1000)
    fake.stop_node(0)
    fake.fail_next("Metadata", Fault(silent=True))
    await metadata.refresh(now_ms() + 20_000)
    assert sorted(metadata.view.nodes) == [1, 2]


@pytest.mark.parametrize("frozen", [(0,), (1,), (0, 1), (1, 2), (0, 2)])
@pytest.mark.fake_cluster(nodes=3)
async def test_hanging_nodes_cost_a_hedge_delay_each(
    fake: Any, cluster: Any, frozen: tuple[int, ...]
) -> None:
    """Then the requests to them are cancelled."""
    fake.create("t")
    metadata = cluster.io.hub.metadata
    await metadata.refresh(now_ms() + 1000)
    for node_id in frozen:
        fake.freeze_node(node_id)
    for _ in range(6):
        fake.grow("t", len(fake.topics["t"].partitions) + 1)
        began = now_ms()
        await metadata.refresh(now_ms() + 20_000)
        assert metadata.view.metadata_offset == fake.metadata_offset
        # the interval before it, half a second each, a round trip
        assert now_ms() - began <= 120 + HEDGE_MS * len(frozen) + 10
        assert not any(fake.in_flight.values())


@pytest.mark.fake_cluster(nodes=10)
async def test_requests_to_a_hanging_cluster_are_bounded(fake: Any, cluster: Any) -> None:
    """With any number of nodes."""
    metadata = cluster.io.hub.metadata
    await metadata.refresh(now_ms() + 1000)
    for node_id in range(10):
        fake.freeze_node(node_id)
    with pytest.raises(errors.ApiTimeoutError):
        await metadata.refresh(now_ms() + 4_000)
    assert sum(fake.in_flight.values()) == MAX_IN_FLIGHT


async def test_moved_nodes_are_found_through_the_bootstrap() -> None:
    """All known nodes have left, the bootstrap address leads to others."""
    fake = FakeCluster(2)
    async with AsyncCluster("node0:9000,node9:9009", make_hub=fake.make_hub) as cluster:
        metadata = cluster.io.hub.metadata
        await metadata.refresh(now_ms() + 1000)
        fake.addresses = {7: type(fake.addresses[0])("node9", 9009)}
        await metadata.refresh(now_ms() + 5000)
        assert sorted(metadata.view.nodes) == [7]


async def test_timeout_of_refresh_has_the_cause(fake: Any, cluster: Any) -> None:
    """No node responds for 3 s."""
    fake.stop_node(0)
    with pytest.raises(errors.ApiTimeoutError, match="connection refused by node0:9000"):
        await cluster.io.hub.metadata.refresh(now_ms() + 3000)
    assert 2.9 < asyncio.get_running_loop().time() - virtual_loop.START_S < 3.2


@pytest.mark.parametrize(
    "fault", [errors.ConfigError("no cluster"), errors.UnsupportedVersionError("too old")]
)
async def test_fatal_errors_fail_refresh_at_once(
    fake: Any, cluster: Any, fault: errors.HeadraceError
) -> None:
    """Errors that a retry would repeat."""
    fake.rules.append(lambda ask: Fault(error=fault) if isinstance(fault, errors.KafkaError) else None)
    metadata = cluster.io.hub.metadata
    if isinstance(fault, errors.ConfigError):
        metadata._bootstrap = ":bad"
    with pytest.raises(type(fault)):
        await metadata.refresh(now_ms() + 60_000)
    assert asyncio.get_running_loop().time() < virtual_loop.START_S + 1


async def test_missing_cluster_is_an_error_after_the_timeout() -> None:
    """The error names the addresses and the cause."""
    fake = FakeCluster(2)
    fake.stop_node(0)
    fake.stop_node(1)
    why = r"at node0:9000, node1:9001, tried for 10 s .*connection refused"
    async with AsyncCluster("node0:9000,node1:9001", make_hub=fake.make_hub) as cluster:
        with pytest.raises(errors.NoClusterError, match=why):
            await cluster.io.hub.metadata.wait_for_cluster(10_000)
    assert not fake.requests("Metadata")


async def test_wait_for_cluster_ends_when_a_node_starts(fake: Any, cluster: Any) -> None:
    """A reader begins while the cluster is being started."""
    fake.stop_node(0)
    meeting = asyncio.create_task(cluster.io.hub.metadata.wait_for_cluster(10_000))
    await asyncio.sleep(8)
    assert not meeting.done()
    fake.start_node(0)
    await meeting
    assert sorted(cluster.io.hub.metadata.view.nodes) == [0]


async def test_wait_for_cluster_accepts_a_node_without_metadata(fake: Any, cluster: Any) -> None:
    """The node has responded; later calls return at once."""
    fake.cluster_id = ""
    await cluster.io.hub.metadata.wait_for_cluster(1000)
    fake.stop_node(0)
    asked = len(fake.requests("Metadata"))
    await cluster.io.hub.metadata.wait_for_cluster(1000)
    assert asked == len(fake.requests("Metadata")) > 0


async def test_close_fails_a_pending_refresh() -> None:
    """With ClosedError."""
    fake = FakeCluster(1)
    fake.stop_node(0)
    cluster = AsyncCluster("node0:9000", make_hub=fake.make_hub)
    waiting = asyncio.create_task(cluster.io.hub.metadata.refresh(now_ms() + 60_000))
    await asyncio.sleep(0.5)
    await cluster.close()
    with pytest.raises(errors.ClosedError):
        await waiting


async def test_topics_are_removed_with_their_last_watch(fake: Any, cluster: Any) -> None:
    """Two watches; the first `unwatch` changes nothing."""
    fake.create("t")
    metadata = cluster.io.hub.metadata
    metadata.watch(["t"])
    metadata.watch(["t"])
    await metadata.topic("t", now_ms() + 1000)
    metadata.unwatch(["t"])
    assert "t" in metadata.view.topics
    metadata.unwatch(["t"])
    assert "t" not in metadata.view.topics
    await metadata.refresh(now_ms() + 1000)
    assert fake.requests("Metadata")[-1].topics == ()


async def test_topic_name_of_another_type_is_an_error(fake: Any, cluster: Any) -> None:
    """`send(None, …)` must not end the client for all its users."""
    fake.create("t")
    metadata = cluster.io.hub.metadata
    for wrong in (None, b"t", 5):
        with pytest.raises(TypeError, match="by its name"):
            metadata.watch(["t", wrong])
    metadata.watch(["t"])
    await metadata.topic("t", now_ms() + 1000)


@pytest.mark.fake_cluster(nodes=2)
async def test_response_without_metadata_is_skipped(fake: Any, cluster: Any) -> None:
    """A starting node has no metadata: the view stays, and another node gets the request."""
    fake.create("t", 2)
    metadata = cluster.io.hub.metadata
    metadata.watch(["t"])
    await metadata.topic("t", now_ms() + 1000)
    answer = fake._metadata
    blank = MetadataResponse("", -1, -1, (), (TopicMetadata(3, "t", b"", False, ()),))
    answers = iter([blank, blank, blank])
    fake._metadata = lambda body, **facts: next(answers, None) or answer(body, **facts)
    await metadata.refresh(now_ms() + 5000)
    assert metadata.view.cluster_id == "fake"
    assert metadata.view.leader_of("t", 1) is not None


@pytest.mark.fake_cluster(nodes=2)
async def test_request_any_tries_node_after_node(fake: Any, cluster: Any) -> None:
    """The first attempt is lost, the second gets a retriable error, the third succeeds; fatal errors
    raise."""
    fake.create("t")
    metadata = cluster.io.hub.metadata
    await metadata.refresh(now_ms() + 1000)
    fake.fail_next("Metadata", Fault(lost_reply=True))
    fake.fail_next("Metadata", Fault(error=errors.ThrottlingQuotaExceededError("busy")))
    request = MetadataRequest(None)
    reply = await metadata.request_any(METADATA, request, deadline_ms=now_ms() + 5000, attempt_ms=1000)
    assert [topic.name for topic in reply.body.topics] == ["t"]
    fake.rules.append(lambda ask: Fault(error=errors.InvalidRequestError("no")))
    with pytest.raises(errors.InvalidRequestError):
        await metadata.request_any(METADATA, request, deadline_ms=now_ms() + 5000, attempt_ms=1000)
    fake.rules[-1] = lambda ask: Fault(lost_request=True)
    with pytest.raises(errors.ApiTimeoutError, match="Metadata: no node responded"):
        await metadata.request_any(METADATA, request, deadline_ms=now_ms() + 5000, attempt_ms=1000)


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("is_urgent", [False, True])
async def test_close_during_a_requested_refresh_takes_no_time(turns: int, is_urgent: bool) -> None:
    """The close comes some iterations of the loop after the request; the task has ended."""
    fake = FakeCluster(1)
    cluster = AsyncCluster("node0:9000", make_hub=fake.make_hub)
    metadata = cluster.io.hub.metadata
    if is_urgent:
        await metadata.refresh(now_ms() + 1000)  # it pauses now
    else:
        await asyncio.sleep(1)
    metadata.refresh_soon(is_urgent=is_urgent)
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await cluster.close()


async def test_unknown_topic_is_an_error_before_the_next_refresh(fake: Any, cluster: Any) -> None:
    """The nodes have responded that it does not exist; the deadline comes first."""
    metadata = cluster.io.hub.metadata
    metadata.watch(["nope"])
    with pytest.raises(errors.UnknownTopicOrPartitionError, match="no topic 'nope'"):
        await metadata.topic("nope", now_ms() + 50)
    fake.stop_node(0)
    metadata.watch(["unheard"])
    with pytest.raises(errors.ApiTimeoutError):
        await metadata.topic("unheard", now_ms() + 50)


async def test_watch_all_keeps_all_topics(fake: Any, cluster: Any) -> None:
    """New and deleted ones too; watched names become missing."""
    metadata = cluster.io.hub.metadata
    fake.create("a")
    fake.create("b")
    metadata.watch(["a", "gone"])
    metadata.watch_all()
    view = await metadata.refresh(now_ms() + 1000)
    assert (sorted(view.topics), list(view.missing)) == (["a", "b"], ["gone"])
    del fake.topics["b"]
    fake.create("c")
    view = await metadata.refresh(now_ms() + 1000)
    assert sorted(view.topics) == ["a", "c"]
    metadata.unwatch_all()
    assert sorted(metadata.view.topics) == ["a"]
    await metadata.refresh(now_ms() + 1000)
    assert fake.requests("Metadata")[-1].topics == ("a", "gone")


@pytest.mark.parametrize("bootstrap", ["node0:9000", "node0:9000,node1:9001,node2:9002"])
async def test_stale_node_list_is_hedged_to_bootstrap_and_earlier_nodes(bootstrap: str) -> None:
    """The last refresh saw one node alive, and that one stalls: the nodes that the bootstrap or an earlier
    view names are asked after the hedge delay, not after the timeout of a request."""
    fake = FakeCluster(3)
    async with AsyncCluster(bootstrap, make_hub=fake.make_hub) as cluster:
        metadata = cluster.io.hub.metadata
        await metadata.refresh(now_ms() + 1000)
        fake.fenced = {1, 2}
        await metadata.refresh(now_ms() + 1000)
        assert sorted(metadata.view.nodes) == [0]
        fake.fenced = {0}
        fake.freeze_node(0)
        began = now_ms()
        await metadata.refresh(now_ms() + 20_000)
        assert sorted(metadata.view.nodes) == [1, 2]
        assert now_ms() - began <= 120 + HEDGE_MS + 10


@pytest.mark.fake_cluster(nodes=3)
async def test_request_to_any_node_moves_on_from_a_silent_one(fake: Any, cluster: Any) -> None:
    """Two of three nodes are silent: each costs one hedge delay, and `on_lost` is called."""
    metadata = cluster.io.hub.metadata
    await metadata.refresh(now_ms() + 1000)
    fake.freeze_node(0)
    fake.freeze_node(2)
    lost: list[int] = []
    began = now_ms()
    for _ in range(8):
        await metadata.request_any(
            *(METADATA, MetadataRequest(None)),
            deadline_ms=now_ms() + 60_000,
            attempt_ms=30_000,
            on_lost=lambda: lost.append(now_ms()),
        )
    # A node that was late once is asked last from then on.
    assert now_ms() - began <= 2 * REQUEST_HEDGE_MS + 100
    assert 0 < len(lost) <= 2
    assert not any(fake.in_flight.values())


async def test_request_ends_at_its_deadline_while_a_resolver_blocks(fake: Any, cluster: Any) -> None:
    """The only node has left, and the search for other addresses does not end."""
    metadata = cluster.io.hub.metadata
    await metadata.refresh(now_ms() + 1000)
    fake.stop_node(0)
    found: asyncio.Future[tuple[Any, ...]] = asyncio.get_running_loop().create_future()
    metadata._bootstrap, metadata._resolving = None, found
    began = now_ms()
    with pytest.raises(errors.ApiTimeoutError, match="Metadata: no node responded"):
        await metadata.request_any(
            METADATA, MetadataRequest(None), deadline_ms=now_ms() + 3000, attempt_ms=1000
        )
    assert now_ms() - began == 3000
