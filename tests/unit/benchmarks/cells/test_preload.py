"""Preloads: three ways to fill a topic, each verified."""

import pytest
from bench_harness import FakeHarness, costs
from headrace.benchmarks.cells.preload import Preload, ProducePreload, ToolPreload, TransactionPreload
from headrace.benchmarks.harness import LostDataError

EXPECTED = {"count": 10, "checksum": 4}
TRANSACTIONS = TransactionPreload(100, 4, 8, records=2, abort_every=2)


class Tools:
    def produce(self, system: object, topic: str, spec: dict[str, object]) -> dict[str, object]:
        assert (spec["count"], spec["acks"]) == (8, "all")
        return {"records": spec["count"]}


def harness() -> FakeHarness:
    found = FakeHarness(produce=costs(expected=EXPECTED), transact=costs(expected=EXPECTED),
                        committed={"count": 5, "checksum": 2})  # fmt: skip
    found.tools = Tools()
    return found


@pytest.mark.parametrize(
    ("preload", "count"),
    [(ProducePreload(100, 4, 8), 10), (TRANSACTIONS, 10), (ToolPreload(100, 4, 8, acks="all"), 8)],
)
def test_preload_returns_how_many_records_the_topic_has(preload: Preload, count: int) -> None:
    """Those of a producer's warm-up included."""
    assert preload.fill(harness(), "headrace", "t") == count


def test_systems_may_get_different_numbers_of_records() -> None:
    """A fast one needs more to be measured."""
    fake = harness()
    for system in ("kafka", "headrace"):
        ProducePreload(100, 4, 8).fill(fake, system, "t")
    assert [(order["count"], order["api"]) for order in fake.orders] == [(4, "produce"), (8, "send_many")]


def test_lost_records_fail_a_preload() -> None:
    """Cells that read it would report wrong rates."""
    fake = harness()
    fake.stored = {"count": 9, "checksum": 4}
    with pytest.raises(LostDataError):
        ProducePreload(100, 4, 8).fill(fake, "headrace", "t")
    fake.answers["committed"] = {"count": 4, "checksum": 2}
    with pytest.raises(LostDataError):
        TRANSACTIONS.fill(fake, "headrace", "t")
