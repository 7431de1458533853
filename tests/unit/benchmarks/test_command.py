"""Benchmarks whose groups are measured again one by one: what stays, what is written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from headrace.benchmarks import command_io
from headrace.benchmarks.harness import LostDataError
from headrace.benchmarks.servers import kafka_io
from headrace.benchmarks.spark.__main__ import BENCHMARK as SPARK
from headrace.benchmarks.streams.__main__ import BENCHMARK as STREAMS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path


class Group(NamedTuple):
    """All that the command knows of a group."""

    id: str


def chosen(only: str) -> list[Group]:
    """Errors: KeyError."""
    if only == "c":
        raise KeyError("no group c; there are a, b")
    return [Group(name) for name in only.split(",") if name] or [Group("a"), Group("b")]


def measure(options: argparse.Namespace, groups: Sequence[Group], found: dict[str, Any]) -> None:
    """One run of each group, of the number in `--pairs`; -1 fails."""
    if options.pairs < 0:
        raise LostDataError("7 records are missing")
    for group in groups:
        found["runs"].append({"group": group.id, "value": options.pairs})
        found["groups"][group.id] = {"value": options.pairs}


def values(results: dict[str, Any]) -> list[str]:
    return [f"{run['group']} {run['value']}" for run in results["runs"]]


@pytest.fixture
def benchmark_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> command_io.Benchmark:
    """Of two groups, in a repository of its own, with a Kafka that is there."""
    (tmp_path / "docs" / "benchmarks").mkdir(parents=True)
    monkeypatch.setattr(command_io, "ROOT", tmp_path)
    monkeypatch.setattr(kafka_io, "absent", lambda: "")
    monkeypatch.setattr(command_io.machine_io, "facts", lambda: {"time": "now", "commit": "abc"})
    return command_io.Benchmark(
        "some",
        "SOME.md",
        "a,b",
        chosen,
        measure,
        values,
        lambda found: "\n".join(values(found)),
        has_pairs=True,
    )


def test_groups_that_are_not_measured_stay(benchmark_of: command_io.Benchmark) -> None:
    """The page has all groups, the results of the others are those of before."""
    assert command_io.run(benchmark_of, ["--pairs", "1"]) == 0
    assert command_io.run(benchmark_of, ["--pairs", "2", "--only", "a"]) == 0
    assert benchmark_of.page_path.read_text() == "b 1\na 2"
    stored = json.loads(benchmark_of.results_path.read_text())
    assert stored["groups"] == {"a": {"value": 2}, "b": {"value": 1}}
    assert stored["machine"] == {"time": "now", "commit": "abc"}


def test_a_page_is_written_from_the_results(
    benchmark_of: command_io.Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a run, and without Kafka."""
    command_io.run(benchmark_of, ["--pairs", "1"])
    benchmark_of.page_path.unlink()
    monkeypatch.setattr(kafka_io, "absent", lambda: "no java")
    assert command_io.run(benchmark_of, ["--page"]) == 0
    assert benchmark_of.page_path.read_text() == "a 1\nb 1"


def test_a_quick_run_prints(benchmark_of: command_io.Benchmark, capsys: pytest.CaptureFixture[str]) -> None:
    """It writes nothing and keeps nothing."""
    command_io.run(benchmark_of, ["--pairs", "1"])
    capsys.readouterr()
    assert command_io.run(benchmark_of, ["--quick", "--pairs", "3", "--only", "b"]) == 0
    assert capsys.readouterr().out == "b 3\n"
    assert benchmark_of.page_path.read_text() == "a 1\nb 1"


FAILURES = {
    "an unknown group": (["--only", "c"], "", "no group c; there are a, b\n"),
    "lost records": (["--pairs", "-1"], "", "failed, no page is written: 7 records are missing\n"),
    "no Kafka": ([], "no java", "Apache Kafka cannot run here: no java\n"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_failure_writes_no_page(
    what: str,
    benchmark_of: command_io.Benchmark,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The reason is printed."""
    arguments, absent, expected = FAILURES[what]
    monkeypatch.setattr(kafka_io, "absent", lambda: absent)
    assert command_io.run(benchmark_of, arguments) == 1
    assert capsys.readouterr().err == expected
    assert not benchmark_of.page_path.exists()


@pytest.mark.parametrize("benchmark_of_ours", [SPARK, STREAMS], ids=lambda found: found.name)
def test_pages_of_results_without_runs(benchmark_of_ours: command_io.Benchmark) -> None:
    """Each goal has a row that says so, in one shape of the page."""
    machine = {"kafka": "4.3.0", "cpu": "c", "cores": 2, "memory_gib": 1, "swap_gib": 0, "kernel": "k",
               "governor": "g", "transparent_hugepages": "never", "python": "3", "java": "25", "packages": {},
               "server_cores": [0], "client_cores": [1], "time": "now", "commit": "abc"}  # fmt: skip
    found = command_io.kept_of(None, set(), benchmark_of_ours.lists, machine)
    page = benchmark_of_ours.page(found)
    assert page.startswith("# Benchmarks: ")
    headings = [line for line in page.split("\n") if line.startswith("## ")]
    assert headings[:2] == ["## Goals", "## Figures"]
    assert headings[-2:] == ["## Machine", "## Method"]
    assert all(line in page for line in benchmark_of_ours.table(found))
    assert any("not measured" in line for line in benchmark_of_ours.table(found))
