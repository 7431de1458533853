"""Orders with the price from an HTTP service: many requests at a time, results in order.

The service is a local one that takes 50 ms for each answer, and refuses some requests: they are repeated.

Run: python examples/streams/enrich_http.py
"""

from __future__ import annotations

import asyncio
import json as json_text
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import common
from headrace import json, stream, utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

ORDERS = 300
PRICES = {"tea": 3, "cup": 9, "pot": 25}
DELAY_S = 0.05


class PriceService(BaseHTTPRequestHandler):
    """GET /tea answers {"price": 3}. The first request of each path fails with 503."""

    seen: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        """Answer after a while, as a service elsewhere does."""
        threading.Event().wait(DELAY_S)
        self.seen[self.path] += 1
        self.send_response(503 if self.seen[self.path] == 1 else 200)
        self.end_headers()
        self.wfile.write(json_text.dumps({"price": PRICES[self.path.strip("/")]}).encode())

    def log_message(self, *_: Any) -> None:
        """No line for each request."""


class Server(ThreadingHTTPServer):
    """With room for many connections at once."""

    request_queue_size = 128


@contextmanager
def price_service() -> Iterator[int]:
    """The port of a running service."""
    with Server(("127.0.0.1", 0), PriceService) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


async def get(port: int, path: str) -> Any:
    """The JSON of a GET request. Your program has aiohttp or httpx for this. Errors: OSError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    if b" 200 " not in head.splitlines()[0]:
        raise OSError(f"{path}: {head.splitlines()[0].decode()}")
    return json_text.loads(body)


def app(port: int) -> stream.App:
    """The application."""

    async def with_price(order: dict[str, Any]) -> dict[str, Any]:
        found = await get(port, f"/{order['product']}")
        return {**order, "sum": order["count"] * found["price"]}

    made = stream.App("enrich-http", key=utf8, value=json)
    (
        made.stream("orders")
        # Its offset is committed when its result is: no order is lost in a crash, some requests are repeated.
        .map_values_async(with_price, concurrency=50, timeout=20_000, retry=stream.Retry(on=(OSError,)))
        .to("orders-with-sums")
    )
    return made


def main() -> None:
    """Orders of three customers, and what they cost."""
    with common.cluster("orders", "orders-with-sums") as cluster, price_service() as port:
        with cluster.producer(key=utf8, value=json) as producer:
            for number in range(ORDERS):
                product = sorted(PRICES)[number % len(PRICES)]
                order = {"number": number, "product": product, "count": 1 + number % 2}
                producer.send("orders", order, key=("ann", "bob", "cem")[number // 2 % 3])
        with common.run(app(port), cluster) as running:
            found = common.read(
                running, "orders-with-sums", lambda records: len(records) == ORDERS, key=utf8, value=json
            )
    totals: Counter[str] = Counter()
    numbers: dict[str, list[int]] = {}
    for record in found:
        totals[record.key] += record.value["sum"]
        numbers.setdefault(record.key, []).append(record.value["number"])
    for customer, total in sorted(totals.items()):
        print(f"{customer} {total:5}, in order: {numbers[customer] == sorted(numbers[customer])}")


if __name__ == "__main__":
    main()
