"""Gaps between acknowledgements, and acknowledged records compared with those that were read."""

import pytest
from headrace.benchmarks.cells.outage import Checked, check, longest_gaps, outage_ms

MS = 1_000_000


def times(*ms: float) -> list[int]:
    return [int(each * MS) for each in ms]


def test_longest_gaps_come_first() -> None:
    """Acknowledgements may be recorded out of order."""
    gaps = longest_gaps(times(0, 30, 10, 12), count=2)
    assert gaps == [(12 * MS, 18.0), (0, 10.0)]
    assert longest_gaps(times(5)) == []
    assert longest_gaps([]) == []


def test_outage_is_the_longest_gap_that_ends_after_the_kill() -> None:
    """Of several partitions the worst; a longer gap before the kill does not count."""
    early = longest_gaps(times(0, 500, 501, 601, 602))
    late = longest_gaps(times(0, 500, 650, 660))
    assert outage_ms([early], killed_ns=550 * MS) == 100.0
    assert outage_ms([early, late], killed_ns=550 * MS) == 150.0


@pytest.mark.parametrize("acked", [(), (10,), (0, 10, 20)])
def test_partition_that_is_never_acknowledged_again_has_no_outage(acked: tuple[float, ...]) -> None:
    """Its gap has no end."""
    fine = longest_gaps(times(0, 90, 120))
    assert outage_ms([fine, longest_gaps(times(*acked))], killed_ns=100 * MS) is None


def test_no_partitions_have_no_outage() -> None:
    """The killed node led none."""
    assert outage_ms([], killed_ns=0) is None


def test_gaps_may_be_lists() -> None:
    """As the client's JSON report has them."""
    assert outage_ms([[[0, 200.0], [300 * MS, 5.0]]], killed_ns=100 * MS) == 200.0


def test_lost_records_are_acknowledged_and_not_read() -> None:
    """Records that were read but never acknowledged are allowed; duplicates are counted."""
    assert check([1, 2, 3], [3, 1, 4, 4]) == Checked(lost=1, doubled=1, read=4)
    assert check([], []) == Checked(0, 0, 0)
