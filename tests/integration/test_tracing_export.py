"""Servers export their spans by OTLP, to a receiver made with the official protobufs, and to none."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_server
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

PROCESS = Path(__file__).parents[1] / "fakes" / "traced_node_process.py"


class Receiver(TraceServiceServicer):
    """A collector."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []

    def Export(self, request: Any, context: object) -> ExportTraceServiceResponse:
        self.requests.append(request)
        return ExportTraceServiceResponse()

    def spans(self) -> list[tuple[str, str, str]]:
        """Service, name and trace id of each span."""
        found = []
        for request in self.requests:
            for resource in request.resource_spans:
                service = {each.key: each.value.string_value for each in resource.resource.attributes}
                for scope in resource.scope_spans:
                    found += [
                        (service["service.name"], span.name, span.trace_id.hex()) for span in scope.spans
                    ]
        return found


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def grpc_endpoint(receiver: Receiver) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(receiver, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop(None)


@pytest.fixture
def http_endpoint(receiver: Receiver) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            import gzip

            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            is_traces = self.path == "/v1/traces"
            if is_traces:
                receiver.Export(ExportTraceServiceRequest.FromString(body), None)
            self.send_response(200 if is_traces else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run_node(endpoint: str, protocol: str, count: int) -> dict[str, Any]:
    command = [sys.executable, str(PROCESS), endpoint, protocol, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_spans_reach_the_collector(request: pytest.FixtureRequest, receiver: Receiver, protocol: str) -> None:
    """The last ones when the node stops."""
    endpoint = request.getfixturevalue("grpc_endpoint" if protocol == "grpc" else "http_endpoint")
    run_node(endpoint, protocol, 3)
    wanted = {("headrace", "append orders", f"{number:032x}") for number in (1, 2, 3)}
    assert wanted == set(receiver.spans())


def test_collector_that_does_not_answer_costs_a_bounded_queue() -> None:
    """It accepts connections, and says nothing: all records are acknowledged, and the node stops in time."""
    with create_server(("127.0.0.1", 0)) as silent:
        facts = run_node(f"http://127.0.0.1:{silent.getsockname()[1]}", "http/protobuf", 2000)
    assert facts["waiting"] <= 50
    assert facts["close_s"] < 10
