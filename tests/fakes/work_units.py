"""How the tests are shared out among the workers of pytest-xdist.

What belongs together runs in one worker, and has its cluster, its Ray or its Apache Kafka once: a file,
or all files that need the same. Half of the workers begin at the front of the list, where tests wait for
processes, the others at its back, where they compute: so both kinds run side by side, and neither has the
machine to itself. They meet among the small ones.
"""

import os
from pathlib import PurePath

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# From tests that wait to tests that compute. Ray and Apache Kafka come first: each is one long unit, which
# would else run alone at the end.
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
ALONE = ("faults", "property", "sim")  # whose tests have nothing in common, and may take long
SPARE_WORKERS = 2  # while others wait


def worker_count() -> int:
    """For `-n auto`."""
    return len(os.sched_getaffinity(0)) + SPARE_WORKERS


def rank(nodeid: str) -> tuple[int, int]:
    """Its place in the list: small is early."""
    folder = _folder(nodeid)
    return (unit_of(nodeid) != "ray", FOLDERS.index(folder) if folder in FOLDERS else 0)


def unit_of(nodeid: str) -> str:
    """The name of what it runs together with."""
    path, folder = nodeid.partition("::")[0], _folder(nodeid)
    if "ray" in PurePath(path).stem.split("_") and folder != "unit":
        return "ray"
    if folder == "oracle":
        return "kafka"
    return nodeid if folder in ALONE else path


def _folder(nodeid: str) -> str:
    parts = nodeid.partition("::")[0].split("/")
    return parts[1] if parts[0] == "tests" and len(parts) > 2 else ""


class Scheduling(LoadScopeScheduling):
    """See the module's docstring."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if int(node.gateway.id.removeprefix("gw")) % 2:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


def new_scheduling(config: pytest.Config, log: object) -> Scheduling:
    """For xdist."""
    config.option.loadscopereorder = False  # the list has its order
    return Scheduling(config, log)  # type: ignore[arg-type]
