"""REST measured: records per second that are produced, and the time from an append to the event of a tail.

`make bench-rest`, or `python -m headrace.benchmarks.rest_io`. The cluster, the REST server and the load are a
process each; the results are printed. docs/REST.md has those of one machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import psutil
from headrace import aio
from headrace.services.bench.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_CLUSTER = (
    "import headrace, sys; c = headrace.local(); print(c.bootstrap, flush=True); sys.stdin.read(); c.close()"
)
_REST = """
import sys
from headrace.services.rest.application import rest_server
from headrace.services.web.settings import WebConfig
with rest_server(WebConfig(port=0), bootstrap=sys.argv[1]) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
BATCHES, BATCH = 200, 1000
CLIENTS = 2
STREAMED = 5  # batches of one streamed request
TEXT = "x" * 60
TAILS = ((1, 50, 8), (100, 20, 8), (1000, 2, 8))  # tails, records per second, seconds
WAIT_S = 60.0


def main() -> None:
    """Measure and print."""
    with _process(_CLUSTER) as (_, bootstrap), _process(_REST, bootstrap) as (server, url):
        topics = _topics(url)
        for name, path, kind, body in _produce_plans(topics):
            rate, cpu = asyncio.run(_produced(server, url + path, kind, body))
            print(f"produce {name}: {rate:,.0f} records/s, {cpu * 1e6:.0f} us of CPU per record", flush=True)
        for count, rate, seconds in TAILS:
            found, cpu = asyncio.run(_tailed(server, bootstrap, url, topics, count, rate, seconds))
            p50, p99, top = (found.percentile(each) / 1e6 for each in (50, 99, 100))
            print(
                f"{count} tails, {rate} records/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {top:.1f} ms,"
                f" {cpu * 1e6:.0f} us of CPU per event, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )


def _produce_plans(topics: str) -> Iterator[tuple[str, str, str, bytes]]:
    """(name, path, content type, body) of each way to produce."""
    values = [{"number": number, "text": TEXT} for number in range(BATCH)]
    version_2 = json.dumps({"records": [{"value": each} for each in values]})
    yield "v2, batches", "/topics/produced", "application/vnd.kafka.json.v2+json", version_2.encode()
    stream = "".join(json.dumps({"value": {"type": "JSON", "data": each}}) for each in values)
    yield "v3, stream", f"{topics}/produced/records", "application/json", stream.encode()
    entries = [{"id": str(n), "value": {"type": "JSON", "data": each}} for n, each in enumerate(values)]
    batch = json.dumps({"entries": entries})
    yield "v3, batches", f"{topics}/produced/records:batch", "application/json", batch.encode()


async def _produced(server: psutil.Process, url: str, content_type: str, body: bytes) -> tuple[float, float]:
    """(records per second, CPU seconds of the server per record)."""
    headers = {"content-type": content_type}

    async def client(batches: int) -> None:
        async with httpx.AsyncClient(timeout=WAIT_S) as http:
            if url.endswith("/records"):
                for _ in range(0, batches, STREAMED):  # httpx reads the response after it has sent all
                    response = await http.post(url, content=_parts(body, STREAMED), headers=headers)
                    assert response.text.count('"error_code":200,') == BATCH * STREAMED
                return
            for _ in range(batches):
                response = await http.post(url, content=body, headers=headers)
                assert response.status_code in (200, 207), response.text

    await client(5)  # warm-up
    before, began = _cpu_s(server), time.perf_counter()
    await asyncio.gather(*(client(BATCHES // CLIENTS) for _ in range(CLIENTS)))
    elapsed, records = time.perf_counter() - began, BATCHES * BATCH
    return records / elapsed, (_cpu_s(server) - before) / records


async def _parts(body: bytes, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield body


async def _tailed(
    server: psutil.Process, bootstrap: str, url: str, topics: str, count: int, rate: int, seconds: int
) -> tuple[Histogram, float]:
    """(times from the call of `send` to the event in ns, CPU seconds of the server per event)."""
    found, opened = Histogram(), asyncio.Semaphore(0)
    host, port = url.removeprefix("http://").split(":")
    wanted = rate * seconds

    async def tail() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {topics}/tailed/records:tail HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await reader.readuntil(b"data: {}\n\n")
        opened.release()
        seen = 0
        while seen < wanted:
            line = await reader.readline()
            if line.startswith(b"data: {"):
                now = time.perf_counter_ns()
                found.record(now - int(json.loads(line[6:])["value"]["data"]))
                seen += 1
        writer.close()

    tails = [asyncio.create_task(tail()) for _ in range(count)]
    for _ in range(count):
        await opened.acquire()
    async with aio.connect(bootstrap) as clients:
        producer = clients.producer(linger_ms=0)
        await producer.partitions_for("tailed")
        before, start = _cpu_s(server), time.perf_counter()
        for number in range(wanted):
            await asyncio.sleep(max(start + number / rate - time.perf_counter(), 0))
            await producer.send("tailed", str(time.perf_counter_ns()).encode())
        await asyncio.wait_for(asyncio.gather(*tails), WAIT_S)
    return found, (_cpu_s(server) - before) / (wanted * count)


def _topics(url: str) -> str:
    """The path of the topics, two of which are created."""
    cluster_id = httpx.get(f"{url}/v3/clusters").json()["data"][0]["cluster_id"]
    path = f"/v3/clusters/{cluster_id}/topics"
    for name, partitions in (("produced", 4), ("tailed", 1)):
        body = {"topic_name": name, "partitions_count": partitions}
        httpx.post(url + path, json=body).raise_for_status()
    return path


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def _process(code: str, *arguments: str) -> Iterator[tuple[psutil.Process, str]]:
    """A Python process and its first line; it ends with its standard input."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdin is not None
        try:
            yield psutil.Process(started.pid), started.stdout.readline().strip()
        finally:
            started.stdin.close()
            started.wait(WAIT_S)


if __name__ == "__main__":
    main()
