"""The summary of a thread for its log."""

from __future__ import annotations

from headrace.stream.worker.summary import Summary


def test_a_line_per_interval_has_the_counts_since_the_last_one() -> None:
    """Nothing before the interval has passed."""
    summary = Summary(10_000, 1000)
    summary.records, summary.commits = 70, 2
    assert summary.text_if_due(10_999, 3) is None
    assert summary.text_if_due(11_000, 3) == "processed 70 records in 10 s, 2 commits, 3 running tasks"
    assert summary.text_if_due(21_000, 3) == "processed 0 records in 10 s, 0 commits, 3 running tasks"


def test_no_line_with_an_interval_of_minus_one() -> None:
    """log.summary.interval.ms=-1."""
    assert Summary(-1, 0).text_if_due(10**12, 1) is None
