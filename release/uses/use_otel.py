"""The servers push metrics to a collector, by gRPC and by HTTP."""

import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import headrace
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as messages
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as services

arrived = {"grpc": threading.Event(), "http/protobuf": threading.Event()}


class Servicer(services.MetricsServiceServicer):
    def Export(self, request, context):
        arrived["grpc"].set()
        return messages.ExportMetricsServiceResponse()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        arrived["http/protobuf"].set()

    def log_message(self, *arguments):
        """Nothing."""


by_grpc = grpc.server(ThreadPoolExecutor(1))
services.add_MetricsServiceServicer_to_server(Servicer(), by_grpc)
endpoints = {"grpc": f"http://127.0.0.1:{by_grpc.add_insecure_port('127.0.0.1:0')}"}
by_grpc.start()
by_http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
endpoints["http/protobuf"] = f"http://127.0.0.1:{by_http.server_port}"
threading.Thread(target=by_http.serve_forever, daemon=True).start()
for protocol, endpoint in endpoints.items():
    push = {"metrics.otlp.enable": True, "metrics.otlp.interval.ms": 100}
    with headrace.local(**push, **{"otlp.endpoint": endpoint, "otlp.protocol": protocol}):
        assert arrived[protocol].wait(60), f"no metrics arrived by {protocol}"
by_http.shutdown()
by_grpc.stop(None).wait()
