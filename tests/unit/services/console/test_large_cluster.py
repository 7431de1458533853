"""Lists of a cluster with 10,000 partitions and 1,000 groups: how much Python runs for a page.

The bound is in calls of functions, which do not depend on the load of the machine; 100,000 of them take about
50 ms. Times of a real cluster are in docs/CONSOLE.md.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from headrace.clients.admin.admin_types import (
    ClusterDescription,
    NodeInfo,
    PartitionDescription,
    TopicDescription,
)
from headrace.clients.admin.group_types import GroupListing, GroupState, GroupType
from headrace.clients.cluster.network import Address
from headrace.protocol.model import TopicPartition
from headrace.services.console.application import Console
from headrace.services.console.shared import ConsoleSettings
from headrace.services.console.snapshot import Offsets, Snapshot
from headrace.services.web.settings import NONE
from headrace.stream.query.security_config import QuerySecurityConfig

TOPICS, PARTITIONS, GROUPS = 500, 20, 1_000
MOST_CALLS = 30_000


class Pool:
    """Of one user, whose clients must not be needed."""

    method = NONE

    @contextlib.asynccontextmanager
    async def use(self, _credentials: object) -> AsyncIterator[Any]:
        """Clients without an admin client."""
        yield SimpleNamespace()


def snapshot() -> Snapshot:
    """A reading whose rows are made."""
    topics, offsets = {}, {}
    for number in range(TOPICS):
        name = f"topic-{number:03}"
        parts = tuple(PartitionDescription(name, each, 1, 1, 1, (1, 2, 3), (1, 2, 3)) for each in range(20))
        topics[name] = TopicDescription(name, b"", False, parts)
        offsets |= {TopicPartition(name, each): Offsets(0, 100) for each in range(PARTITIONS)}
    groups, committed = [], {}
    for number in range(GROUPS):
        groups.append(GroupListing(f"g{number:04}", GroupType.CONSUMER, GroupState.STABLE, "consumer"))
        committed[f"g{number:04}"] = {
            TopicPartition(f"topic-{number % TOPICS:03}", each): 60 for each in range(PARTITIONS)
        }
    made = Snapshot(
        taken_ms=10_000,
        took_ms=5,
        cluster=ClusterDescription("id", 1, tuple(NodeInfo(n, Address("a", 9092), None) for n in (1, 2, 3))),
        topics=topics,
        offsets=offsets,
        groups=tuple(groups),
        committed=committed,
        counts={tp: {60: 30} for tp in offsets},
        committed_ms=10_000,
    )
    # as the reading does, in the background
    for name in ("partitions", "topic_rows", "node_rows", "group_rows", "offline", "under_replicated"):
        getattr(made, name)
    return made


@pytest.fixture(scope="module")
def console() -> Console:
    """Of that cluster."""
    settings = ConsoleSettings(False, (), "", 10, 1 << 20, QuerySecurityConfig())
    pool: Any = Pool()
    app, found = Console(pool, settings), snapshot()

    async def latest(*_: Any, **__: Any) -> Snapshot:
        return found

    app.shared.snapshots.latest = latest  # type: ignore[method-assign]
    return app


def get(console: Console, path: str) -> tuple[httpx.Response, int]:
    """The response, and the number of calls that it took."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    async def load() -> httpx.Response:
        transport = httpx.ASGITransport(console.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            before = sys.getprofile()
            sys.setprofile(count)
            try:
                return await client.get(path)
            finally:
                sys.setprofile(before)

    return asyncio.run(load()), calls


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/", "10,000"),
        ("/topics?page=7", "page 7 of 10"),
        ("/topics?sort=size", "topic-000"),
        ("/topics?q=topic-49", "10 topics"),
        ("/groups?sort=lag&page=20", "page 20 of 20"),
        ("/groups?q=g0999", "600"),
        ("/nodes", "10,000"),
        ("/streams", "0 applications"),
    ],
)
def test_page_needs_bounded_work(console: Console, path: str, text: str) -> None:
    """No request of a client, no row of another page, and few calls."""
    get(console, path)  # templates are compiled once
    response, calls = get(console, path)
    assert response.status_code == 200
    assert text in response.text
    assert response.text.count("<tr>") <= 60
    assert calls < MOST_CALLS, f"{calls} calls"
