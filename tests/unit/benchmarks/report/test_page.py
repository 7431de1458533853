"""From runs to results, the page and the README's table."""

import json
from pathlib import Path
from typing import Any

import pytest
from headrace.benchmarks.__main__ import write_page
from headrace.benchmarks.constants import E2E_P99, RATE
from headrace.benchmarks.group import Comparison
from headrace.benchmarks.plan import GROUPS
from headrace.benchmarks.report import overview, page, plots_io, results
from pages import ROOT

METHOD = (ROOT / "benchmarks" / "METHOD.md").read_text()
GROUP = next(group for group in GROUPS if group.id == "w1")
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


def compared(above: str, below: str, metric: str = RATE) -> dict[str, Any]:
    one = next(c for c in GROUP.comparisons if (c.above, c.below, c.metric) == (above, below, metric))
    return results.compare(RUNS, GROUP, one)


def whole() -> dict[str, Any]:
    mode = {"is_quick": True, "pairs": 3, "seconds": 1}
    return results.assemble(RUNS, STARTUP, {"machine": MACHINE, "touched_gib": 1, "touch_s": 1.0}, mode)


def test_missed_goal() -> None:
    """1.92 is not 2; a run that was repeated because of steal does not count."""
    row = compared("send", "produce")
    assert (row["ratio"], row["verdict"]) == (1.92, "missed")


def test_met_goal() -> None:
    """Without the outlier."""
    rows = [{**one, "records_per_s": min(one.get("records_per_s", 0.0), 620.0)} for one in RUNS]
    one = next(c for c in GROUP.comparisons if (c.above, c.below) == ("send_many", "produce"))
    assert results.compare(rows, GROUP, one)["verdict"] == "met"


def test_variant_beside_a_goal_has_no_verdict() -> None:
    """Its ratio is shown; it does not count as a goal."""
    row = compared("send", "produce+callback")
    assert (row["verdict"], row["goal"]) == ("beside", 2.0)
    table = page.goal_table(whole())
    assert any("`produce+callback`" in line and "(beside)" in line for line in table)
    judged = [one for one in GROUP.comparisons if one.goal is not None and not one.is_beside]
    assert table[0].startswith(f"{len(judged) + len(results.START_GOALS)} goals: ")


def test_share_of_the_bare_ceiling() -> None:
    """400 of 1,000 MB/s; with Kafka at 100 MB/s, no ratio can exceed 10."""
    bare = [{**run("receive and write", 0, 1.0), "group": "bare-64k", "mb_per_s": 1000.0}]
    rows = [run("produce", 0, 1.0, mb_per_s=100.0), run("send", 0, 4.0, mb_per_s=400.0)]
    one = Comparison("send", "produce", RATE, 2.0, title="x", ceiling="receive and write")
    row = results.compare([*rows, *bare], GROUP, one)
    assert page.ceiling(row) == "40%; it allows 10.0"
    assert page.ceiling(results.compare(rows, GROUP, one)) == ""


def test_ratio_with_an_outlier_is_not_resolved() -> None:
    """Even if the median is above the goal."""
    row = compared("send_many", "produce")
    assert (row["ratio"], row["verdict"]) == (6.1, "not resolved")
    assert page.side(row) == " (all above the goal)"


def test_missing_api_is_absent_with_a_reason() -> None:
    """Neither met nor missed."""
    row = compared("send_arrow", "produce")
    assert row["verdict"] == "absent"
    assert "send_arrow" in row["why"]


def test_missing_measurement_is_absent() -> None:
    """A zero, a missing metric, a cell that did not run."""
    short = [*RUNS, run("a", 0, 0.0), run("b", 0, 1.0)]
    for above, below, metric in [("a", "b", RATE), ("a", "b", E2E_P99), ("a", "c", RATE)]:
        row = results.compare(short, GROUP, Comparison(above, below, metric, 1.0, title="x"))
        assert row["verdict"] == "absent"


def test_worst_repetition_counts_for_limits_and_failures_are_missed() -> None:
    """0.6 s of [0.2, 0.6]; a failed start is not absent."""
    rows = {row["title"]: row for row in results.start_goals(STARTUP)}
    states = [row["verdict"] for row in rows.values()]
    assert states == ["missed", "missed", "met", "missed", "met"]
    assert {row["verdict"] for row in results.start_goals({})} == {"absent"}


def test_page_shows_every_goal_and_is_deterministic() -> None:
    """Met, missed, not resolved, absent: each has a row; a round trip through JSON changes nothing."""
    found = whole()
    text = page.page(json.loads(json.dumps(found)), METHOD, "## Profiles\n")
    assert text == page.page(found, METHOD, "## Profiles\n")
    table = "\n".join(page.goal_table(found))
    goals = [one for one in GROUP.comparisons if one.goal is not None]
    assert table.count("\n| ") == len(goals) + len(results.START_GOALS) + 2  # and the head
    assert "**missed**" in table
    assert table in text
    assert "QUICK" in text
    assert text.endswith("## Profiles\n")
    assert "1.92" in "\n".join(page.ratio_lines(found))


def test_results_file_has_figures_with_six_digits() -> None:
    """Valid JSON, one line per run."""
    found = {**whole(), "runs": [{"a": 1 / 3, "b": [[50.0, 2 / 3]], "c": True, "d": None}, {"a": 12_345_678}]}
    text = results.dump(found)
    back = json.loads(text)
    assert back["runs"] == [{"a": 0.333333, "b": [[50.0, 0.666667]], "c": True, "d": None}, {"a": 12_345_678}]
    assert back.keys() == found.keys()
    assert len([line for line in text.splitlines() if line.startswith('  {"a"')]) == 2


def test_pictures_are_deterministic(tmp_path: Path) -> None:
    """Otherwise every run would change them."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        plots_io.write(whole(), tmp_path / name)
    for picture in ("ratios.svg", "latency.svg", "overview.svg"):
        assert (tmp_path / "a" / picture).read_bytes() == (tmp_path / "b" / picture).read_bytes()


def test_page_written_from_a_results_file_is_deterministic(tmp_path: Path) -> None:
    """`--page` twice: byte for byte."""
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


def test_readme_table_has_every_ratio_or_a_dash() -> None:
    """Ratios with their intervals; missing ones are not left out."""
    found = whole()
    lines = overview.table(found)
    assert len(lines) == len(overview.ROWS) + 2
    assert sum("-" in line.split("|")[3] for line in lines[2:]) == len(overview.ROWS)
    row = next(row for row in found["comparisons"] if "ratio" in row)
    shown = {**row, "group": "w2", "above": "send", "below": "produce", "metric": "records_per_s"}
    (line,) = (line for line in overview.table({"comparisons": [shown]}) if "`send` / `produce` w" in line)
    assert line.split(" | ")[2] == f"{row['ratio']:.2f} ({row['low']:.2f} .. {row['high']:.2f}) |"


def test_readme_changes_between_its_marks_only() -> None:
    """Writing is idempotent; missing marks are an error."""
    readme = f"before\n\n{overview.BEGIN}\nold\n{overview.END}\n\nafter\n"
    once = overview.with_table(readme, whole())
    assert overview.with_table(once, whole()) == once
    assert once.startswith(f"before\n\n{overview.BEGIN}\n| headrace")
    assert once.endswith(f"|\n{overview.END}\n\nafter\n")
    assert "old" not in once
    with pytest.raises(ValueError, match="written by make bench"):
        overview.with_table("no marks", whole())


def test_readme_shows_the_stored_results() -> None:
    """Its table is the last one that `make bench` wrote; the cells of its picture exist."""
    stored = json.loads((ROOT / "docs" / "benchmarks" / "results.json").read_text())
    readme = (ROOT / "README.md").read_text()
    assert overview.with_table(readme, stored) == readme
    assert "-" not in "".join(cell for line in overview.table(stored)[2:] for cell in line.split(" | ")[1:])
    planned = {(group.id, cell.name, cell.system) for group in GROUPS for cell in group.cells}
    bars = {(group, cell, system) for _, panel in overview.PANELS for _, system, group, cell in panel}
    assert bars <= planned


def test_partitions_table_shows_failures_and_fallbacks() -> None:
    """Missing figures are blank; an error is a sentence below."""
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


def test_page_names_skipped_groups() -> None:
    """With the reason."""
    mode = {"is_quick": True, "seconds": 1, "left_out": {"w7": "no time was left for it in this run"}}
    found = results.assemble(RUNS, STARTUP, {"machine": MACHINE}, mode)
    assert "- w7: no time" in page.page(found, METHOD, "")


def test_warm_up_reports_windows_and_whether_they_agree() -> None:
    """Of the last three."""
    text = page.warm_up({"windows": [1, 2, 3], "agreed": False, "spread": 0.5, "seconds": 40.0})
    assert "did NOT agree" in text
    assert "50.0%" in text


def test_page_names_groups_with_different_record_counts() -> None:
    """Half of them in a QUICK run."""
    assert "w1 12 M against 3 M" in page.unequal(is_quick=False)
    assert "w1 6 M against 1.5 M" in page.unequal(is_quick=True)
    assert "w18" not in page.unequal(is_quick=False)
