"""Produce and consume cells: what they order, what they report, and lost records."""

from typing import Any

import pytest
from bench_harness import FakeHarness, costs, latencies
from headrace.benchmarks.cells.throughput import ConsumeCell, ProduceCell, RawCell, WindowCell
from headrace.benchmarks.harness import LostDataError, Preloaded

SENT = costs(records=100, bytes=1_000_000, failed=0, expected={"count": 110, "checksum": 5})
PRODUCE = ProduceCell("send", "headrace", {"api": "send", "size": 100, "count": 100})
CONSUME = ConsumeCell("poll", "headrace", {"api": "poll", "size": 100})


def test_produce_cell_reports_rates_and_verifies_all_records() -> None:
    """Its topic is deleted; the rate counts for later open loops."""
    harness = FakeHarness(produce=SENT)
    harness.stored = {"count": 110, "checksum": 5}
    figures = PRODUCE.run(harness)
    assert (figures["records_per_s"], figures["mb_per_s"]) == (100.0, 1.0)
    assert figures["server_cpu_s_per_gb"] == pytest.approx(500)
    assert "expected" not in figures
    assert "in_sync" not in figures
    (order,) = harness.orders
    assert (order["loop"], order["api"]) == ("produce", "send")
    assert (harness.topics, harness.profiles) == ([], 1)
    assert harness.rates.slowest(1, {"size": 100}) == 100.0


def test_produce_cell_of_a_cluster_reports_the_smallest_isr() -> None:
    """Of all partitions, before the records are read back."""
    assert PRODUCE.run(FakeHarness(nodes=3, produce=SENT))["in_sync"] == 2


@pytest.mark.parametrize("stored", [{"count": 109, "checksum": 5}, {"count": 110, "checksum": 6}])
def test_lost_or_changed_records_fail_a_produce_cell(stored: dict[str, int]) -> None:
    """And its topic is deleted all the same."""
    harness = FakeHarness(produce=SENT)
    harness.stored = stored
    with pytest.raises(LostDataError, match="sent"):
        PRODUCE.run(harness)
    assert harness.topics == []


def test_failed_records_fail_a_produce_cell() -> None:
    """Its rate would count records that were not stored."""
    with pytest.raises(LostDataError, match="3 records failed"):
        PRODUCE.run(FakeHarness(produce={**SENT, "failed": 3}))


def test_missing_api_is_reported_as_absent() -> None:
    """Not as a failure."""
    absent = {"absent": "Producer.send_arrow"}
    assert PRODUCE.run(FakeHarness(produce=absent)) == absent
    harness = FakeHarness(consume=absent)
    harness.loaded["headrace"] = Preloaded("t", 10)
    assert CONSUME.run(harness) == absent


def consumed(order: dict[str, Any]) -> dict[str, Any]:
    share = len(order["partitions"])
    return costs(records=share * 10 - 1, bytes=(share * 10 - 1) * 100, first=1, read=share * 10)


def test_consumers_share_the_partitions_of_the_preloaded_topic() -> None:
    """Rates are those of all of them together, without the first record of each."""
    harness = FakeHarness(consume=consumed)
    harness.loaded["headrace"] = Preloaded("t", 60)
    figures = ConsumeCell("poll", "headrace", {**CONSUME.spec, "consumers": 3}).run(harness)
    assert [order["partitions"] for order in harness.orders] == [[0, 3], [1, 4], [2, 5]]
    assert (figures["records_per_s"], figures["client_cpu_s"]) == (57.0, pytest.approx(0.3))


@pytest.mark.parametrize("count", [59, 61])
def test_missing_or_repeated_records_fail_a_consume_cell(count: int) -> None:
    """The preload says how many there are."""
    harness = FakeHarness(consume=consumed)
    harness.loaded["headrace"] = Preloaded("t", count)
    with pytest.raises(LostDataError, match=f"60 records of {count}"):
        CONSUME.run(harness)


def test_window_cell_reports_the_median_of_its_producers() -> None:
    """Rates in sum, latencies by percentile."""
    values = iter((1.0, 9.0, 2.0))
    harness = FakeHarness(window=lambda _: costs(records=10, bytes=1000, ack=latencies(next(values))))
    figures = WindowCell("w", "kafka", {"producers": 3, "seconds": 1.0}).run(harness)
    assert (figures["records_per_s"], figures["ack_p99_ms"]) == (30.0, 2.0)


def test_raw_cell_counts_warm_up_records_when_it_verifies() -> None:
    """They are in the topic, too."""
    harness = FakeHarness(raw=costs(records=50, bytes=5000, sent=70))
    harness.stored = {"count": 70, "checksum": None}
    assert RawCell("raw", "headrace", {}).run(harness)["records_per_s"] == 50.0
