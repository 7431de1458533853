"""Times of requests from the exposition of a node."""

import math

import pytest
from headrace.clients.cluster.network import Address
from headrace.runtime.telemetry.exposition import text_pieces
from headrace.runtime.telemetry.histogram import Histogram
from headrace.runtime.telemetry.node_table import TOTAL_TIME
from headrace.runtime.telemetry.samples import Samples
from headrace.services.console.latencies import MOST_REQUESTS, Latency, latencies_of
from headrace.services.console.latencies_io import endpoint_of


def exposed(**times: list[float]) -> list[str]:
    """The lines of a node with these times in ms by request."""
    samples = Samples()
    for name, values in times.items():
        histogram = Histogram()
        for value in values:
            histogram.record(value)
        samples.observe(TOTAL_TIME, histogram, name)
    return "".join(text_pieces(samples, is_open_metrics=False)).splitlines(keepends=True)


def test_percentiles_are_bounds_of_buckets() -> None:
    """The most frequent request first; one that never came is left out."""
    found = latencies_of(exposed(Produce=[1.0] * 98 + [300.0] * 2, Metadata=[0.01], Fetch=[]))
    assert found == [Latency("Produce", 100, 1.024, 524.288), Latency("Metadata", 1, 0.064, 0.064)]


def test_longest_times_are_beyond_the_last_bucket() -> None:
    assert latencies_of(exposed(Produce=[100_000.0])) == [Latency("Produce", 1, math.inf, math.inf)]


def test_other_lines_are_skipped() -> None:
    """Also damaged ones, and those of more requests than there are."""
    lines = ["kafka_network_requestmetrics_totaltimems_bucket{request=", "x 1\n", "\ufffd\x1b[31m", "# HELP"]
    assert latencies_of(lines) == []
    many = exposed(**{f"R{number}": [1.0] for number in range(MOST_REQUESTS + 5)})
    assert len(latencies_of(many)) == MOST_REQUESTS


@pytest.mark.parametrize(
    ("listener", "endpoint"),
    [
        ("10.0.0.9:9404", Address("10.0.0.9", 9404)),
        ("0.0.0.0:9404", Address("node-1", 9404)),
        ("[::]:9404", Address("node-1", 9404)),
        ("[fd00::1]:9404", Address("fd00::1", 9404)),
        ("127.0.0.1:0", None),
        ("127.0.0.1:70000", None),
        ("", None),
    ],
)
def test_endpoint_of_a_listener(listener: str, endpoint: Address | None) -> None:
    """On all addresses: at the address of the node. A free port is not known."""
    assert endpoint_of(listener, "node-1") == endpoint
