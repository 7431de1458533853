"""Tests of benchmarks/streams/cells.py."""

from __future__ import annotations

import pytest
from headrace.benchmarks.streams.cells import (
    FULL,
    GROUPS,
    HEADRACE,
    JAVA,
    QUICK,
    QUIX,
    RATE,
    RECORDS_PER_CPU_S,
    ROWS,
    Sample,
    rates,
    rounds,
)
from headrace.benchmarks.streams.registry import ALL, chosen


def test_a_rate_counts_from_the_first_to_the_last_commit_inside_of_the_input() -> None:
    """Neither the start nor the wait at the end is part of it."""
    samples = [Sample(100, 1.0, 5.0), Sample(300, 2.0, 5.5), Sample(700, 3.0, 6.0), Sample(900, 9.0, 6.1)]
    found = rates(samples, total=900)
    assert (found[RATE], found[RECORDS_PER_CPU_S]) == (300, 600)
    with pytest.raises(ValueError, match="1 commits are not enough"):
        rates(samples[2:], total=900)


def test_systems_run_forwards_and_backwards_in_turn() -> None:
    """Rounds that do not count come first."""
    sizes = FULL._replace(pairs=2, warm=1)
    assert list(rounds((HEADRACE, JAVA, QUIX), sizes)) == [
        (-1, QUIX), (-1, JAVA), (-1, HEADRACE), (0, HEADRACE), (0, JAVA), (0, QUIX), (1, QUIX), (1, JAVA),
        (1, HEADRACE),
    ]  # fmt: skip


def test_groups_are_chosen_by_id() -> None:
    """An unknown one is named."""
    assert [group.id for group in chosen("join, restore")] == ["join", "restore"]
    assert chosen("") == list(ALL)
    with pytest.raises(KeyError, match="no group spark"):
        chosen("spark")


def test_headrace_is_compared_with_each_other_system() -> None:
    """Rates at least as high, by column ten times as high, the restore of a changelog in at most the time."""
    goals = {(one.below, one.goal, one.at_least) for group in GROUPS for one in group.comparisons}
    assert goals == {
        (JAVA, 1.0, True),
        (QUIX, 3.0, True),
        (JAVA, 10.0, True),
        (ROWS, 1.15, False),
        (JAVA, 1.0, False),
    }


def test_a_state_that_grows_has_each_key_once() -> None:
    """And ten times as many keys in the other cell; both run in headrace."""
    (group,) = chosen("growth")
    small, large = (group.input(FULL, cell) for cell in group.systems)
    assert small.records == small.keys == large.keys // 10 == large.records // 10
    assert {group.system_of(cell) for cell in group.systems} == {HEADRACE}
    assert chosen("count-few")[0].system_of(JAVA) == JAVA


def test_headrace_has_more_records_where_it_reads_by_column() -> None:
    """A rate needs some commits, and it reads millions of records in a second; in a quick run as well."""
    for name in ("named", "arrow"):
        (group,) = chosen(name)
        assert group.input(FULL, JAVA).records == FULL.records
        for sizes in (FULL, QUICK):
            assert group.input(sizes, HEADRACE).records == 32_000_000
    assert chosen("join")[0].input(FULL, HEADRACE).records == FULL.records
