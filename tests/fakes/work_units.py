"""The distribution of tests over the workers of pytest-xdist.

A unit is a file, one test, or all files with the same Ray; it runs in one worker. Half of the workers
take units from the front of the list, whose tests wait for processes, the other half from its end, whose
tests compute, so both kinds run at the same time. The small units are in the middle of the list.
"""

import functools
import os
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# The files whose tests have clusters on one Ray; the same for programs of Ray beside a cluster; and for
# `headrace quickstart` and the tutorial. Together they take the longest: two workers begin with the first
# two, and the one that finishes first takes the third, on its Ray, which ends after these.
RAY, RAY_OF_PROGRAMS, RAY_OF_COMMANDS = RAYS = ("ray", "ray of programs", "ray of commands")
PROGRAMS = ("test_ray_data", "test_ray_pipelines", "test_ray_streams", "test_ray_torch")
# Units that take a minute or more, the longest first: at the end they would keep one worker busy alone.
LONG = (
    *RAYS,
    "tests/oracle/test_against_kafka.py",
    "tests/oracle/test_beside.py",
    "tests/integration/test_bench_local.py",
    "tests/faults/test_ray.py",
    "tests/integration/test_docs.py",
    "tests/integration/test_examples.py",
    "tests/integration/test_groups.py",
    "tests/oracle/test_streams.py",
    "tests/integration/test_benchmark_cells.py",
)
# The other units, from tests that wait to tests that compute.
FOLDERS = (
    "faults",
    "oracle",
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
ALONE = ("faults", "property", "sim")  # independent tests, some of which take long
SPARE_WORKERS = 2  # more than CPUs, since tests wait; with four workers, Spark processes started too late


def worker_count() -> int:
    """The number of workers for `-n auto`."""
    return len(os.sched_getaffinity(0)) + SPARE_WORKERS


def rank(nodeid: str) -> tuple[int, int]:
    """The position of a test in the list."""
    path = nodeid.partition("::")[0]
    folder = _folder(path)
    unit = unit_of(nodeid)
    position = LONG.index(unit) if unit in LONG else len(LONG)
    return (position, FOLDERS.index(folder) if folder in FOLDERS else 0)


def unit_of(nodeid: str) -> str:
    """The unit of a test."""
    path = nodeid.partition("::")[0]
    return _shared(path) or (nodeid if _folder(path) in ALONE else path)


@functools.cache
def _shared(path: str) -> str:
    """The unit of a file whose tests share a Ray, or none."""
    folder, parts = _folder(path), PurePath(path).stem.split("_")
    if "ray" not in parts or folder not in ("faults", "integration"):
        return ""
    if folder == "faults":
        return path
    if PurePath(path).stem in PROGRAMS:
        return RAY_OF_PROGRAMS
    return RAY_OF_COMMANDS if parts[-1] == "ray" else RAY


@functools.cache
def _folder(path: str) -> str:
    parts = path.split("/")
    return parts[1] if parts[0] == "tests" and len(parts) > 2 else ""


class Scheduling(LoadScopeScheduling):
    """The scheduler described in the module's docstring."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """As the overridden method, which searches the list of all tests for each test, and visits all that
        the worker has finished whenever it finishes another one."""
        is_at_the_back = int(node.gateway.id.removeprefix("gw")) % 2 == 1
        unit, tests = self.workqueue.popitem(last=is_at_the_back)
        earlier = self.assigned_work.get(node, {})
        open_units = {name: known for name, known in earlier.items() if not all(known.values())}
        self.assigned_work[node] = {**open_units, unit: tests}
        node.send_runtest_some([self._positions[test] for test, is_done in tests.items() if not is_done])

    @functools.cached_property
    def _positions(self) -> dict[str, int]:
        """The positions of all tests in the list that each worker has collected."""
        assert self.collection is not None
        return {test: position for position, test in enumerate(self.collection)}


def new_scheduling(config: pytest.Config, log: object) -> Scheduling:
    """The scheduler for pytest-xdist."""
    config.option.loadscopereorder = False  # keep the order of the list
    return Scheduling(config, log)  # type: ignore[arg-type]
