"""A tail in a real Chromium: a page of another origin, and a server that is replaced."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import headrace
import httpx
import pytest
from chromium import Chromium
from headrace.services.rest.application import rest_server
from headrace.services.web.settings import WebConfig


class Page(BaseHTTPRequestHandler):
    """An empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,><p>page</p>")

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def browser() -> Iterator[Chromium]:
    """Shows a page of another origin than that of the REST server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        driven = Chromium(f"http://127.0.0.1:{other.server_port}")
        driven.open("/")
        yield driven
        driven.close()
        other.shutdown()
        thread.join()


def test_event_source_misses_nothing_of_a_server_that_restarts(browser: Chromium) -> None:
    """EventSource connects again by itself and sends the id of the last event: each record arrives once."""
    with headrace.local() as cluster, cluster.producer() as producer:

        def produce(*values: int) -> None:
            for value in values:
                producer.send("tailed", b"%d" % value)
            producer.flush()

        with rest_server(WebConfig(port=0, allow_origin=("*",)), bootstrap=cluster.bootstrap) as server:
            cluster_id = httpx.get(f"{server.url}/v3/clusters").json()["data"][0]["cluster_id"]
            topics = f"{server.url}/v3/clusters/{cluster_id}/topics"
            httpx.post(topics, json={"topic_name": "tailed", "partitions_count": 2}).raise_for_status()
            browser.driver.execute_script(
                "window.seen = []; window.tail = new EventSource(arguments[0]);"
                "tail.onmessage = event => seen.push(JSON.parse(event.data).value.data)",
                f"{topics}/tailed/records:tail",
            )
            browser.wait("tail.readyState === EventSource.OPEN")
            produce(0, 1, 2)
            browser.wait("seen.length === 3")
            port = int(server.url.rpartition(":")[2])
        produce(3, 4, 5)
        with rest_server(WebConfig(port=port, allow_origin=("*",)), bootstrap=cluster.bootstrap):
            browser.wait("seen.length >= 6")
            produce(6)
            browser.wait("seen.length >= 7")
            assert sorted(browser.run("seen")) == [0, 1, 2, 3, 4, 5, 6]
