"""Receivers of OTLP metrics, made of the official protobufs: by gRPC and by HTTP. They may be slow."""

import contextlib
import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as messages
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as services

PATH = "/v1/metrics"


class Received:
    """What has arrived. `gate` holds answers back while it is not set."""

    def __init__(self) -> None:
        self.requests: list[messages.ExportMetricsServiceRequest] = []
        self.endpoint = ""
        self.gate = threading.Event()
        self.gate.set()

    def take(self, request: messages.ExportMetricsServiceRequest) -> None:
        self.requests.append(request)
        self.gate.wait(60)

    def resources(self) -> list[dict[str, str]]:
        """The attributes of the resources, one per request."""
        return [
            {each.key: each.value.string_value for each in found.resource.attributes}
            for request in self.requests
            for found in request.resource_metrics
        ]

    def metrics(self, instance: str) -> dict[str, Any]:
        """The last metrics of a server by name."""
        for request in reversed(self.requests):
            for found in request.resource_metrics:
                attributes = {each.key: each.value.string_value for each in found.resource.attributes}
                if attributes["service.instance.id"] == instance:
                    return {each.name: each for scope in found.scope_metrics for each in scope.metrics}
        return {}


def attributes_of(point: Any) -> dict[str, str]:
    """Of one data point."""
    return {each.key: each.value.string_value for each in point.attributes}


@contextlib.contextmanager
def grpc_receiver() -> Iterator[Received]:
    """The endpoint is http://host:port."""
    received = Received()

    class Servicer(services.MetricsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            received.take(request)
            return messages.ExportMetricsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(4))
    services.add_MetricsServiceServicer_to_server(Servicer(), server)
    received.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield received
    finally:
        received.gate.set()
        server.stop(None).wait(5)


@contextlib.contextmanager
def http_receiver() -> Iterator[Received]:
    """The endpoint is the base of the URLs of all signals."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == PATH
            received.take(messages.ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield received
    finally:
        received.gate.set()
        server.shutdown()
        server.server_close()
