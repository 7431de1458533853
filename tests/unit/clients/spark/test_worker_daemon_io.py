"""Spark's archives on the path of its workers: removed where its packages are installed."""

import importlib
import sys
import zipfile
from pathlib import Path

import pytest
from headrace.clients.spark.worker_daemon_io import drop_archives


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """On the path, with a folder in the jar that looks like a package; and one of a user."""
    found = []
    for name in ("pyspark.zip", "py4j-0.10.9.7-src.zip", "spark-core_2.12-3.5.7.jar", "mine.zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a_folder_of_the_jar/" if name.endswith("jar") else "empty.txt", "")
        found.append(str(tmp_path / name))
    monkeypatch.setattr(sys, "path", [*found, *sys.path])
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    importlib.import_module("a_folder_of_the_jar")
    return found


def test_archives_are_removed_where_the_packages_are_installed(
    archives: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that would restore them; those of users stay."""
    for name in ("pyspark", "py4j"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    drop_archives()
    assert [entry for entry in sys.path if entry in archives] == [archives[-1]]
    assert "a_folder_of_the_jar" not in sys.modules
    importlib.invalidate_caches()
    assert not [entry for entry in sys.path_importer_cache if entry.startswith(tuple(archives[:-1]))]


def test_archives_stay_without_installed_packages(archives: list[str]) -> None:
    """A worker could not start without them."""
    drop_archives()
    assert [entry for entry in sys.path if entry in archives] == archives
    assert "a_folder_of_the_jar" in sys.modules
