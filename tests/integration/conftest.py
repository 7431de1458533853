"""Fixtures of integration tests: a Ray that no test kills, rigs, and the command line of a file's cluster."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path

import pytest
import work_units
from command_line import CommandLine
from headrace import LocalCluster
from headrace_command import Headrace
from hostile_rig import Probe, attack
from node_rig import Rig, node_rig

RAY = pytest.StashKey[ExitStack]()


@pytest.fixture(scope="session")
def ray_address(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a worker's Ray, which takes ten seconds to start: each test has a cluster of its own."""
    with ExitStack() as stack:
        pytestconfig.stash[RAY] = stack
        yield stack.enter_context(Headrace(tmp_path_factory.mktemp("ray")).running_ray())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the Ray behind the last test that may use it: its processes are never idle."""
    if RAY in item.config.stash and nextitem and work_units.unit_of(nextitem.nodeid) not in work_units.RAYS:
        item.config.stash[RAY].close()


@pytest.fixture
def rig(tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
    """A storage node with a scripted controller."""
    return node_rig(tmp_path)


@pytest.fixture
def probe(cluster: LocalCluster) -> AbstractAsyncContextManager[Probe]:
    """The well-behaved client of the file's `cluster` during an attack."""
    return attack(cluster)


@pytest.fixture
def shell(command_line: CommandLine, cluster: LocalCluster) -> CommandLine:
    """Runs command lines against the `cluster` of the file."""
    return command_line.at(cluster.bootstrap)
