"""The page of `make bench-spark`: every goal has a row, with the figures of the runs."""

from typing import Any

import pytest
from headrace.benchmarks.constants import HEADRACE, KAFKA
from headrace.benchmarks.spark import cells
from headrace.benchmarks.spark.page import page, table

GROUP = cells.GROUPS[0]
RATES = {KAFKA: 1e6, HEADRACE: 4e6}


def results(groups: list[cells.Group]) -> dict[str, Any]:
    """Two pairs of each cell."""
    runs = [
        {
            "group": group.id,
            "cell": cells.cell(operation, system),
            "pair": pair,
            "is_used": True,
            cells.RATE: rate,
            "rows_per_cpu_s": rate / 2,
            "rows": 2_000_000,
            "rounds": 2,
        }
        for group in groups
        for operation in group.operations
        for system, rate in RATES.items()
        for pair in range(2)
    ]
    about = {
        "spark": "3.5.7", "ray": "2.60.0", "time": "now", "commit": "abc", "load_before": 0.5,
        "warm": 3, "least_s": 1.5, "memory": "as it is counted",
    }  # fmt: skip
    most = {**dict.fromkeys(cells.MEMORY, 100.0), "store_mb": 0.0}
    memory = [
        {"group": group.id, "system": system, "rows": rows, **most}
        for group in groups
        for system in RATES
        for rows in (750_000, 3_000_000)
    ]
    machine = {
        "cpu": "a CPU", "cores": 4, "memory_gib": 16, "swap_gib": 0, "kernel": "6", "governor": "none",
        "transparent_hugepages": "never", "python": "3.11", "java": "17", "kafka": "4.3.1", "packages": {},
        "server_cores": [0, 1], "client_cores": [2, 3],
    }  # fmt: skip
    return {
        "machine": machine,
        "groups": {group.id: about for group in groups},
        "memory": memory,
        "runs": runs,
    }


def test_every_goal_has_a_verdict() -> None:
    """4 M of 3 M and a ratio of 4 are met; goals of groups that did not run are absent."""
    lines = table(results([GROUP]))[2:]
    assert len(lines) == sum(len(group.limits) + len(group.comparisons) + 1 for group in cells.GROUPS)
    found = [line for line in lines if GROUP.title in line]
    assert len(found) == 5
    assert all(line.endswith("| met |") for line in found)
    assert "4.00 M" in found[0]
    assert all("absent" in line for line in lines if line not in found)


def test_page_shows_each_group_that_ran() -> None:
    """Equal results give an equal page."""
    text = page(results(list(cells.GROUPS)))
    for group in cells.GROUPS:
        assert f"### {group.title}\n" in text
    assert "| read value, headrace | 4,000,000 | 2,000,000 |" in text
    assert (
        "1,000,000 rows read, 1,000,000 rows written, 2 pairs, rounds before them: 3, a cell 1.5 s at least"
        in text
    )
    assert "as it is counted" in text
    assert text == page(results(list(cells.GROUPS)))


def test_unknown_group_is_an_error_that_lists_all_groups() -> None:
    """Without names all groups run."""
    assert cells.chosen("") == list(cells.GROUPS)
    assert [group.id for group in cells.chosen("ray, spark4-1")] == ["spark4-1", "ray"]
    with pytest.raises(KeyError, match="no group spark5; there are spark35-1"):
        cells.chosen("ray,spark5")


def test_rate_with_a_wide_interval_is_not_resolved() -> None:
    """Even if its median is above the goal, as for ratios."""
    found = results([GROUP])
    for run in found["runs"]:
        run[cells.RATE] *= 1 + run["pair"]
    assert table(found)[2].endswith("| not resolved (all above the goal) |")


@pytest.mark.parametrize(("grown", "state"), [(115.0, "met"), (116.0, "**missed**")])
def test_largest_growth_of_memory_is_judged(grown: float, state: str) -> None:
    """Of any kind of process, of headrace only."""
    found = results([GROUP])
    for row in found["memory"]:
        if row["rows"] == 3_000_000:
            row |= {"jvm_mb": 99.0, "python_mb": grown} if row["system"] == HEADRACE else {"jvm_mb": 900.0}
    line = next(line for line in table(found) if "memory" in line)
    assert line.endswith(f"| {grown / 100:.2f} | most of all: all of Python | ≤ 1.15 | {state} |")


def test_memory_of_one_size_only_is_absent() -> None:
    """It has no growth."""
    found = results([GROUP])
    del found["memory"][-1]
    assert next(line for line in table(found) if "memory" in line).endswith("| absent |")


def test_page_names_the_settings_of_kafkas_producer() -> None:
    """The fastest ones above the figures, all that were tried in the method."""
    found = results([GROUP])
    found["groups"][GROUP.id] = {**found["groups"][GROUP.id], "kafka_producer": "batch.size=1, linger.ms=2"}
    text = page(found)
    assert "Kafka's producer with batch.size=1, linger.ms=2" in text
    assert (
        f"{len(cells.CANDIDATES)} settings of its producer (batch.size 262144; buffer.memory 268435456;"
        in text
    )


def test_fastest_candidate_has_the_highest_median() -> None:
    """An outlier does not decide; of equal ones it is the first."""
    assert cells.fastest([[1.0, 1.0, 9.0], [2.0, 3.0, 2.0], [1.0, 1.5, 1.0]]) == 1
    assert cells.fastest([[2.0], [2.0]]) == 0
    assert cells.as_text(cells.PRODUCER) == "batch.size=65536, linger.ms=5"
