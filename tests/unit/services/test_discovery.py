"""How a client without an address finds its cluster from the files on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from headrace.protocol.errors import ConfigError
from headrace.services.cluster_files_io import ClusterFile, write_cluster_file
from headrace.services.discovery import discover

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.delenv("HEADRACE_CLUSTER", raising=False)


def add(name: str, *bootstrap: str) -> None:
    write_cluster_file(ClusterFile(name, "h:1", bootstrap, 1, "/data"))


def test_nothing_there() -> None:
    """No file, no cluster: the caller says what to do."""
    assert discover() is None


def test_the_only_cluster_is_meant() -> None:
    """Whatever its name."""
    add("mine", "h:1", "h:2")
    assert discover() == "h:1,h:2"


def test_the_default_cluster_is_meant_among_several() -> None:
    """`headrace up` without a name makes the default one."""
    add("default", "h:1")
    add("other", "h:2")
    assert discover() == "h:1"


def test_several_clusters_need_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guessing could write into the wrong one."""
    add("one", "h:1")
    add("two", "h:2")
    with pytest.raises(ConfigError, match="one, two"):
        discover()
    monkeypatch.setenv("HEADRACE_CLUSTER", "two")
    assert discover() == "h:2"


def test_a_name_that_is_not_there_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never another cluster than the one named."""
    add("one", "h:1")
    monkeypatch.setenv("HEADRACE_CLUSTER", "two")
    assert discover() is None


def test_a_cluster_that_is_still_starting_has_no_address() -> None:
    """The file is there before the nodes are."""
    add("default")
    assert discover() is None
