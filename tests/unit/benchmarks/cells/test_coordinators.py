"""Transactions and commits: rates, and records that are lost or too many."""

from typing import Any

import pytest
from bench_harness import FakeHarness, costs, latencies
from headrace.benchmarks.cells.coordinators import CommitCell, TransactCell
from headrace.benchmarks.harness import LostDataError

COMMITTED = costs(commits=100, committed=110, expected=110, ack=latencies(2.0))


def transactions(found: int) -> FakeHarness:
    sent = costs(records=40, bytes=4000, transactions=20, ack=latencies(1.0),
                 expected={"count": 20, "checksum": 8})  # fmt: skip
    return FakeHarness(transact=sent, committed={"count": found // 2, "checksum": 4})


def test_transact_cell_reports_transactions_per_second() -> None:
    """Two read_committed readers share the partitions; the transactional id belongs to the topic."""
    harness = transactions(found=20)
    figures = TransactCell("kafka", "kafka", {"size": 100, "records": 2}).run(harness)
    assert (figures["transactions_per_s"], figures["ack_p99_ms"]) == (20.0, 1.0)
    sent, *readers = harness.orders
    assert sent["transactional_id"] == "of-topic0"
    assert [order["partitions"] for order in readers] == [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize("found", [18, 22])
def test_transact_cell_fails_on_missing_and_on_aborted_records(found: int) -> None:
    """read_committed readers find exactly the committed ones."""
    with pytest.raises(LostDataError, match="committed"):
        TransactCell("kafka", "kafka", {"size": 100, "records": 2}).run(transactions(found))


def commit(ends: tuple[int, int], *, window: int = 1, consumers: int = 1, **more: Any) -> dict[str, Any]:
    harness = FakeHarness(commits={**COMMITTED, **more})
    harness.system("headrace").ends.extend(ends)
    spec = {"seconds": 1.0, "window": window, "consumers": consumers}
    return CommitCell("sync", "headrace", spec).run(harness)


def test_commit_cell_reports_commits_and_stored_records() -> None:
    """The record of each group that becomes empty does not count."""
    figures = commit((50, 50 + 200 + 2), consumers=2)
    assert (figures["commits_per_s"], figures["stored_commits_per_s"], figures["ack_p99_ms"]) == (200, 200, 2)


def test_concurrent_commits_may_be_merged() -> None:
    """Then no latency of single commits is reported."""
    figures = commit((0, 11), window=1000)
    assert figures["stored_commits_per_s"] == 10
    assert "ack_p99_ms" not in figures


@pytest.mark.parametrize(("window", "stored"), [(1, 99), (1, 101), (1000, 101)])
def test_commit_cell_fails_when_the_log_has_other_commits(window: int, stored: int) -> None:
    """Sequential commits are one record each; concurrent ones are not more records than commits."""
    with pytest.raises(LostDataError, match="100 commits, but"):
        commit((0, stored + 1), window=window)


def test_commit_cell_fails_when_the_group_has_another_offset() -> None:
    """The last one that was confirmed."""
    with pytest.raises(LostDataError, match="the group has 109"):
        commit((0, 101), committed=109)
