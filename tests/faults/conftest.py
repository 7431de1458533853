"""Tests with real faults: their fixtures, and a summary of their measurements.

Long tests have the mark `faults` and run only on request: `make faults`, or -m faults.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fault_cluster import FaultCluster
    from fault_workload import Workload

FIGURES = "faults"


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python leaks sockets of stopped nodes, which the garbage collector reports at any time."""
    if "faults" in config.option.markexpr:
        for what in ("unclosed <socket:Resource", ".*<socket:pytest.PytestUnraisableException"):
            config.addinivalue_line("filterwarnings", f"ignore:{what}Warning")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the measurements of the scenarios."""
    rows = [
        (report.nodeid.partition("::")[2], dict(report.user_properties)[FIGURES])
        for report in terminalreporter.stats.get("passed", [])
        if report.when == "call" and FIGURES in dict(report.user_properties)
    ]
    if rows:
        terminalreporter.section("real faults")
    for name, figures in rows:
        terminalreporter.write_line(f"{name}: {figures}")


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., FaultCluster]]:
    """Starts clusters, with the arguments of FaultCluster, and stops them."""
    from fault_cluster import FaultCluster

    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(FaultCluster(tmp_path, **options))


@pytest.fixture
def cluster(make_cluster: Callable[..., FaultCluster]) -> FaultCluster:
    """A cluster with the defaults of FaultCluster."""
    return make_cluster()


@pytest.fixture
def measured(record_property: Callable[[str, str], None]) -> Callable[[Workload, float], None]:
    """`measured(work, begun_s)`: add the workload's figures since the first fault to the summary."""

    def note(work: Workload, begun_s: float) -> None:
        now_s = time.monotonic()
        record_property(
            FIGURES,
            f"progress_during_fault {work.acked_since(begun_s)} in {now_s - begun_s:.1f} s,"
            f" longest pause {work.longest_pause_s(begun_s, now_s):.2f} s",
        )

    return note
