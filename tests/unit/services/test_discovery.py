"""A client without an address finds its cluster by the cluster files of this machine."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from headrace.protocol.errors import NoClusterError
from headrace.services.cluster_files_io import ClusterFile, write_cluster_file
from headrace.services.discovery import discover

pytestmark = pytest.mark.usefixtures("home")


def add(name: str, *bootstrap: str) -> None:
    write_cluster_file(ClusterFile(name, "h:1", bootstrap, 1, "/data"))


def test_no_cluster_file_gives_none() -> None:
    """The caller raises the error."""
    assert discover() is None


@pytest.mark.parametrize("names", [["two"], ["one", "two"]])
def test_only_the_default_cluster_needs_no_name(names: list[str]) -> None:
    """`default` is down: no producer writes to another cluster, which the error names."""
    for name in names:
        add(name, "h:1")
    with pytest.raises(
        NoClusterError, match=r"'default'.*HEADRACE_CLUSTER or bootstrap=: " + ", ".join(names)
    ):
        discover()


def test_default_cluster_is_chosen_among_several() -> None:
    """`headrace up` without a name creates it."""
    add("default", "h:1")
    add("other", "h:2")
    assert discover() == "h:1"


def test_named_cluster_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """HEADRACE_CLUSTER overrides the default cluster."""
    add("default", "h:1")
    add("two", "h:2", "h:3")
    monkeypatch.setenv("HEADRACE_CLUSTER", "two")
    assert discover() == "h:2,h:3"


def test_missing_named_cluster_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even by the default one; without any cluster the result is None."""
    monkeypatch.setenv("HEADRACE_CLUSTER", "two")
    assert discover() is None
    add("default", "h:1")
    with pytest.raises(NoClusterError, match=r"'two'.*: default"):
        discover()


class FakeRay:
    """A Ray with storage nodes of these clusters, each with an address like its name."""

    exceptions = SimpleNamespace(RayError=OSError)

    def __init__(self, *clusters: str) -> None:
        self._namespaces = [f"headrace-{cluster}" for cluster in clusters]
        self.util = SimpleNamespace(list_named_actors=self._actors)

    def is_initialized(self) -> bool:
        return True

    def get_actor(self, name: str, namespace: str) -> Any:
        assert name == "node-1"
        remote = SimpleNamespace(remote=lambda: (namespace.removeprefix("headrace-"), 9092))
        return SimpleNamespace(endpoint=remote)

    def wait(self, calls: list[Any], *, num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return calls[:num_returns], []

    def get(self, call: Any) -> Any:
        return call

    def _actors(self, *, all_namespaces: bool) -> list[dict[str, str]]:
        assert all_namespaces
        others = {"name": "controller-1", "namespace": "headrace-x"}, {"name": "node-1", "namespace": "x"}
        return [*({"name": "node-1", "namespace": each} for each in self._namespaces), *others]


def test_clusters_of_the_joined_ray_follow_the_same_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """They precede those of this machine."""
    monkeypatch.setitem(sys.modules, "ray", FakeRay("team"))  # type: ignore[misc] -- a fake is no module
    with pytest.raises(NoClusterError, match=r"'default'.*: team"):
        discover()
    monkeypatch.setenv("HEADRACE_CLUSTER", "team")
    add("team", "h:1")
    assert discover() == "team:9092"
    monkeypatch.delenv("HEADRACE_CLUSTER")
    add("default", "h:2")
    assert discover() == "h:2"


def test_starting_cluster_has_no_address() -> None:
    """Its file exists before the nodes do."""
    add("default")
    assert discover() is None
