"""What tests of commands share."""

from collections.abc import Iterator
from typing import Any

import pytest
from command_line import CommandLine
from headrace.clients.sync import admin_io
from headrace.clients.sync.cluster_io import Cluster


@pytest.fixture
def shell(fake: Any, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    """Runs command lines against the `fake` cluster of the file."""
    with Cluster("node0:9000", make_hub=fake.make_hub) as cluster:
        admin = admin_io.Admin
        monkeypatch.setattr(admin_io, "Admin", lambda _addresses, config: admin(cluster, config=config))
        yield command_line.at("node0:9000")
