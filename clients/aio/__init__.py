"""The asyncio twins: the same names, parameters and behaviour, on the user's event loop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .admin_io import AsyncAdmin
    from .cluster_io import AsyncCluster, connect
    from .consumer_io import AsyncConsumer
    from .producer_io import AsyncProducer

_HOMES = {
    "connect": ".cluster_io",
    "AsyncCluster": ".cluster_io",
    "AsyncProducer": ".producer_io",
    "AsyncConsumer": ".consumer_io",
    "AsyncAdmin": ".admin_io",
}

__all__ = ["connect", "AsyncCluster", "AsyncProducer", "AsyncConsumer", "AsyncAdmin"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home, __package__), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
