"""The program of an application, as it travels to workers: by the name of its module, or pickled."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import cloudpickle

from ...protocol.errors import ConfigError
from ..targets_io import app_of, use_folders

if TYPE_CHECKING:
    from ..app_io import App
    from ..worker.uncaught import UncaughtHandler


@dataclass(frozen=True)
class Program:
    """`target` is `module:app`, or empty; `pickled` has the application without a target, and the handler of
    uncaught errors. Modules are also found in `folders`, where a machine has them."""

    target: str
    pickled: bytes
    folders: tuple[str, ...]

    @staticmethod
    def of(app: App | str, on_uncaught: UncaughtHandler | None) -> Program:
        """Functions of the main script, lambdas and closures travel by value, other functions by the name of
        their module. Errors: ConfigError if something in it cannot be pickled."""
        target = app if isinstance(app, str) else ""
        try:
            pickled = _pickled((None if target else app, on_uncaught))
        except Exception as error:
            raise ConfigError(
                f"the application cannot be sent to workers: {type(error).__name__}: {error}; name it as"
                " MODULE:APP, so that each worker makes its own"
            ) from error
        return Program(target, pickled, _folders())

    def load(self) -> tuple[App, UncaughtHandler | None]:
        """A new application, and the handler. Errors: ConfigError, and those of its module."""
        folders = [folder for folder in self.folders if Path(folder).is_dir()]
        use_folders(folders)
        app, on_uncaught = cloudpickle.loads(self.pickled)
        return (app_of(self.target, folders) if self.target else app), on_uncaught


def _pickled(value: Any) -> bytes:
    found: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return found


def _folders() -> tuple[str, ...]:
    """Where this process finds modules that are not installed: its working folder, that of its script, and
    PYTHONPATH."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [Path(folder).absolute() for folder in (os.getcwd(), *sys.path[:1], *given) if folder]
    return tuple(str(folder) for folder in dict.fromkeys(folders) if folder.is_dir())
