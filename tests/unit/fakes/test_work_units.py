"""Tests are shared out in units that have something in common."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import work_units

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/faults/test_ray.py::test_a[1]", "tests/faults/test_ray.py"),
        ("tests/integration/test_ray_data.py::test_a", "ray of programs"),
        ("tests/integration/test_ray_quorum.py::test_b", "ray"),
        ("tests/integration/test_quickstart_ray.py::test_b", "ray of commands"),
        ("tests/integration/test_tutorial_ray.py::test_c", "ray of commands"),
        ("tests/integration/test_groups.py::test_c[a::b]", "tests/integration/test_groups.py"),
        ("tests/oracle/test_beside.py::test_d", "tests/oracle/test_beside.py"),
        ("tests/unit/services/test_ray_session.py::test_e", "tests/unit/services/test_ray_session.py"),
        ("tests/sim/test_txn_sim.py::test_f[x]", "tests/sim/test_txn_sim.py::test_f[x]"),
        ("tests/faults/test_links.py::test_g", "tests/faults/test_links.py::test_g"),
    ],
)
def test_tests_that_share_something_are_one_unit(nodeid: str, unit: str) -> None:
    """A Ray, the clusters of a file; a simulation has its world alone."""
    assert work_units.unit_of(nodeid) == unit


def test_tests_that_wait_are_at_the_front() -> None:
    """The longest units before all others; tests that compute are at the back."""
    ordered = [
        "tests/integration/test_ray_quorum.py::test_a",
        "tests/integration/test_ray_torch.py::test_a",
        "tests/integration/test_tutorial_ray.py::test_a",
        "tests/oracle/test_beside.py::test_a",
        "tests/integration/test_bench_local.py::test_a",
        "tests/faults/test_disks.py::test_b",
        "tests/oracle/test_streams_reset.py::test_b",
        "tests/integration/test_racks.py::test_c",
        "tests/unit/test_d.py::test_d",
        "tests/sim/test_world.py::test_e",
    ]
    shuffled = [*ordered[5:], *ordered[:5]]
    assert sorted(shuffled, key=work_units.rank) == ordered


@pytest.mark.parametrize("unit", [unit for unit in work_units.LONG if "/" in unit])
def test_long_units_exist(unit: str) -> None:
    """A file that was renamed keeps its place."""
    assert (ROOT / unit).is_file()
    assert work_units.unit_of(f"{unit}::test_a") == unit


@pytest.mark.parametrize("name", work_units.PROGRAMS)
def test_programs_of_ray_exist(name: str) -> None:
    """A file that was renamed keeps its unit."""
    assert (ROOT / "tests" / "integration" / f"{name}.py").is_file()


class Worker:
    """Takes what it is given."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_workers_begin_at_both_ends_and_take_whole_units(pytestconfig: pytest.Config) -> None:
    """Through the hook, as in a run: the second worker begins at the back, the others at the front."""
    tests = [f"tests/integration/test_{name}.py::test_{n}" for name in "abc" for n in range(4)]
    tests += [f"tests/unit/test_d.py::test_{n}" for n in range(4)]
    options = {"tx": ["popen"] * 3, "dist": "loadgroup"}
    config = SimpleNamespace(getvalue=options.get, option=SimpleNamespace())
    log = SimpleNamespace(loadscopesched=lambda *_: None)
    scheduling = pytestconfig.hook.pytest_xdist_make_scheduler(config=config, log=log)
    workers = [Worker("gw0"), Worker("gw1"), Worker("gw2")]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    assert [worker.given for worker in workers] == [[0, 1, 2, 3], [12, 13, 14, 15], [4, 5, 6, 7]]


def test_a_worker_gets_the_next_unit_when_it_has_two_tests_left(pytestconfig: pytest.Config) -> None:
    """The tests of a worker that dies are given to another one, but for those that it has finished."""
    tests = [f"tests/integration/test_{name}.py::test_{n}" for name in "abc" for n in range(4)]
    config = SimpleNamespace(
        getvalue={"tx": ["popen"] * 2, "dist": "loadgroup"}.get,
        option=SimpleNamespace(),
    )
    log = SimpleNamespace(loadscopesched=lambda *_: None)
    scheduling = pytestconfig.hook.pytest_xdist_make_scheduler(config=config, log=log)
    first, second = workers = Worker("gw0"), Worker("gw1")
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    scheduling.mark_test_complete(first, 0)
    assert (first.given, second.given) == ([0, 1, 2, 3], [8, 9, 10, 11])
    scheduling.mark_test_complete(first, 1)
    assert first.given == [0, 1, 2, 3, 4, 5, 6, 7]
    for finished in (2, 3, 4):
        scheduling.mark_test_complete(first, finished)
    assert scheduling.remove_node(first) == tests[5]
    for finished in (8, 9):
        scheduling.mark_test_complete(second, finished)
    assert second.given == [8, 9, 10, 11, 5, 6, 7]
