"""REST measured: records per second that are produced, and the time from an append to the event of a tail.

`make bench-rest`, or `python -m headrace.benchmarks.rest_io`. The cluster, the REST server and the load are a
process each; the table of docs/REST.md is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import httpx
import psutil
from headrace import aio
from headrace.runtime.loop_io import new_event_loop
from headrace.services.bench.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
_SENT = re.compile(rb'"value":\{"type":"JSON","data":(\d+)')


def main() -> None:
    """Measure and print the table of docs/REST.md."""
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n\n| | |\n| --- | --- |", flush=True)
    with _process(_CLUSTER) as (_, bootstrap), _process(_REST, bootstrap) as (server, url):
        topics = _topics(url)
        for name, path, kind, body in _produce_plans(topics):
            rate, cpu = asyncio.run(_produced(server, url + path, kind, body))
            print(f"| produce, {name} | {rate:,.0f} records/s; {_per_thousand(cpu)} records |", flush=True)
        for count, rate, seconds in TAILS:
            address = f"{url}{topics}/tailed/records:tail"
            found, cpu = new_event_loop().run_until_complete(
                _tailed(server, bootstrap, address, count, rate, seconds)
            )
            p50, p99, top = (found.percentile(each) / 1e6 for each in (50, 99, 100))
            print(
                f"| {count:,} tails, {rate} records/s | {p50:.1f} ms from `send` to the event at p50,"
                f" {p99:.1f} ms at p99, {top:.1f} ms at most; {_per_thousand(cpu)} events |",
                flush=True,
            )
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


def _per_thousand(cpu_s: float) -> str:
    return f"{cpu_s * 1e3:.4f} s of CPU per 1,000"


def _produce_plans(topics: str) -> Iterator[tuple[str, str, str, bytes]]:
    """(name, path, content type, body) of each way to produce."""
    values = [{"number": number, "text": TEXT} for number in range(BATCH)]
    version_2 = json.dumps({"records": [{"value": each} for each in values]})
    yield (
        "version 2, batches of 1,000",
        "/topics/produced",
        "application/vnd.kafka.json.v2+json",
        version_2.encode(),
    )
    stream = "".join(json.dumps({"value": {"type": "JSON", "data": each}}) for each in values)
    yield "version 3, streamed", f"{topics}/produced/records", "application/json", stream.encode()
    entries = [{"id": str(n), "value": {"type": "JSON", "data": each}} for n, each in enumerate(values)]
    batch = json.dumps({"entries": entries})
    yield (
        "version 3, `records:batch` of 1,000",
        f"{topics}/produced/records:batch",
        "application/json",
        batch.encode(),
    )


async def _produced(server: psutil.Process, url: str, content_type: str, body: bytes) -> tuple[float, float]:
    """(records per second, CPU seconds of the server per record)."""
    host, port, path = _parts_of(url)
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {content_type}\r\n".encode()
    copies = STREAMED if path.endswith("/records") else 1
    request = head + b"Content-Length: %d\r\n\r\n" % (len(body) * copies) + body * copies

    async def client(batches: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        for _ in range(0, batches, copies):
            writer.write(request)
            assert await _reports(reader) == BATCH * copies
        writer.close()

    await client(5)  # warm-up
    before, began = _cpu_s(server), time.perf_counter()
    await asyncio.gather(*(client(BATCHES // CLIENTS) for _ in range(CLIENTS)))
    elapsed, records = time.perf_counter() - began, BATCHES * BATCH
    return records / elapsed, (_cpu_s(server) - before) / records


async def _reports(reader: asyncio.StreamReader) -> int:
    """The number of records that a response reports as produced."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head or b" 207 " in head, head
    length = re.search(rb"content-length: (\d+)", head)
    if length is not None:
        return (await reader.readexactly(int(length[1]))).count(b'"offset":')
    count = 0
    while size := int(await reader.readuntil(b"\r\n"), 16):
        count += (await reader.readexactly(size)).count(b'"offset":')
        await reader.readexactly(2)
    await reader.readexactly(2)
    return count


class _Tail(asyncio.Protocol):
    """Reads the events of a tail and notes how late they are."""

    def __init__(self, request: bytes, wanted: int, found: Histogram, opened: Callable[[], None]) -> None:
        self._request, self._left, self._found, self._opened = request, wanted, found, opened
        self._is_open = False
        self._buffer = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter_ns()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {}"):
                self._opened()
            elif line.startswith(b"data: "):
                sent = _SENT.search(line)
                assert sent is not None, line
                self._found.record(now - int(sent[1]))
                self._left -= 1
        if not self._left and not self.ended.done():
            self.ended.set_result(None)


async def _tailed(
    server: psutil.Process, bootstrap: str, url: str, count: int, rate: int, seconds: int
) -> tuple[Histogram, float]:
    """(times from the call of `send` to the event in ns, CPU seconds of the server per event)."""
    found, opened = Histogram(), asyncio.Semaphore(0)
    host, port, path = _parts_of(url)
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    wanted = rate * seconds
    loop = asyncio.get_running_loop()
    opening = (
        loop.create_connection(lambda: _Tail(request, wanted, found, opened.release), host, port)
        for _ in range(count)
    )
    tails = [await each for each in opening]
    for _ in tails:
        await opened.acquire()
    async with aio.connect(bootstrap) as clients:
        producer = clients.producer(linger_ms=0)
        await producer.partitions_for("tailed")
        before, start = _cpu_s(server), time.perf_counter()
        for number in range(wanted):
            await asyncio.sleep(max(start + number / rate - time.perf_counter(), 0))
            await producer.send("tailed", b"%d" % time.perf_counter_ns())
        await asyncio.wait_for(asyncio.gather(*(tail.ended for _, tail in tails)), WAIT_S)
    used = _cpu_s(server) - before
    for transport, _ in tails:
        transport.abort()
    return found, used / (wanted * count)


def _parts_of(url: str) -> tuple[str, int, str]:
    """(host, port, path) of an address."""
    found = urlsplit(url)
    assert found.hostname is not None
    assert found.port is not None
    return found.hostname, found.port, found.path


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
