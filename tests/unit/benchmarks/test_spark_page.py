"""The page of `make bench-spark`: no goal is left out, and figures are those of the runs."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.benchmarks.group import HEADRACE, KAFKA
from headrace.benchmarks.spark import cells
from headrace.benchmarks.spark.page import page, table

GROUP = cells.GROUPS[0]
RATES = {KAFKA: 1e6, HEADRACE: 4e6}


def results(groups: list[cells.Group]) -> dict[str, Any]:
    """Of two pairs of each cell."""
    runs = [
        {
            "group": group.id,
            "cell": cells.cell(face, system),
            "pair": pair,
            "is_used": True,
            cells.RATE: rate,
            "rows_per_cpu_s": rate / 2,
            "python_mb": 100.0,
            "jvm_mb": 1000.0,
        }
        for group in groups
        for face in group.faces
        for system, rate in RATES.items()
        for pair in range(2)
    ]
    about = {"spark": "3.5.7", "ray": "2.60.0", "time": "now", "commit": "abc", "load_before": 0.5}
    memory = [{"group": GROUP.id, "system": HEADRACE, "rows_read": 750_000, "python_mb": 1.0, "jvm_mb": 2.0}]
    machine = {
        "cpu": "a CPU", "cores": 4, "memory_gib": 16, "swap_gib": 0, "kernel": "6", "governor": "none",
        "transparent_hugepages": "never", "python": "3.11", "java": "17", "packages": {},
        "server_cores": [0, 1], "client_cores": [2, 3],
    }  # fmt: skip
    return {
        "machine": machine,
        "groups": {group.id: about for group in groups},
        "memory": memory,
        "runs": runs,
    }


def test_goals_are_judged_and_none_is_left_out() -> None:
    """4 M against 3 M is met, a ratio of 4 too; what did not run is absent."""
    lines = table(results([GROUP]))[2:]
    assert len(lines) == sum(len(group.limits) + len(group.comparisons) for group in cells.GROUPS)
    found = [line for line in lines if GROUP.title in line]
    assert len(found) == 4
    assert all(line.endswith("| met |") for line in found)
    assert "4.00 M" in found[0]
    assert all("absent" in line for line in lines if line not in found)


def test_the_page_shows_each_group_that_ran() -> None:
    """With the same results it is the same page."""
    text = page(results(list(cells.GROUPS)))
    for group in cells.GROUPS:
        assert f"### {group.title}\n" in text
    assert "| read value, headrace | 4,000,000 | 2,000,000 | 100 | 1,000 |" in text
    assert text == page(results(list(cells.GROUPS)))


def test_unknown_groups_are_named_with_those_there_are() -> None:
    """All without a name."""
    assert cells.chosen("") == list(cells.GROUPS)
    assert [group.id for group in cells.chosen("ray, spark4-1")] == ["spark4-1", "ray"]
    with pytest.raises(KeyError, match="no group spark5; there are spark35-1"):
        cells.chosen("ray,spark5")
