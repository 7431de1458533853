"""From the reports of client processes to figures."""

import pytest
from bench_harness import latencies
from headrace.benchmarks.cells.figures import describe, in_sequence, total, with_rates, worst


def test_rates_of_a_report() -> None:
    """Per second and per GB; latencies get names, curves are left out."""
    report = {"seconds": 2.0, "records": 10, "bytes": 4_000_000, "server_cpu_s": 0.1, "client_cpu_s": 0.2,
              "ack": {"p99": 3.0, "curve": []}, "expected": {}}  # fmt: skip
    figures = with_rates(report)
    assert (figures["records_per_s"], figures["mb_per_s"], figures["ack_p99_ms"]) == (5.0, 2.0, 3.0)
    assert figures["server_cpu_s_per_gb"] == pytest.approx(25.0)
    assert figures["client_cpu_s_per_gb"] == pytest.approx(50.0)
    assert not {"ack", "expected", "ack_curve_ms"} & figures.keys()


def test_parallel_and_consecutive_reports() -> None:
    """Parallel ones have the longest time, consecutive ones the sum."""
    reports = [
        {"records": 1, "bytes": 2, "client_cpu_s": 0.5, "seconds": seconds, "server_cpu_s": seconds}
        for seconds in (1.0, 3.0)
    ]
    sums = {"records": 2, "bytes": 4, "client_cpu_s": 1.0}
    assert total(reports) == {**sums, "seconds": 3.0, "server_cpu_s": 3.0}
    assert in_sequence(reports) == {**sums, "seconds": 4.0, "server_cpu_s": 4.0}


def test_worst_percentile_of_some_readers() -> None:
    """Each percentile by itself."""
    assert worst([{"e2e": latencies(value)} for value in (1.0, 2.0)])["p99"] == 2.0


def test_description_for_the_terminal() -> None:
    """The figures of the cell, or why there are none."""
    assert describe({"absent": "Producer.send_arrow"}) == "absent: Producer.send_arrow"
    text = describe({"gap_ms": 1500.0, "doubled": 2, "records_per_s": 1000.0})
    assert text.split("  ")[-1] == "no acknowledgements for 1,500 ms, 2 duplicates"
    assert "1,000 rec/s" in text
