"""Tests of benchmarks/streams/operations.py and of what the page says of its groups."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.benchmarks.report.results import ABSENT
from headrace.benchmarks.report.statistics import MET, MISSED, UNRESOLVED
from headrace.benchmarks.streams.cells import RATE, RECORDS_PER_CPU_S, SECONDS
from headrace.benchmarks.streams.operations import (
    CHANGELOG,
    OPERATIONS,
    P50,
    P99,
    P999,
    QUERIES,
    SCALE_OUT,
    SNAPSHOT,
    SNAPSHOTS,
    Output,
    judged,
    pauses,
    percentiles,
    workers,
)
from headrace.benchmarks.streams.page import operation_figures, table


def run(group: str, cell: str, pair: int, **figures: float) -> dict[str, Any]:
    return {"group": group, "cell": cell, "pair": pair, "is_used": True, **figures}


def test_pause_of_a_task_is_between_the_records_of_two_instances() -> None:
    """From the last one of the closed instance, also behind one of the other, whose tasks do not move."""
    outputs = [
        Output(0, "goes", 100),
        Output(1, "goes", 110),
        Output(1, "stays", 120),
        Output(1, "goes", 130),
        Output(2, "stays", 140),
        Output(0, "goes", 150),
        Output(0, "stays", 450),
        Output(1, "stays", 230),
        Output(0, "stays", 500),
    ]
    assert pauses(outputs, "goes", "stays") == {0: 300, 1: 100}
    with pytest.raises(ValueError, match=r"partitions \[0\] are silent"):
        pauses(outputs[:6] + outputs[7:8], "goes", "stays")


def test_limit_is_met_if_the_whole_interval_is_below() -> None:
    """The interval of the median over the runs."""
    (limit, _) = QUERIES.limits

    def state(*values: float) -> str:
        runs = [run("queries", limit.cell, pair, **{P99: value}) for pair, value in enumerate(values)]
        found: str = judged(runs, QUERIES, limit)["verdict"]
        return found

    assert state(3.0, 4.0, 4.9) == MET
    assert state(6.0, 5.1, 7.0) == MISSED
    assert state(4.0, 4.0, 9.0, 9.0) == UNRESOLVED
    assert state() == ABSENT


def test_percentiles_need_enough_queries() -> None:
    taken = [float(number) for number in range(1000, 0, -1)]
    assert percentiles(taken) == {P50: 501.0, P99: 991.0, P999: 1000.0}
    assert percentiles(taken[1:]) == {P50: 500.0, P99: 990.0}
    with pytest.raises(ValueError, match="99 queries"):
        percentiles(taken[:99])


def test_page_shows_goals_figures_and_shares() -> None:
    """A ratio without a goal is a line below the figures."""
    runs = [
        *(run("snapshots", CHANGELOG, pair, **{SECONDS: 20.0, "cpu_s": 18.0}) for pair in range(3)),
        *(run("snapshots", SNAPSHOT, pair, **{SECONDS: 2.0, "cpu_s": 1.0}) for pair in range(3)),
        *(
            run("workers", workers(count), pair, **{RATE: rate, RECORDS_PER_CPU_S: 100.0})
            for count, rate in ((1, 100.0), (2, 150.0))
            for pair in range(3)
        ),
    ]
    found = {"runs": runs, "groups": {}}
    (row,) = (line for line in table(found) if "from its changelog to" in line)
    assert "| 10.00 |" in row
    assert row.endswith("| ≥ 5 | met |")
    assert not any(SCALE_OUT.title in line or "of 2 workers" in line for line in table(found))
    lines = operation_figures(found)
    assert lines[0] == "| group | cell | records/CPU s | records/s | seconds | CPU s |"
    assert f"| {SNAPSHOTS.title} | {SNAPSHOT} |   |   | 2.00 | 1.00 |" in [
        line.replace("|  |", "|   |").replace("|  |", "|   |") for line in lines
    ]
    assert any(line.startswith("- records/s of 2 workers to those of one: 1.50") for line in lines)


def test_cells_of_all_comparisons_and_limits_exist() -> None:
    for group in OPERATIONS:
        for one in group.comparisons:
            assert {one.above, one.below} <= set(group.systems)
        assert {limit.cell for limit in group.limits} <= set(group.systems)
