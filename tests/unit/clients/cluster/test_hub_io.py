"""What the clients of one cluster share, and how it ends."""

from __future__ import annotations

import asyncio

import pytest
import virtual_loop
from fake_cluster import FakeCluster
from headrace.clients.config import ConnectionConfig
from headrace.protocol.errors import ClosedError, HeadraceError


class Engine:
    """Remembers why it ended."""

    def __init__(self) -> None:
        self.reasons: list[HeadraceError] = []

    def fail(self, reason: HeadraceError) -> None:
        self.reasons.append(reason)


def test_a_failed_task_ends_every_client_with_the_cause() -> None:
    """A bug in one task: engines hear it once, later clients are refused, closing is still possible."""
    fake = FakeCluster()

    async def scenario() -> None:
        hub = fake.make_hub("node0:9000", ConnectionConfig())
        first, left = Engine(), Engine()
        hub.join(first)
        hub.join(left)
        hub.leave(left)

        async def bug() -> None:
            raise ValueError("bug")

        hub.tasks.spawn(bug())
        await asyncio.sleep(0.1)
        assert len(first.reasons) == 1
        assert isinstance(first.reasons[0].__cause__, ValueError)
        with pytest.raises(ClosedError, match="bug"):
            hub.join(Engine())
        await hub.close()
        assert len(first.reasons) == 1
        assert left.reasons == []

    virtual_loop.run(scenario())
