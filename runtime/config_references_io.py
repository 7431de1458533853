"""Resolves references in config values by the environment and the files of this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ConfigError
from .config_references import resolve_from

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePath

# Bound: a file with secrets.
MAX_FILE_BYTES = 1024 * 1024


def resolve_references(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that `${env:..}`, `${file:..}` and `${dir:..}` refer to. Errors: ConfigError."""
    return resolve_from(_Process(), values)


class _Process:
    """Fulfils Source."""

    def variable(self, name: str) -> str:
        try:
            return os.environ[name]
        except KeyError:
            raise ConfigError("there is no such environment variable") from None

    def real_path(self, path: str) -> PurePath:
        return Path(path).resolve()

    def text(self, path: PurePath) -> str:
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"{error.strerror}") from None
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"the file has more than {MAX_FILE_BYTES} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ConfigError("the file is not UTF-8") from None
