"""A thousand open tails of one topic."""

import asyncio
import json
import resource
from collections.abc import Iterator
from typing import Any

import headrace
import httpx
import pytest
from headrace.clients.aio.cluster_io import AsyncClientFactory
from headrace.services.rest.application import rest_server
from headrace.services.web.settings import WebConfig

COUNT = 1000


@pytest.fixture
def many_files() -> Iterator[None]:
    """Enough descriptors for both ends of the connections, as `headrace rest` takes them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * COUNT + 500)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def tailed(port: int, path: str, opened: asyncio.Semaphore, count: int) -> list[Any]:
    """The values of `count` events; `opened` counts the tails that have begun."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await reader.readuntil(b"data: {}\n\n")
        opened.release()
        found: list[Any] = []
        while len(found) < count:
            line = await reader.readuntil(b"\n")
            if line.startswith(b"data: {"):
                found.append(json.loads(line[6:])["value"]["data"])
        return found
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.usefixtures("many_files")
def test_a_thousand_tails_share_one_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gets every record; then they close, and so does the consumer."""
    consumers: list[Any] = []
    make = AsyncClientFactory.consumer

    def counted(*args: Any, **options: Any) -> Any:
        consumers.append(make(*args, **options))
        return consumers[-1]

    monkeypatch.setattr(AsyncClientFactory, "consumer", counted)
    with headrace.local() as cluster, rest_server(WebConfig(port=0), bootstrap=cluster.bootstrap) as server:
        with httpx.Client(base_url=server.url) as client:
            cluster_id = client.get("/v3/clusters").json()["data"][0]["cluster_id"]
            topics = f"/v3/clusters/{cluster_id}/topics"
            client.post(topics, json={"topic_name": "busy", "partitions_count": 1})
        port = int(server.url.rpartition(":")[2])

        async def run() -> list[list[Any]]:
            opened = asyncio.Semaphore(0)
            path = f"{topics}/busy/records:tail"
            tails = [asyncio.create_task(tailed(port, path, opened, 3)) for _ in range(COUNT)]
            for _ in range(COUNT):
                await opened.acquire()
            async with headrace.aio.connect(cluster.bootstrap) as clients:
                await clients.producer().send_many("busy", [b"1", b"2", b"3"])
            return await asyncio.gather(*tails)

        assert asyncio.run(asyncio.wait_for(run(), 120)) == [[1, 2, 3]] * COUNT
    assert len(consumers) == 1
    assert consumers[0]._is_closed
