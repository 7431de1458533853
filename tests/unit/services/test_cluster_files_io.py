"""Cluster files under HEADRACE_HOME."""

from pathlib import Path

import pytest
from headrace.protocol.errors import ConfigError, HeadraceError
from headrace.services.cluster_files_io import (
    ClusterFile,
    OwnRayEntry,
    UnknownClusterError,
    checked_name,
    cluster_lock,
    default_data_dir,
    known_clusters,
    read_cluster_file,
    remove_cluster_file,
    write_cluster_file,
)

pytestmark = pytest.mark.usefixtures("home")
FACTS = ClusterFile("a.b", "10.0.0.1:6379", ("h:1", "h:2"), 2, "/data", OwnRayEntry(5, 1.5, "/tmp/x"))


def test_cluster_file_round_trip(home: Path) -> None:
    """Written, listed, read, removed; no partial file is left."""
    write_cluster_file(FACTS)
    assert read_cluster_file("a.b") == FACTS
    assert known_clusters() == ["a.b"]
    assert [path.name for path in (home / "clusters").iterdir()] == ["a.b.json"]
    remove_cluster_file("a.b")
    remove_cluster_file("a.b")
    assert known_clusters() == []


def test_unknown_cluster_error_names_the_known_ones() -> None:
    """For the case of a typo."""
    write_cluster_file(FACTS)
    with pytest.raises(UnknownClusterError, match=r"a\.b"):
        read_cluster_file("ab")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"cluster": 5}'])
def test_invalid_cluster_file_is_named(home: Path, data: bytes) -> None:
    """The cluster is not reported as missing."""
    write_cluster_file(FACTS)
    (home / "clusters" / "a.b.json").write_bytes(data)
    with pytest.raises(ConfigError, match=r"a\.b\.json"):
        read_cluster_file("a.b")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", ".a", "a.", "a b", "x" * 64, "a\n"])
def test_invalid_cluster_names_are_errors(name: str) -> None:
    """A name becomes a path and a Ray namespace."""
    with pytest.raises(ConfigError):
        checked_name(name)


def test_cluster_lock_is_exclusive(home: Path) -> None:
    """A second `up` of the cluster is refused, another cluster is free; no file is left."""
    with cluster_lock("one"):
        with pytest.raises(HeadraceError, match="running"), cluster_lock("one"):
            pytest.fail("the lock was given twice")
        with cluster_lock("two"):
            pass
    with cluster_lock("one"):
        pass
    assert not home.exists()


def test_empty_folders_are_removed_with_the_last_cluster(home: Path) -> None:
    """Folders with data, or of another cluster, stay."""
    write_cluster_file(FACTS)
    with cluster_lock("one"):
        pass
    assert known_clusters() == ["a.b"]
    (home / "data").mkdir()
    with cluster_lock("a.b"):
        remove_cluster_file("a.b")
    assert [path.name for path in home.iterdir()] == ["data"]


def test_default_data_dir_is_under_the_home(home: Path) -> None:
    """One folder per cluster."""
    assert default_data_dir("x") == str(home / "data" / "x")
