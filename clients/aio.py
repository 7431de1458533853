"""The asyncio twins: the same names, parameters and behaviour, on the user's event loop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aio_admin_io import AsyncAdmin
    from .aio_cluster_io import AsyncCluster, connect
    from .aio_consumer_io import AsyncConsumer
    from .aio_producer_io import AsyncProducer

_HOMES = {
    "connect": ".aio_cluster_io",
    "AsyncCluster": ".aio_cluster_io",
    "AsyncProducer": ".aio_producer_io",
    "AsyncConsumer": ".aio_consumer_io",
    "AsyncAdmin": ".aio_admin_io",
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
