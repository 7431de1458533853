"""What `up` makes of its options and of a cluster that is there; no Ray involved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.cluster_files_io import ClusterFile
from headrace.services.ray_host import UpOptions, _index_of, _merged, _pin, _reason, namespace_of

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = ClusterFile("c", "h:1", ("h:2",), 3, "/data")


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "ray:6379")


def test_a_new_cluster_has_defaults(tmp_path: Path) -> None:
    """Three nodes, data under the home, the Ray of the environment."""
    facts = _merged(UpOptions("c"), None)
    assert (facts.nodes, facts.data_dir, facts.ray_address) == (3, str(tmp_path / "data" / "c"), "ray:6379")
    assert _merged(UpOptions("c", ray_address="local"), None).ray_address == ""


def test_a_running_cluster_is_taken_as_it_is() -> None:
    """What is not asked for stays; nodes may be added."""
    assert _merged(UpOptions("c"), BEFORE) == BEFORE
    assert _merged(UpOptions("c", nodes=5, data_dir="/data"), BEFORE).nodes == 5


def test_contradictions_are_refused() -> None:
    """Fewer nodes, or other folders, than those that run."""
    with pytest.raises(ConfigError, match="does not remove"):
        _merged(UpOptions("c", nodes=2), BEFORE)
    with pytest.raises(ConfigError, match="/data"):
        _merged(UpOptions("c", data_dir="/other"), BEFORE)


def test_servers_are_tied_to_their_disks() -> None:
    """One machine needs no tie; several share the nodes; a resource of one's own wins."""
    assert _pin(1, ["10.0.0.1"], None) == {}
    machines = ["10.0.0.1", "10.0.0.2"]
    tied = [next(iter(_pin(index, machines, None))) for index in range(5)]
    assert tied == [f"node:10.0.0.{n}" for n in (1, 1, 2, 1, 2)]
    assert list(_pin(2, machines, "disk")) == ["disk-2"]
    assert list(_pin(0, ["10.0.0.1"], "disk")) == ["disk-0"]


def test_names() -> None:
    """Ten comes after two; every cluster has its own namespace."""
    assert sorted(["node-10", "node-2", "controller-1"], key=_index_of) == [
        "controller-1",
        "node-2",
        "node-10",
    ]
    assert namespace_of("c") == "headrace-c"


def test_a_reason_is_one_line() -> None:
    """The last line of what Ray tells, which is the error itself."""
    assert _reason(RuntimeError("Traceback\n  File\nValueError: bad\n")) == "ValueError: bad"
    assert _reason(RuntimeError()) == "RuntimeError"
