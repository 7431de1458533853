"""Half load is half of what the slower system reached with such records and such a client."""

from typing import Any

from headrace.benchmarks.cells.rates import DEFAULT_RATES, Rates

KIB: dict[str, Any] = {"size": 1000}


def measured() -> Rates:
    """Kafka's median is 200/s, headrace's 300/s; both consume faster."""
    rates = Rates()
    for rate in (100.0, 200.0, 5_000.0):
        rates.produced("kafka", 1, {**KIB, "api": "produce+callback"}, rate)
    rates.produced("headrace", 1, {**KIB, "api": "send"}, 300.0)
    for system, api in (("kafka", "consume"), ("headrace", "poll")):
        rates.consumed(system, 1, {**KIB, "api": api}, 400.0)
    return rates


def test_slowest_is_the_smallest_median() -> None:
    """Of both systems, producing and consuming."""
    rates = measured()
    assert rates.slowest(1, KIB) == 200.0
    rates.consumed("headrace", 1, {**KIB, "api": "poll"}, 10.0)
    rates.consumed("headrace", 1, {**KIB, "api": "poll"}, 20.0)
    assert rates.slowest(1, KIB) == 20.0


def test_other_cells_do_not_count() -> None:
    """Other APIs, compressed records, several consumers."""
    rates = measured()
    rates.produced("kafka", 1, {**KIB, "api": "send_many"}, 1.0)
    rates.produced("kafka", 1, {**KIB, "api": "produce+callback", "compression": "lz4"}, 1.0)
    rates.consumed("kafka", 1, {**KIB, "api": "iterate"}, 1.0)
    rates.consumed("kafka", 1, {**KIB, "api": "poll", "consumers": 3}, 1.0)
    assert rates.slowest(1, KIB) == 200.0


def test_rates_are_separate_by_nodes_size_and_client() -> None:
    """A load without measurements has a default rate."""
    rates = measured()
    kafka_client = {**KIB, "client": "kafka"}
    assert rates.slowest(3, KIB) == DEFAULT_RATES[3]
    assert rates.slowest(1, {"size": 100}) == DEFAULT_RATES[1]
    assert rates.slowest(1, kafka_client) == DEFAULT_RATES[1]
    rates.produced("headrace", 1, {**kafka_client, "api": "produce+callback"}, 50.0)
    rates.produced("headrace", 1, {**kafka_client, "api": "produce"}, 5.0)
    assert rates.slowest(1, kafka_client) == 50.0
    assert rates.slowest(1, KIB) == 200.0


def test_share_has_an_upper_limit() -> None:
    """Half of the slowest rate, or `most`."""
    rates = measured()
    assert rates.share(1, {**KIB, "share": 0.5}) == 100
    assert rates.share(1, {**KIB, "share": 0.5, "most": 70}) == 70
