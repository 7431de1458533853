"""The Ray on which workers run: the one of this process, or one that is found."""

from __future__ import annotations

import os
from typing import Any

import ray

from ...runtime.ray_join_actor import join_ray
from ..errors import WorkersError
from .finders import FoundRay, find_ray
from .plan import NAMESPACE


def connected_ray(address: str | None = None) -> Any:
    """The `ray` module, connected: as this process is, or to `address`, RAY_ADDRESS, or the Ray of the
    cluster. Errors: WorkersError."""
    if ray.is_initialized():
        return ray
    found = _wanted(address)
    if found is None:
        raise WorkersError(
            "no Ray runs the workers: start one with `headrace up`, name one with ray_address=, or connect"
            " with ray.init() before"
        )
    try:
        join_ray(found.address, NAMESPACE, found.ray_env)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise WorkersError(f"cannot join the Ray at {found.address}: {error}") from error
    return ray


def _wanted(address: str | None) -> FoundRay | None:
    given = address or os.environ.get("RAY_ADDRESS")
    if given:
        return FoundRay(given)
    return find_ray()
