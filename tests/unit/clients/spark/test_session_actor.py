"""Errors of a session that cannot start; tests with Spark are in tests/spark35."""

import sys
from pathlib import Path

import headrace
import pytest
from headrace.clients.spark import session_actor
from headrace.protocol.errors import ConfigError


def install(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    monkeypatch.setattr(session_actor, "_version", versions.get)


def java(folder: Path, says: str) -> str:
    """The home of a Java that prints this version."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("versions", "master", "said"),
    [
        ({}, None, r"PySpark is not installed: install headrace\[raydp\]"),
        ({}, "local[2]", r"PySpark is not installed: .* or headrace\[spark\]"),
        ({"pyspark": "3.5.7"}, None, r"RayDP is not installed: install headrace\[raydp\]"),
        ({"pyspark": "4.2.0", "raydp": "1.6.5"}, None, r"RayDP needs PySpark 3.5, but 4.2.0 is installed"),
    ],
)
def test_missing_and_incompatible_packages_are_errors(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], master: str | None, said: str
) -> None:
    """With the extra that installs them."""
    install(monkeypatch, **versions)
    with pytest.raises(ConfigError, match=said), headrace.spark.session(master=master):
        pass


def test_missing_or_old_java_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before Spark reports it."""
    install(monkeypatch, pyspark="3.5.7")

    def refused(said: str) -> None:
        with pytest.raises(ConfigError, match=said), headrace.spark.session(master="local[1]"):
            pass

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    refused("needs a JDK of version 17 or newer: no java in PATH, and JAVA_HOME is not set")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    refused("which has no bin/java")
    monkeypatch.setenv("JAVA_HOME", java(tmp_path, 'openjdk version "11.0.2" 2019-01-15'))
    refused("bin/java is version 11")


def test_placement_options_need_ray() -> None:
    """A local master has one place."""
    with (
        pytest.raises(ConfigError, match="need executors on Ray: omit master"),
        headrace.spark.session(master="local[1]", hosts=["h"]),
    ):
        pass


def test_spark_is_imported_at_first_use() -> None:
    """`headrace.spark` and its functions are importable without it."""
    assert callable(headrace.spark.read)
    assert callable(headrace.spark.stream)
    assert "pyspark" not in sys.modules
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        headrace.spark.nothing  # noqa: B018
