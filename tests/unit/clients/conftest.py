"""A fake cluster with asyncio clients on it, in virtual time, or with sync ones on their own thread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import virtual_loop
from fake_cluster import FakeCluster
from headrace.clients.aio.cluster_io import AsyncCluster
from headrace.clients.sync.cluster_io import Cluster
from headrace.protocol.records.codec import RecordCodec, pick_codec

Scenario = Callable[[FakeCluster, AsyncCluster], Coroutine[Any, Any, None]]


@pytest.fixture
def play() -> Callable[..., FakeCluster]:
    """Run `scenario(fake, cluster)` in virtual time on a fake cluster of `nodes`; gives the fake."""

    def run(scenario: Scenario, nodes: int = 1, **config: Any) -> FakeCluster:
        fake = FakeCluster(nodes)

        async def everything() -> None:
            async with AsyncCluster("node0:9000", config=config, make_hub=fake.make_hub) as cluster:
                await scenario(fake, cluster)

        virtual_loop.run(everything())
        return fake

    return run


@pytest.fixture(params=["compiled", "python"])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> RecordCodec:
    """The clients use this codec."""
    chosen = pick_codec(request.param)
    for module in ("arrow.sending_io", "consumer.consumer_io", "producer.producer_io"):
        monkeypatch.setattr(f"headrace.clients.{module}.active_codec", lambda: chosen)
    return chosen


@pytest.fixture
def fake() -> FakeCluster:
    """One node, one topic of three partitions, no latency."""
    fake = FakeCluster(latency_ms=0)
    fake.create("t", 3)
    return fake


@pytest.fixture
def cluster(fake: FakeCluster) -> Iterator[Cluster]:
    """Sync clients on it."""
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        yield cluster


@pytest.fixture
def switches_everywhere() -> Iterator[None]:
    """Threads change over at every bytecode that lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
