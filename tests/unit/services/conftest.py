"""What tests of commands share."""

from collections.abc import Iterator
from pathlib import Path
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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HEADRACE_HOME, and no cluster in the environment."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    for name in ("HEADRACE_BOOTSTRAP", "HEADRACE_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"
