"""Half load is half of what the slower system reached with such records, through such a client."""

from __future__ import annotations

from typing import Any

from headrace.benchmarks.rates import FALLBACK_RATES, Rates

KIB: dict[str, Any] = {"size": 1000}


def told() -> Rates:
    """Kafka's median is 200 a second, headrace's 300; both read more."""
    rates = Rates()
    for rate in (100.0, 200.0, 5_000.0):
        rates.produced("kafka", 1, {**KIB, "face": "produce+callback"}, rate)
    rates.produced("headrace", 1, {**KIB, "face": "send"}, 300.0)
    for system, face in (("kafka", "consume"), ("headrace", "poll")):
        rates.consumed(system, 1, {**KIB, "face": face}, 400.0)
    return rates


def test_the_slowest_is_the_least_median() -> None:
    """Of both systems, producing and reading."""
    rates = told()
    assert rates.slowest(1, KIB) == 200.0
    rates.consumed("headrace", 1, {**KIB, "face": "poll"}, 10.0)
    rates.consumed("headrace", 1, {**KIB, "face": "poll"}, 20.0)
    assert rates.slowest(1, KIB) == 20.0


def test_other_cells_do_not_count() -> None:
    """Other faces, compressed records, several consumers."""
    rates = told()
    rates.produced("kafka", 1, {**KIB, "face": "send_many"}, 1.0)
    rates.produced("kafka", 1, {**KIB, "face": "produce+callback", "compression": "lz4"}, 1.0)
    rates.consumed("kafka", 1, {**KIB, "face": "iterate"}, 1.0)
    rates.consumed("kafka", 1, {**KIB, "face": "poll", "consumers": 3}, 1.0)
    assert rates.slowest(1, KIB) == 200.0


def test_other_nodes_sizes_and_clients_are_other_loads() -> None:
    """Each by its own cells, or by what is assumed."""
    rates = told()
    through = {**KIB, "client": "kafka"}
    assert rates.slowest(3, KIB) == FALLBACK_RATES[3]
    assert rates.slowest(1, {"size": 100}) == FALLBACK_RATES[1]
    assert rates.slowest(1, through) == FALLBACK_RATES[1]
    rates.produced("headrace", 1, {**through, "face": "produce+callback"}, 50.0)
    rates.produced("headrace", 1, {**through, "face": "produce"}, 5.0)
    assert rates.slowest(1, through) == 50.0
    assert rates.slowest(1, KIB) == 200.0


def test_a_share_has_its_bound() -> None:
    """Half, or what the meter bears."""
    rates = told()
    assert rates.share(1, {**KIB, "share": 0.5}) == 100
    assert rates.share(1, {**KIB, "share": 0.5, "most": 70}) == 70
