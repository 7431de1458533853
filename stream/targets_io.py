"""Applications by name: `module:app`."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from ..protocol.errors import ConfigError
from ..runtime.nearest import did_you_mean
from .app_io import App

if TYPE_CHECKING:
    from collections.abc import Iterable


def app_of(target: str, folders: Iterable[str]) -> App:
    """The application that `module:name` names; modules are also found in `folders`. Errors: ConfigError."""
    module_name, separator, name = target.partition(":")
    if not separator or not module_name or not name:
        raise ConfigError(f"{target!r} is not MODULE:APP, such as orders:app")
    use_folders(folders)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            raise ConfigError(f"there is no module {missing!r} here or in the environment") from error
        raise ConfigError(
            f"module {module_name} cannot be imported: {type(error).__name__}: {error}; --debug shows where"
        ) from error
    found = getattr(module, name, None)
    if found is None:
        raise ConfigError(f"module {module_name} has no {name!r}{did_you_mean(name, vars(module))}")
    if callable(found) and not isinstance(found, App):
        found = found()
    if not isinstance(found, App):
        raise ConfigError(
            f"{target} is {type(found).__name__}, not a headrace.stream.App or a function that returns one"
        )
    return found


def use_folders(folders: Iterable[str]) -> None:
    """Find modules there, too; before the others, as `python -m` does."""
    for folder in reversed(list(folders)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
