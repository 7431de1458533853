"""`python -m headrace.benchmarks.telemetry_cost_io`: CPU time of producer, consumer and node by mode.

Each mode has a client and a node in processes of their own. They take turns as A B B A: in each turn a
client sends records of 100 bytes by `send`, and polls them; `all` is the sum of the three. `off` and `on`
differ in enable.tracing of both sides; the number behind `on` is the ratio of the sampler. Spans are encoded
for OTLP and dropped. The node of `unmeasured` does not measure requests; that of `scraped` does, and its
endpoint is read every second, fifteen times as often as usual. `--before PATH` compares with the `headrace`
of another folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import headrace
import psutil
from headrace.runtime.ports_io import reserve_ports

VALUE = b"x" * 100
POLL = 1000
SCRAPE_INTERVAL_S = 1.0


def main() -> None:
    """Print the medians, and the medians of the differences of the pairs with their quartiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000, help="of one turn")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--before", default="")
    parser.add_argument("--modes", default="off,on-0,on-0.01")
    parser.add_argument("--client", default="")
    parser.add_argument("--node", default="")
    options = parser.parse_args()
    if options.node:
        run_node(options.node)
    elif options.client:
        run_client(options.client, options.records)
    else:
        first, *others = (["before"] if options.before else []) + options.modes.split(",")
        for mode in others:
            compare(first, mode, options)


def compare(first: str, mode: str, options: argparse.Namespace) -> None:
    """Two modes in turns; a turn of each comes before, to warm up."""
    children = {each: start_client(each, options) for each in (first, mode)}
    found: dict[str, list[dict[str, float]]] = {first: [], mode: []}
    for number in range(-1, options.pairs):
        for each in (first, mode) if number % 2 == 0 else (mode, first):
            turn = ask(children[each])
            if number >= 0:
                found[each].append(turn)
    for process in children.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    for part in found[first][0]:
        before, after = ([turn[part] for turn in found[each]] for each in (first, mode))
        changes = [100 * (b / a - 1) for a, b in zip(before, after, strict=True) if a]
        low, middle, high = statistics.quantiles(changes, n=4)
        medians = [
            f"{name:8} {statistics.median(each):.3f} us" for name, each in ((first, before), (mode, after))
        ]
        print(f"{part:8}", *medians, f"{middle:+6.2f} % ({low:+.1f} to {high:+.1f})", flush=True)


def start_client(mode: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    """The client of a mode, which starts its node."""
    environment = dict(os.environ)
    if mode == "before":
        environment["PYTHONPATH"] = options.before
    command = [sys.executable, str(Path(__file__)), "--client", mode, "--records", str(options.records)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def ask(process: subprocess.Popen[str]) -> dict[str, float]:
    """One turn."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    facts: dict[str, float] = json.loads(process.stdout.readline())
    return facts


def run_client(mode: str, count: int) -> None:
    """A turn for each line of standard input."""
    ratio = mode.partition("-")[2]
    options: dict[str, Any] = {"enable_tracing": True} if ratio else {}
    if ratio:
        set_provider(float(ratio))
    command = [sys.executable, str(Path(__file__)), "--node", mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdin is not None
        assert node.stdout is not None
        bootstrap, metrics_port = node.stdout.readline().split()
        if mode == "scraped":
            threading.Thread(target=scrape, args=(int(metrics_port),), daemon=True).start()
        with headrace.Admin(bootstrap) as admin:
            admin.create_topics(headrace.NewTopic("t", partitions=4)).raise_for_errors()
        with (
            headrace.Producer(bootstrap, **options) as producer,
            headrace.Consumer("t", bootstrap=bootstrap, auto_offset_reset="earliest", **options) as consumer,
        ):
            for _ in sys.stdin:
                print(json.dumps(turn(producer, consumer, count, psutil.Process(node.pid))), flush=True)
        node.stdin.close()


def turn(producer: Any, consumer: Any, count: int, node: psutil.Process) -> dict[str, float]:
    """Microseconds of CPU time for each record."""
    send, left = producer.send, count
    consumer.pause()
    began = time.process_time(), cpu_of(node)
    for _ in range(count):
        send("t", VALUE)
    producer.flush()
    sent = time.process_time(), cpu_of(node)
    consumer.resume()
    while left > 0:
        left -= len(consumer.poll(10, POLL))
    polled = time.process_time(), cpu_of(node)
    parts = {"send": sent[0] - began[0], "poll": polled[0] - sent[0], "node": polled[1] - began[1]}
    return {name: used_s * 1e6 / count for name, used_s in {**parts, "all": sum(parts.values())}.items()}


def run_node(mode: str) -> None:
    """Serve until standard input ends."""
    config: dict[str, Any] = {}
    metrics_port = 0
    if mode.startswith("on"):
        config["enable.tracing"] = True
        set_provider(1.0)
    elif mode == "scraped":
        (metrics_port,) = reserve_ports(1)
        config["metrics.listener"] = f"127.0.0.1:{metrics_port}"
    elif mode == "unmeasured":
        from headrace.storage_node.edge.request_meter import RequestMeter

        for step in ("begin", "turned", "replied"):
            setattr(RequestMeter, step, lambda _meter, _request: None)
    with headrace.local(**config) as cluster:
        print(cluster.bootstrap, metrics_port, flush=True)
        sys.stdin.read()


def scrape(port: int) -> None:
    """Read the node's metrics until the process ends."""
    pause = threading.Event()
    while not pause.wait(SCRAPE_INTERVAL_S):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            response.read()


def cpu_of(process: psutil.Process) -> float:
    """User and system time."""
    times = process.cpu_times()
    return float(times.user + times.system)


def set_provider(ratio: float) -> None:
    """A provider of the process whose spans are encoded and dropped."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    class Encoding(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            encode_spans(spans).SerializeToString()
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(ratio)))
    provider.add_span_processor(BatchSpanProcessor(Encoding()))
    trace.set_tracer_provider(provider)


if __name__ == "__main__":
    main()
