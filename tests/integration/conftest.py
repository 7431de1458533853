"""What integration tests share: a Ray that no test kills, and the command line of a file's cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from headrace_command import Headrace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from command_line import CommandLine


@pytest.fixture(scope="session")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray, which takes ten seconds to start: each test has a cluster of its own on it."""
    with Headrace(tmp_path_factory.mktemp("ray")).running_ray() as address:
        yield address


@pytest.fixture
def shell(command_line: CommandLine, cluster: Any) -> CommandLine:
    """Runs command lines against the `cluster` of the file."""
    return command_line.at(cluster.bootstrap)
