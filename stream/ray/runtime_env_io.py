"""The runtime environment of workers: Ray takes a local folder only from a driver that starts, so that one is
uploaded here, and named by its content.

The supervisor has it, too: Ray keeps a package while a detached actor refers to it, and workers may all be
between two lives.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray._private.runtime_env.working_dir import upload_working_dir_if_needed

from ...protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FOLDER = "working_dir"


def uploaded(
    runtime_env: Mapping[str, Any] | None, upload: Callable[..., None] | None = None
) -> dict[str, Any]:
    """The environment with the address of a package in place of a local folder. `upload` in place of Ray's.
    Errors: ConfigError for a folder that is not there; RayError."""
    given = dict(runtime_env or {})
    folder = given.get(_FOLDER)
    if folder is None or "://" in str(folder):
        return given
    if not Path(folder).exists():
        raise ConfigError(f"runtime_env: there is no folder {str(folder)!r} to send to the workers")
    with tempfile.TemporaryDirectory() as scratch:
        # As Ray's own job and serve commands do: no public function uploads a folder.
        found: dict[str, Any] = upload_working_dir_if_needed(
            given, include_gitignore=True, scratch_dir=scratch, upload_fn=upload
        )
    return found


def package_of(runtime_env: Mapping[str, Any]) -> dict[str, Any]:
    """The part that refers to an uploaded package."""
    return {_FOLDER: runtime_env[_FOLDER]} if _FOLDER in runtime_env else {}
