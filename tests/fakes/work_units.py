"""The distribution of tests over the workers of pytest-xdist.

A unit, which is a file or all files with the same fixture, runs in one worker and starts its cluster, Ray or
Apache Kafka once. Half of the workers take units from the front of the list, whose tests wait for processes,
the other half from its end, whose tests compute: so both kinds run side by side. They meet at the small
units.
"""

import functools
import os
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# From tests that wait to tests that compute. Ray and Apache Kafka are first: each is one long unit, which
# would otherwise run alone at the end.
FOLDERS = (
    "oracle",
    "faults",
    "integration",
    "golden",
    "fuzz",
    "contract",
    "unit",
    "traces",
    "tidy",
    "property",
    "sim",
)
ALONE = ("faults", "property", "sim")  # independent tests, which may take long
RAY = "ray"
SPARE_WORKERS = 2  # more than processors, since tests wait


def worker_count() -> int:
    """For `-n auto`."""
    return len(os.sched_getaffinity(0)) + SPARE_WORKERS


def rank(nodeid: str) -> tuple[int, int]:
    """The position of a test in the list."""
    path = nodeid.partition("::")[0]
    folder = _folder(path)
    return (_shared(path) != RAY, FOLDERS.index(folder) if folder in FOLDERS else 0)


def unit_of(nodeid: str) -> str:
    """The unit of a test."""
    path = nodeid.partition("::")[0]
    return _shared(path) or (nodeid if _folder(path) in ALONE else path)


@functools.cache
def _shared(path: str) -> str:
    """The unit that the tests of a file share with other files, or none."""
    folder = _folder(path)
    if "ray" in PurePath(path).stem.split("_") and folder != "unit":
        return RAY
    return "kafka" if folder == "oracle" else ""


@functools.cache
def _folder(path: str) -> str:
    parts = path.split("/")
    return parts[1] if parts[0] == "tests" and len(parts) > 2 else ""


class Scheduling(LoadScopeScheduling):
    """Distributes units; see the module's docstring."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if int(node.gateway.id.removeprefix("gw")) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


def new_scheduling(config: pytest.Config, log: object) -> Scheduling:
    """The scheduler for pytest-xdist."""
    config.option.loadscopereorder = False  # keep the order of the list
    return Scheduling(config, log)  # type: ignore[arg-type]
