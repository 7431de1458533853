"""`up`: its options merged with an existing cluster; no Ray involved."""

import re
from pathlib import Path
from typing import Any

import pytest
from headrace.protocol.errors import ConfigError, HeadraceError
from headrace.runtime.files.files_io import OsFiles
from headrace.services.cluster_files_io import ClusterFile, UnknownClusterError
from headrace.services.data_dirs_io import index_of, mark_removed
from headrace.services.ray_host import (
    StartError,
    UpOptions,
    _active,
    _merged,
    _wait_for_machines,
    _with,
    _with_those_there,
    down,
    namespace_of,
    node_indices,
    state_of,
)
from headrace.services.ray_readiness import reason_of
from headrace.services.ray_removal_io import without_node

BEFORE = ClusterFile("c", "h:1", ("h:2",), 3, "/data")


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", "ray:6379")


def test_defaults_of_a_new_cluster(tmp_path: Path) -> None:
    """Three nodes, data under the home, the Ray of the environment."""
    facts = _merged(UpOptions("c"), None)
    assert (facts.nodes, facts.data_dir, facts.ray_address) == (3, str(tmp_path / "data" / "c"), "ray:6379")
    assert _merged(UpOptions("c", ray_address="local"), None).ray_address == ""


def test_all_nodes_with_data_are_restarted(tmp_path: Path) -> None:
    """Grown to twelve, taken down, started again without a number: no partition is left out."""
    for index in (1, 2, 12):
        (tmp_path / "data" / "c" / f"node-{index}").mkdir(parents=True)
    assert _merged(UpOptions("c"), None).nodes == 12
    assert _merged(UpOptions("c", nodes=13), None).nodes == 13
    assert _merged(UpOptions("other"), None).nodes == 3


def test_running_cluster_keeps_its_settings() -> None:
    """Nodes may be added."""
    assert _merged(UpOptions("c"), BEFORE) == BEFORE
    assert _merged(UpOptions("c", nodes=5, data_dir="/data"), BEFORE).nodes == 5


def test_all_controllers_with_data_are_restarted(tmp_path: Path) -> None:
    """Fewer might have no majority."""
    assert _merged(UpOptions("c"), None).controllers == 1
    assert _merged(UpOptions("c", controllers=3), None).controllers == 3
    for index in (1, 2, 3):
        (tmp_path / "data" / "c" / f"controller-{index}").mkdir(parents=True)
    assert _merged(UpOptions("c"), None).controllers == 3
    assert _merged(UpOptions("c", controllers=1), None).controllers == 3
    assert _merged(UpOptions("c", controllers=5), None).controllers == 5


def test_controller_count_of_a_running_cluster_is_fixed() -> None:
    """A single one without its disk would begin a second quorum. A dead cluster may get more."""
    running = _with(BEFORE, controllers=3)
    assert _merged(UpOptions("c", controllers=3), running).controllers == 3
    for count in (1, 5):
        with pytest.raises(ConfigError, match="has 3 controllers"):
            _merged(UpOptions("c", controllers=count), running)
    assert _merged(UpOptions("c", controllers=5), _with(running, ray_address="")).controllers == 5
    fresh = _with(BEFORE, bootstrap=(), nodes=1)
    names = ["controller-1", "controller-2", "controller-3", "node-1"]
    assert _with_those_there(UpOptions("c"), fresh, names).controllers == 3
    with pytest.raises(ConfigError, match="has 3 controllers"):
        _with_those_there(UpOptions("c", controllers=1), fresh, names)


def test_leader_of_the_highest_epoch_is_the_controller() -> None:
    """An isolated controller may still claim to lead; followers and silent ones are left out."""
    old, new = ({"quorum": {"role": "leader", "epoch": epoch}} for epoch in (3, 4))
    follower = {"quorum": {"role": "follower", "epoch": 4}}
    assert _active([old, {"state": "silent"}, new, follower]) is new
    assert _active([follower, {"state": "silent"}]) is None


def test_state_of_a_cluster() -> None:
    """Running only with all servers, an active controller, and the addresses that `up` writes at its end."""
    node, leader = {"state": "active"}, {"state": "running", "quorum": {"role": "leader", "epoch": 1}}
    whole = ([node] * 3, [leader])
    assert state_of(BEFORE, *whole) == "running"
    assert state_of(_with(BEFORE, bootstrap=()), *whole) == "starting"
    assert state_of(BEFORE, [node] * 2, [leader]) == "degraded"
    assert state_of(BEFORE, [node, node, {"state": "silent"}], [leader]) == "degraded"
    assert state_of(BEFORE, [node] * 3, [{"state": "running"}]) == "degraded"
    assert state_of(BEFORE, [], []) == "down"


def test_contradicting_options_are_errors() -> None:
    """Fewer nodes, or other folders, than the running cluster has."""
    with pytest.raises(ConfigError, match="does not remove"):
        _merged(UpOptions("c", nodes=2), BEFORE)
    with pytest.raises(ConfigError, match="/data"):
        _merged(UpOptions("c", data_dir="/other"), BEFORE)


def test_config_of_a_running_cluster_is_an_error() -> None:
    """It would not reach the running nodes. Over the data of a dead cluster it applies."""
    running = _with(BEFORE, config={"num.partitions": "6"})
    assert _merged(UpOptions("c", config={"num.partitions": "6"}), running) == running
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        _merged(UpOptions("c", config={"num.partitions": "7"}), running)
    with pytest.raises(ConfigError, match="runs on the Ray at"):
        _merged(UpOptions("c", ray_address="10.9.9.9:1"), running)
    dead = _with(running, ray_address="")
    assert _merged(UpOptions("c", config={"num.partitions": "7"}), dead).config == {"num.partitions": "7"}
    assert _merged(UpOptions("c", config={"num.partitions": "7"}), None).config == {"num.partitions": "7"}


def test_cluster_of_another_machine_keeps_its_nodes() -> None:
    """No file here has the number of nodes: the actors do."""
    fresh = _with(BEFORE, bootstrap=(), nodes=3)
    names = ["controller-1", *(f"node-{index}" for index in range(1, 6))]
    assert _with_those_there(UpOptions("c"), fresh, names).nodes == 5
    assert _with_those_there(UpOptions("c", nodes=6), fresh, names).nodes == 6
    assert _with_those_there(UpOptions("c"), fresh, []).nodes == 3
    with pytest.raises(ConfigError, match="does not remove"):
        _with_those_there(UpOptions("c", nodes=4), fresh, names)
    with pytest.raises(ConfigError, match="is running"):
        _with_those_there(UpOptions("c", config={"num.partitions": "7"}), fresh, names)


def test_servers_are_sorted_by_number() -> None:
    """Each cluster has its own namespace."""
    assert sorted(["node-10", "node-2", "controller-1"], key=index_of) == [
        "controller-1",
        "node-2",
        "node-10",
    ]
    assert namespace_of("c") == "headrace-c"


def test_error_of_ray_is_cut_to_its_last_line() -> None:
    """That line is the error itself."""
    assert reason_of(RuntimeError("Traceback\n  File\nValueError: bad\n")) == "ValueError: bad"
    assert reason_of(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({"num.partitions": "4"}, "config alter --cluster c --cluster-wide --set num.partitions=4"),
        ({"num_partitions": "4"}, "config alter --cluster c --cluster-wide --set num.partitions=4"),
        ({"log.retention.ms": "5"}, "config alter --cluster c --cluster-wide --set log.retention.ms=5"),
        ({"min.insync.replicas": "2"}, "config alter --cluster c --cluster-wide --set min.insync.replicas=2"),
        ({"broker.rack": "a"}, "run `headrace down` before changing broker.rack"),
    ],
)
def test_config_error_names_the_command_that_changes_the_key(given: dict[str, str], remedy: str) -> None:
    """Whether the cluster was started from this machine or from another one."""
    with pytest.raises(ConfigError, match=re.escape(remedy)):
        _merged(UpOptions("c", config=given), BEFORE)
    with pytest.raises(ConfigError, match=re.escape(remedy)):
        _with_those_there(UpOptions("c", config=given), _with(BEFORE, bootstrap=()), ["node-1"])


def test_default_cluster_needs_no_name_in_the_remedy() -> None:
    """The command can be copied as it is printed."""
    running = _with(BEFORE, cluster="default")
    with pytest.raises(ConfigError, match="`headrace config alter --cluster-wide --set"):
        _merged(UpOptions("default", config={"num.partitions": "4"}), running)


def test_ray_of_the_environment_keeps_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """`status` and `down` from another shell join the Ray as `up` did."""
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert _merged(UpOptions("c"), None).ray_env == {"RAY_AUTH_MODE": "disabled"}
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/token")
    assert _merged(UpOptions("c"), None).ray_env == {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": "/token",
    }


class FakeRay:
    """A Ray with one more machine at each request."""

    def __init__(self, *joining: str) -> None:
        self.joining = joining
        self.asked = 0

    def nodes(self) -> list[dict[str, Any]]:
        self.asked += 1
        return [{"NodeManagerAddress": address, "Alive": True} for address in self.joining[: self.asked]]


def test_up_waits_for_machines() -> None:
    """Servers are placed once all machines have joined."""
    ray, notes = FakeRay("a", "b", "c"), list[str]()
    _wait_for_machines(ray, 3, 60.0, notes.append)
    assert ray.asked == 3
    assert notes == ["waiting until Ray has 3 machines; it has 1"]
    _wait_for_machines(FakeRay("a"), 1, 60.0, notes.append)
    assert len(notes) == 1


def test_up_names_the_machines_that_joined() -> None:
    """The timeout error does."""
    with pytest.raises(StartError, match=r"Ray has 2 of 3 machines after 0 s: a, b"):
        _wait_for_machines(FakeRay("a", "b"), 3, 0.0, lambda _text: None)


def test_down_removes_the_data_of_a_cluster_that_is_not_up(tmp_path: Path) -> None:
    """`down --delete-data` after `down`, or after an `up` that failed: the default data dir is removed."""
    (tmp_path / "data" / "c" / "node-1").mkdir(parents=True)
    (tmp_path / "data" / "c" / "node-1" / ".lock").touch()
    with pytest.raises(UnknownClusterError):
        down("c", lambda _text: None)
    notes: list[str] = []
    assert down("c", notes.append, delete_data=True) == []
    assert notes == [f"removed {tmp_path / 'data' / 'c'}"]
    assert not (tmp_path / "data").exists()
    with pytest.raises(UnknownClusterError):
        down("c", lambda _text: None, delete_data=True)


def test_down_keeps_data_that_a_server_uses(tmp_path: Path) -> None:
    """The servers of a cluster started from another machine hold the locks of their folders here."""
    folder = tmp_path / "data" / "c" / "node-1"
    folder.mkdir(parents=True)
    lock = OsFiles().lock(str(folder / ".lock"))
    assert lock is not None
    with pytest.raises(HeadraceError, match="node-1 is in use"):
        down("c", lambda _text: None, delete_data=True)
    lock.release()
    assert folder.exists()
    down("c", lambda _text: None, delete_data=True)
    assert not folder.exists()


def test_a_removed_node_is_not_started_again(tmp_path: Path) -> None:
    """Not by the next `up`, not after `down`, when only the data dir remembers, and its id is not used again:
    further nodes get new ones. Nor by `up` from a machine without the cluster file."""
    facts = _with(BEFORE, bootstrap=("h:1", "h:2", "h:3"), pins={f"node-{n}": "r" for n in (1, 2, 3)})
    without = without_node(facts, 2)
    assert (without.nodes, node_indices(without), without.bootstrap) == (2, (1, 3), ("h:1", "h:3"))
    assert set(without.pins) == {"node-1", "node-3"}
    assert without_node(without, 2) is without
    assert node_indices(_merged(UpOptions("c", nodes=3), without)) == (1, 3, 4)

    for index in (1, 3):
        (tmp_path / "data" / "c" / f"node-{index}").mkdir(parents=True)
    mark_removed(str(tmp_path / "data" / "c"), 2)
    assert node_indices(_merged(UpOptions("c"), None)) == (1, 3)
    assert node_indices(_merged(UpOptions("c", nodes=4), None)) == (1, 3, 4, 5)

    elsewhere = _with(BEFORE, bootstrap=(), nodes=3)
    there = _with_those_there(UpOptions("c"), elsewhere, ["controller-1", "node-1", "node-3"])
    assert node_indices(there) == (1, 3)
