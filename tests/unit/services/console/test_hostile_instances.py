"""Names and reports of the instances of an application, which any client can choose."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
from headrace.clients.admin.admin_types import Results
from headrace.clients.admin.group_types import GroupState
from headrace.clients.admin.lag_types import ConsumerLag
from headrace.clients.admin.streams_groups import (
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTasks,
    TaskId,
)
from headrace.protocol.messages.streams_status import InstanceStatus, TaskStatus, ThreadStatus
from headrace.services.console.application import Console
from headrace.services.console.shared import ConsoleSettings
from headrace.services.web.settings import NONE
from headrace.stream.query.hosts import HostInfo
from headrace.stream.query.security_config import QuerySecurityConfig

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"
HERE, SILENT = HostInfo(HOSTILE, 9300), HostInfo("other", 9300)


def member(name: str, host: HostInfo, number: int) -> StreamsMemberDescription:
    tasks = StreamsTasks(active=(TaskId(HOSTILE if number else "0", number),))
    return StreamsMemberDescription(
        name, 3, HOSTILE, HOSTILE, None, f"{HOSTILE}-{name}", 0, host, {}, tasks, StreamsTasks()
    )


class StubAdmin:
    """A group of two members."""

    async def describe_streams_groups(self, name: str, **_: Any) -> Any:
        topology = (StreamsSubtopology("0", ("in",), (), {}, {}),)
        members = (member("a", HERE, 0), member("b", SILENT, 1))
        return {name: StreamsGroupDescription(name, GroupState.STABLE, 1, 5, 5, 0, topology, members)}

    async def describe_topics(self, *names: str) -> Any:
        return Results({name: SimpleNamespace(partitions=[SimpleNamespace(partition=0)]) for name in names})

    async def list_group_offsets(self, _name: str, places: Any) -> Any:
        return dict.fromkeys(places)

    async def count_records(self, offsets: Any) -> Any:
        return Results({tp: {at: ConsumerLag(at, 0, 9, 9) for at in some} for tp, some in offsets.items()})


class Pool:
    """Clients with that admin client."""

    method = NONE

    @contextlib.asynccontextmanager
    async def use(self, _credentials: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(admin=StubAdmin())


def test_text_of_instances_is_only_text() -> None:
    """Hosts, client ids, process ids, task ids, states and reasons: no tag, escape or direction of theirs is
    left; the page is whole without the report of a silent instance."""
    pool: Any = Pool()
    console = Console(pool, ConsoleSettings(False, (), "", 10, 1 << 20, QuerySecurityConfig()))
    task = TaskStatus(0, 0, "active", HOSTILE, records_per_s=1.5, remaining=7, eta_ms=2_000)
    report = InstanceStatus(f"{HOSTILE}-a", HOSTILE, (ThreadStatus(HOSTILE, "a", HOSTILE, (task,)),))

    async def reports(_group: object) -> dict[HostInfo, Any]:
        return {HERE: report, SILENT: f"it does not answer: {HOSTILE}"}

    console.shared.instances.reports = reports  # type: ignore[method-assign]

    async def load() -> str:
        transport = httpx.ASGITransport(console.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            response = await client.get("/application", params={"id": HOSTILE})
            assert response.status_code == 200, response.text
            return response.text

    text = asyncio.run(load())
    assert "<script>alert" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m") > 8
    assert "it does not answer" in text
    assert "2.0 s left" in text
