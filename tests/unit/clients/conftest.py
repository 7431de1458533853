"""A fake cluster with asyncio clients on it, in virtual time, or with sync ones on their own thread."""

import inspect
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import virtual_loop
from fake_cluster import FakeCluster
from headrace.clients.aio.cluster_io import AsyncCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol.records.codec import RecordCodec, pick_codec


@pytest.fixture
def run_async() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs an `async def` test in virtual time."""
    return virtual_loop.run


def cluster_facts(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of the markers `fake_cluster` of a test and its module."""
    facts: dict[str, Any] = {"kind": FakeCluster, "nodes": 1}
    for marker in reversed(list(request.node.iter_markers("fake_cluster"))):
        facts |= marker.kwargs
    return facts


@pytest.fixture
def fake(request: pytest.FixtureRequest) -> FakeCluster:
    """A fake cluster, of one node unless the marker `fake_cluster` says otherwise. For synchronous clients it
    has no latency, and a topic `t` of three partitions."""
    facts = cluster_facts(request)
    if inspect.iscoroutinefunction(request.function):
        return facts["kind"](facts["nodes"])
    fake = FakeCluster(latency_ms=0)
    fake.create("t", 3)
    return fake


@pytest.fixture
def cluster(request: pytest.FixtureRequest, fake: FakeCluster) -> Iterator[AsyncCluster | Cluster]:
    """Asyncio clients of the fake cluster in an `async def` test, synchronous ones in another test; the other
    arguments of the marker are their configs."""
    facts = cluster_facts(request)
    config = {key: value for key, value in facts.items() if key not in ("kind", "nodes")}
    if inspect.iscoroutinefunction(request.function):
        yield AsyncCluster("node0:9000", config=config, make_hub=fake.make_hub)
        return
    with Cluster("node0:9000", config=config, make_hub=fake.make_hub) as cluster:
        yield cluster


@pytest.fixture(params=["compiled", "python"])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RecordCodec:
    """The clients use this codec."""
    chosen = pick_codec(request.param)
    for module in ("arrow.sending_io", "consumer.consumer_io", "producer.producer_io"):
        monkeypatch.setattr(f"headrace.clients.{module}.active_codec", lambda: chosen)
    return chosen


@pytest.fixture
def switches_everywhere() -> Iterator[None]:
    """Threads change over at every bytecode that lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
