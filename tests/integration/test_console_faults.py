"""The console without a cluster, and of one with a node down; and many open tails."""

import asyncio
import socket
from collections.abc import Iterator

import headrace
import httpx
import pytest
from console_pages import Pages, plain
from headrace.services.console.server import console_server
from headrace.services.web.settings import WebConfig
from waiting import wait_for


@pytest.fixture(scope="module")
def cluster() -> Iterator[headrace.LocalCluster]:
    with headrace.local(nodes=2) as running:
        running.admin().create_topics(
            headrace.NewTopic("both", 2, 2), headrace.NewTopic("single", assignments={0: (1,), 1: (2,)})
        ).raise_for_errors()
        yield running


@pytest.fixture(scope="module")
def pages(cluster: headrace.LocalCluster) -> Iterator[Pages]:
    with (
        console_server(WebConfig(port=0), bootstrap=cluster.bootstrap) as server,
        Pages(server.url) as client,
    ):
        yield client


def test_pages_without_a_cluster_say_what_to_do() -> None:
    """Status 503, soon; the page loads itself again, and static files are served."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{taken.getsockname()[1]}"
        web = WebConfig(port=0, request_timeout_ms=2_000)
        with console_server(web, bootstrap=bootstrap) as server, Pages(server.url) as pages:
            for path in ("/", "/topics/orders"):
                text = pages.get(path, 503)
                assert "The cluster does not answer" in plain(text)
                assert "headrace status" in plain(text)
                assert 'data-retry="5"' in text
                assert '<noscript><meta http-equiv="refresh"' in text
            assert pages.http.get("/static/console.css").status_code == 200


def test_tails_of_many_browsers_share_a_bound(pages: Pages, cluster: headrace.LocalCluster) -> None:
    """200 open tails get the record; they share one consumer."""

    async def run() -> list[str]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=pages.http.base_url, timeout=60, limits=limits) as client:
            alive = asyncio.Semaphore(0)

            async def follow() -> str:
                async with client.stream("GET", "/topics/both/events") as stream:
                    assert stream.status_code == 200, await stream.aread()
                    event = ""
                    async for line in stream.aiter_lines():
                        if line.startswith("event: "):
                            event = line.removeprefix("event: ")
                        if line.startswith("data: ") and event == "alive":
                            alive.release()
                        if line.startswith("data: ") and event == "rows":
                            return line
                return "the stream has ended"

            tails = [asyncio.create_task(follow()) for _ in range(200)]
            for _ in tails:
                await alive.acquire()
            producer = cluster.producer()
            await asyncio.to_thread(lambda: producer.send("both", b"news").result(10))
            return await asyncio.gather(*tails)

    lines = asyncio.run(run())
    assert [line for line in lines if "news" not in line] == []


def test_tails_beyond_the_bound_are_refused(cluster: headrace.LocalCluster) -> None:
    """Status 503 with the time to wait; a tail that has ended makes room."""
    server = console_server(WebConfig(port=0), bootstrap=cluster.bootstrap, most_tails=1)
    with server, Pages(server.url) as pages:
        path = "/topics/both/events"
        with pages.http.stream("GET", path) as first:
            lines = first.iter_lines()  # its end would close the stream
            assert next(lines) == "retry: 3000"
            with pages.http.stream("GET", path) as second:
                assert (second.status_code, second.headers["retry-after"]) == (503, "5")

        def is_open() -> bool:
            with pages.http.stream("GET", path) as again:
                return again.status_code == 200

        wait_for(is_open, "room for a tail")


def test_pages_work_while_a_node_is_down(pages: Pages, cluster: headrace.LocalCluster) -> None:
    """The overview names the node and the offline partition; records of the other one are shown."""
    with cluster.producer() as producer:
        producer.send("single", b"here", partition=0).result(10)
    cluster.kill_node(1)
    wait_for(
        lambda: "node 2" in plain(pages.get("/")) and "down or fenced" in plain(pages.get("/")), "the problem"
    )
    overview = plain(pages.get("/"))
    assert "Needs attention" in overview
    assert "1 partitions are offline" in overview
    assert "under-replicated" in plain(pages.get("/topics?sort=problems"))
    assert "1 offline" in plain(pages.get("/topics/single"))
    assert "sends no heartbeats" in plain(pages.get("/nodes/2"))
    assert "here" in pages.get("/topics/single/messages?partition=0")
    assert "Nodes active 1 of 2" in overview
    cluster.restart_node(1)
    wait_for(lambda: "Nodes active 2 of 2" in plain(pages.get("/")), "both nodes")
