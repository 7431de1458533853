"""Topics as Spark DataFrames: `headrace.spark`. Spark is imported when a function of these is called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .source_io import HeadraceDataSource as HeadraceDataSource
    from .source_io import register as register

_HOMES = {
    "HeadraceDataSource": "source_io",
    "register": "source_io",
}

__all__ = ["HeadraceDataSource", "register"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
