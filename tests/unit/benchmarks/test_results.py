"""From runs to the page: nothing missed is hidden, nothing absent is counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from headrace.benchmarks import cells, overview, page, plots_io, results, warm_up_io
from headrace.benchmarks.__main__ import write_page
from headrace.benchmarks.reports import in_turn, total, with_rates, worst
from pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

GROUP = next(group for group in cells.GROUPS if group.id == "w1")
STARTUP = {
    "local": {"seconds": [0.2, 0.6], "with_import_s": [0.3, 0.7]},
    "up": {"error": "no Ray\nhere", "seconds": []},
    "idle": {"rss_mb": 40.0, "cpu_percent": 0.2, "fds": 20, "threads": 4},
}
MACHINE = {
    "cpu": "c", "cores": 4, "server_cores": [0, 1], "client_cores": [2, 3], "memory_gib": 1, "swap_gib": 0,
    "kernel": "k", "governor": "g", "transparent_hugepages": "t", "python": "3", "java": "17",
    "kafka": "4.3.1",
    "packages": {"a": "1", "b": None}, "time": "now", "commit": "c",
}  # fmt: skip


def run(cell: str, pair: int, rate: float, **more: Any) -> dict[str, Any]:
    return {"group": "w1", "cell": cell, "system": "kafka", "pair": pair, "is_used": True, "steal": 0.0,
            "records_per_s": rate, "mb_per_s": rate / 1e4, "server_cpu_s_per_gb": 1.0, **more}  # fmt: skip


RUNS = [
    *(run("produce", pair, 100.0) for pair in range(3)),
    *(run("produce+callback", pair, 80.0) for pair in range(3)),
    *(run("send", pair, rate) for pair, rate in enumerate([190.0, 195.0, 192.0])),
    *(run("send_many", pair, rate) for pair, rate in enumerate([600.0, 610.0, 2000.0])),
    run("send", 1, 5.0, is_used=False),
    *({"group": "w1", "cell": "send_arrow", "pair": pair, "is_used": True, "absent": "send_arrow"}
      for pair in range(3)),
]  # fmt: skip


def compared(above: str, below: str, metric: str = cells.RATE) -> dict[str, Any]:
    one = next(c for c in GROUP.comparisons if (c.above, c.below, c.metric) == (above, below, metric))
    return results.compare(RUNS, GROUP, one)


def whole() -> dict[str, Any]:
    mode = {"is_quick": True, "pairs": 3, "seconds": 1}
    return results.assemble(RUNS, STARTUP, {"machine": MACHINE, "touched_gib": 1, "touch_s": 1.0}, mode)


def test_a_missed_goal_is_missed() -> None:
    """1.92 is not 2; the run that was repeated because of steal does not count."""
    row = compared("send", "produce")
    assert (row["ratio"], row["verdict"]) == (1.92, "missed")


def test_a_met_goal_is_met() -> None:
    """6.1 of 100, but for the wild pair."""
    rows = [{**one, "records_per_s": min(one.get("records_per_s", 0.0), 620.0)} for one in RUNS]
    one = next(c for c in GROUP.comparisons if (c.above, c.below) == ("send_many", "produce"))
    assert results.compare(rows, GROUP, one)["verdict"] == "met"


def test_a_variant_beside_the_goal_is_shown_and_not_judged() -> None:
    """Its ratio is there, its verdict does not count."""
    row = compared("send", "produce+callback")
    assert (row["verdict"], row["goal"]) == ("beside", 2.0)
    table = page.goal_table(whole())
    assert any("`produce+callback`" in line and "(beside)" in line for line in table)
    judged = [one for one in GROUP.comparisons if one.goal is not None and not one.is_beside]
    assert table[0].startswith(f"{len(judged) + len(results.START_GOALS)} goals: ")


def test_the_share_of_the_bare_ceiling() -> None:
    """400 of 1,000 MB/s; at 100 of the other side nothing could be more than ten times as fast."""
    bare = [{**run("receive and write", 0, 1.0), "group": "bare-64k", "mb_per_s": 1000.0}]
    rows = [run("produce", 0, 1.0, mb_per_s=100.0), run("send", 0, 4.0, mb_per_s=400.0)]
    one = cells.Comparison("send", "produce", cells.RATE, 2.0, title="x", ceiling="receive and write")
    row = results.compare([*rows, *bare], GROUP, one)
    assert page.ceiling(row) == "40%; it allows 10.0"
    assert page.ceiling(results.compare(rows, GROUP, one)) == ""


def test_a_wild_pair_resolves_nothing() -> None:
    """Although the median is above the goal."""
    row = compared("send_many", "produce")
    assert (row["ratio"], row["verdict"]) == (6.1, "not resolved")
    assert page.side(row) == " (all above the goal)"


def test_what_does_not_exist_is_absent() -> None:
    """Not met, not missed, and said why."""
    row = compared("send_arrow", "produce")
    assert row["verdict"] == "absent"
    assert "send_arrow" in row["why"]


def test_what_was_not_measured_is_absent() -> None:
    """A zero, a metric that is not there, a cell that did not run."""
    short = [*RUNS, run("a", 0, 0.0), run("b", 0, 1.0)]
    for above, below, metric in [("a", "b", cells.RATE), ("a", "b", cells.E2E_P99), ("a", "c", cells.RATE)]:
        row = results.compare(short, GROUP, cells.Comparison(above, below, metric, 1.0, title="x"))
        assert row["verdict"] == "absent"


def test_limits_take_the_worst_repetition_and_failures_count_as_missed() -> None:
    """0.6 s of [0.2, 0.6]; a start that failed is no absent one."""
    rows = {row["title"]: row for row in results.start_goals(STARTUP)}
    states = [row["verdict"] for row in rows.values()]
    assert states == ["missed", "missed", "met", "missed", "met"]
    assert {row["verdict"] for row in results.start_goals({})} == {"absent"}


def test_the_page_shows_every_goal_and_is_the_same_each_time() -> None:
    """Met, missed, not resolved, absent: each has its row; JSON and back makes no difference."""
    found = whole()
    text = page.page(json.loads(json.dumps(found)), "## Profiles\n")
    assert text == page.page(found, "## Profiles\n")
    table = "\n".join(page.goal_table(found))
    goals = [one for one in GROUP.comparisons if one.goal is not None]
    assert table.count("\n| ") == len(goals) + len(results.START_GOALS) + 2  # and the head
    assert "**missed**" in table
    assert table in text
    assert "QUICK" in text
    assert text.endswith("## Profiles\n")
    assert "1.92" in "\n".join(page.ratio_lines(found))


def test_the_file_holds_all_with_six_digits() -> None:
    """It is JSON again, a run a line."""
    found = {**whole(), "runs": [{"a": 1 / 3, "b": [[50.0, 2 / 3]], "c": True, "d": None}, {"a": 12_345_678}]}
    text = results.dump(found)
    back = json.loads(text)
    assert back["runs"] == [{"a": 0.333333, "b": [[50.0, 0.666667]], "c": True, "d": None}, {"a": 12_345_678}]
    assert back.keys() == found.keys()
    assert len([line for line in text.splitlines() if line.startswith('  {"a"')]) == 2


def test_the_pictures_are_the_same_each_time(tmp_path: Path) -> None:
    """Or every run would change files that nothing was measured for."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        plots_io.write(whole(), tmp_path / name)
    for picture in ("ratios.svg", "latency.svg", "overview.svg"):
        assert (tmp_path / "a" / picture).read_bytes() == (tmp_path / "b" / picture).read_bytes()


def test_the_page_is_written_the_same_from_a_results_file(tmp_path: Path) -> None:
    """What `--page` does, twice: byte for byte."""
    text = results.dump(whole())
    written = []
    for name in ("a", "b"):
        (tmp_path / name / "benchmarks").mkdir(parents=True)
        write_page(json.loads(text), tmp_path / name)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        written.append({path.relative_to(tmp_path / name): path.read_bytes() for path in files})
    assert written[0] == written[1]
    assert {path.name for path in written[0]} == {
        "BENCHMARKS.md",
        "ratios.svg",
        "latency.svg",
        "overview.svg",
    }


def test_the_table_of_the_readme_has_every_ratio_or_a_dash() -> None:
    """Ratios with their intervals, once per row; what was not measured is not left out."""
    found = whole()
    lines = overview.table(found)
    assert len(lines) == len(overview.ROWS) + 2
    assert sum("-" in line.split("|")[3] for line in lines[2:]) == len(overview.ROWS)
    row = next(row for row in found["comparisons"] if "ratio" in row)
    shown = {**row, "group": "w2", "above": "send", "below": "produce", "metric": "records_per_s"}
    (line,) = (line for line in overview.table({"comparisons": [shown]}) if "`send` / `produce` w" in line)
    assert line.split(" | ")[2] == f"{row['ratio']:.2f} ({row['low']:.2f} .. {row['high']:.2f}) |"


def test_the_readme_gets_its_table_between_the_marks_alone() -> None:
    """Written again it is the same; without marks it is refused."""
    readme = f"before\n\n{overview.BEGIN}\nold\n{overview.END}\n\nafter\n"
    once = overview.with_table(readme, whole())
    assert overview.with_table(once, whole()) == once
    assert once.startswith(f"before\n\n{overview.BEGIN}\n| headrace")
    assert once.endswith(f"|\n{overview.END}\n\nafter\n")
    assert "old" not in once
    with pytest.raises(ValueError, match="written by make bench"):
        overview.with_table("no marks", whole())


def test_the_readme_shows_the_results_that_are_stored() -> None:
    """Its table is the one that `make bench` wrote last, and its cells are those of the plan."""
    stored = json.loads((ROOT / "docs" / "benchmarks" / "results.json").read_text())
    readme = (ROOT / "README.md").read_text()
    assert overview.with_table(readme, stored) == readme
    assert "-" not in "".join(cell for line in overview.table(stored)[2:] for cell in line.split(" | ")[1:])
    planned = {(group.id, cell.name, cell.system) for group in cells.GROUPS for cell in group.cells}
    bars = {(group, cell, system) for _, panel in overview.PANELS for _, system, group, cell in panel}
    assert bars <= planned


def test_the_table_of_partitions_tells_failures_and_fallbacks() -> None:
    """A row each; what is missing is blank, an error is said in words."""
    rows = [
        {
            "system": "headrace",
            "partitions": 5000,
            "replicas": 1,
            "with_three": "TimeoutError: x",
            "fds": 15_100,
        },
        {"system": "kafka", "partitions": 1000, "error": "KafkaError: y"},
    ]
    text = "\n".join(page.partition_lines({"partitions": rows}))
    assert "| headrace | 5,000 | 1 |" in text
    assert "15,100" in text
    assert "headrace, 5,000 partitions: with three replicas: TimeoutError: x; with one instead." in text
    assert "kafka, 1,000 partitions: failed: KafkaError: y." in text
    assert page.partition_lines({}) == ["Not measured in this run."]


def test_what_was_left_out_for_time_is_told() -> None:
    """By its group, on the page."""
    mode = {"is_quick": True, "seconds": 1, "left_out": {"w7": "no time was left for it in this run"}}
    found = results.assemble(RUNS, STARTUP, {"machine": MACHINE}, mode)
    assert "- w7: no time" in page.page(found, "")


def test_the_warm_up_says_what_was_reached() -> None:
    """The windows, and whether the last three agree."""
    warm = {"windows": [1, 2, 3], "agreed": False, "spread": 0.5, "seconds": 40.0}
    told = page.warm_up(warm)
    assert "did NOT agree" in told
    assert "50.0%" in told
    assert warm_up_io.agreed([1.0, 100.0, 101.0, 104.0])
    assert not warm_up_io.agreed([100.0, 101.0, 107.0])
    assert not warm_up_io.agreed([100.0, 101.0])


def test_the_page_names_cells_that_move_more_records() -> None:
    """Half of them in a QUICK run."""
    assert "w1 12 M against 3 M" in page.unequal(is_quick=False)
    assert "w1 6 M against 1.5 M" in page.unequal(is_quick=True)
    assert "w18" not in page.unequal(is_quick=False)


def test_rates_of_a_report() -> None:
    """Per second and per GB; latencies are flattened, curves left out."""
    report = {"seconds": 2.0, "records": 10, "bytes": 4_000_000, "server_cpu_s": 0.1, "client_cpu_s": 0.2,
              "ack": {"p99": 3.0, "curve": []}, "expected": {}}  # fmt: skip
    found = with_rates(report)
    assert (found["records_per_s"], found["mb_per_s"], found["ack_p99_ms"]) == (5.0, 2.0, 3.0)
    assert found["server_cpu_s_per_gb"] == pytest.approx(25.0)
    assert found["client_cpu_s_per_gb"] == pytest.approx(50.0)
    assert not {"ack", "expected", "ack_curve_ms"} & found.keys()


def test_several_clients_as_one() -> None:
    """Sums, the longest time, the largest percentile."""
    sums = {"records": 1, "bytes": 2, "client_cpu_s": 0.5}
    reports = [{**sums, "seconds": seconds, "server_cpu_s": seconds} for seconds in (1.0, 3.0)]
    assert total(reports) == {
        "records": 2,
        "bytes": 4,
        "client_cpu_s": 1.0,
        "seconds": 3.0,
        "server_cpu_s": 3.0,
    }
    whole = in_turn([{**report, "records": 1, "client_cpu_s": 0.5} for report in reports])
    assert (whole["records"], whole["seconds"], whole["server_cpu_s"]) == (2, 4.0, 4.0)
    names = ("p50", "p90", "p99", "p99_9", "max", "mean")
    latencies = [{"e2e": dict.fromkeys(names, value)} for value in (1.0, 2.0)]
    assert worst(latencies) == dict.fromkeys(names, 2.0)
