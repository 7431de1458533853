"""The text formats, read by the parsers of Prometheus' own library and by promtool."""

import subprocess

import pytest
from headrace.runtime.telemetry.exposition import PIECE_LINES, text_pieces, wants_open_metrics
from headrace.runtime.telemetry.histogram import Histogram
from headrace.runtime.telemetry.metric import Kind, counter, gauge, histogram
from headrace.runtime.telemetry.samples import Samples
from headrace.runtime.telemetry.table import ALL_METRICS
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

TOPIC = 'odd "topic"\\ with\nlines'
BYTES = counter("kafka.server", "T", "BytesInPerSec", 'Bytes: a \\ and a " and\nlines.', labels=("topic",))
SIZE = gauge("kafka.log", "Log", "Size", "Bytes.")
TIME = histogram("kafka.network", "R", "TotalTimeMs", "Times.", labels=("request",))
PARSERS = {False: parse_text, True: parse_open_metrics}


def some() -> Samples:
    """One metric of each kind, with labels that need escapes."""
    samples, times = Samples(), Histogram()
    for value in (0.01, 0.1, 3, 1e6):
        times.record(value)
    samples.set(BYTES, 5, TOPIC)
    samples.set(SIZE, 1.5)
    samples.observe(TIME, times, "Produce")
    return samples


@pytest.mark.parametrize("is_open_metrics", [False, True])
def test_the_librarys_parser_reads_the_values(is_open_metrics: bool) -> None:
    """Names, kinds, help texts, labels and values come back."""
    text = "".join(text_pieces(some(), is_open_metrics=is_open_metrics))
    families = {family.name: family for family in PARSERS[is_open_metrics](text)}
    assert {name: family.type for name, family in families.items()} == {
        "kafka_log_log_size": "gauge",
        "kafka_network_r_totaltimems": "histogram",
        "kafka_server_t_bytesin": "counter",
    }
    assert families["kafka_server_t_bytesin"].documentation == BYTES.doc
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert found["kafka_server_t_bytesin_total", TOPIC] == 5
    assert found["kafka_log_log_size",] == 1.5
    buckets = {key[2]: value for key, value in found.items() if key[0].endswith("_bucket")}
    assert buckets["0.064"] == 1
    assert (buckets["4.096"], buckets["+Inf"]) == (3, 4)
    assert list(buckets.values()) == sorted(buckets.values()), "cumulative"
    assert found["kafka_network_r_totaltimems_count", "Produce"] == 4
    assert found["kafka_network_r_totaltimems_sum", "Produce"] == pytest.approx(1_000_003.11)


def test_pieces_are_bounded() -> None:
    """A thread that makes them gives up the interpreter in between."""
    samples = Samples()
    for number in range(2 * PIECE_LINES):
        samples.set(BYTES, 1, str(number))
    pieces = list(text_pieces(samples, is_open_metrics=False))
    assert max(piece.count("\n") for piece in pieces) <= PIECE_LINES + 2
    assert len(next(iter(parse_text("".join(pieces)))).samples) == 2 * PIECE_LINES


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4", True),
        ("application/openmetrics-text; version=1.0.0,application/openmetrics-text; version=0.0.1", True),
        ("application/openmetrics-text;version=0.0.1;q=0.5,text/plain", False),
        ("application/openmetrics-text;version=1.0.0;q=0", False),
        ("text/plain", False),
        ("", False),
        (";,;version=,,", False),
    ],
)
def test_the_format_is_negotiated(accept: str, wanted: bool) -> None:
    assert wants_open_metrics(accept) is wanted


def test_promtool_accepts_all_metrics() -> None:
    """Only names that Kafka has are not as Prometheus advises."""
    samples = Samples()
    for metric in ALL_METRICS:
        labels = ["x"] * len(metric.labels)
        if metric.kind is Kind.HISTOGRAM:
            samples.observe(metric, Histogram(), *labels)
        else:
            samples.set(metric, 1, *labels)
    samples.check()
    text = "".join(text_pieces(samples, is_open_metrics=False))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30
    )
    advice = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert [line for line in advice if not line.startswith("kafka_")] == []
    assert all(" should " in line or "camelCase" in line for line in advice), advice
