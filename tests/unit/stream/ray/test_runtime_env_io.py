"""A local folder becomes a package that is named by its content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from headrace.protocol.errors import ConfigError
from headrace.stream.ray.runtime_env_io import package_of, uploaded


def test_a_folder_is_sent_once_per_content(tmp_path: Path) -> None:
    """The address changes with the content alone; what else is given stays, and is not changed in place."""
    sent: list[str] = []

    def upload(folder: str, excludes: Any) -> None:
        sent.append(folder)

    (tmp_path / "program.py").write_text("one")
    given = {"working_dir": str(tmp_path), "env_vars": {"A": "b"}}
    first, again = uploaded(given, upload), uploaded(given, upload)
    assert first == again
    assert first["working_dir"].startswith("gcs://")
    assert first["env_vars"] == {"A": "b"}
    assert (sent, given["working_dir"]) == ([str(tmp_path)] * 2, str(tmp_path))
    (tmp_path / "program.py").write_text("other")
    assert uploaded(given, upload) != first
    assert package_of(first) == {"working_dir": first["working_dir"]}


def test_addresses_stay_and_a_missing_folder_is_named(tmp_path: Path) -> None:
    """Nothing is sent."""
    given = {"working_dir": "s3://bucket/program.zip"}
    assert uploaded(given) == given
    assert uploaded(None) == package_of({}) == {}
    with pytest.raises(ConfigError, match=r"no folder .*absent"):
        uploaded({"working_dir": str(tmp_path / "absent")})
