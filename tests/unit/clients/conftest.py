"""A fake cluster with asyncio clients on it, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import virtual_loop
from fake_cluster import FakeCluster
from headrace.clients.aio.cluster_io import AsyncCluster
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
