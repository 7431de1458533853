"""Functions that find the Ray of a cluster; other parts (the Ray launcher) register them. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class FoundRay(NamedTuple):
    """The address of a Ray, and the RAY_* variables of processes that connect to it."""

    address: str
    ray_env: Mapping[str, str] = MappingProxyType({})


_finders: dict[str, Callable[[], FoundRay | None]] = {}


def register_ray_finder(name: str, finder: Callable[[], FoundRay | None]) -> None:
    """Add a function that finds the Ray of the cluster that clients without addresses connect to; one with
    the same name is replaced."""
    _finders[name] = finder


def find_ray() -> FoundRay | None:
    """What the first function finds; None if none does. Errors: NoClusterError of a function."""
    return next((found for found in (finder() for finder in _finders.values()) if found is not None), None)
