"""Fixtures of integration tests: a Ray that no test kills, rigs, and the command line of a file's cluster."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from command_line import CommandLine
from headrace import LocalCluster
from headrace_command import Headrace
from hostile_rig import Probe, attack
from node_rig import Rig, node_rig


@pytest.fixture(scope="session")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray, which takes ten seconds to start: each test has a cluster of its own on it."""
    with Headrace(tmp_path_factory.mktemp("ray")).running_ray() as address:
        yield address


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
