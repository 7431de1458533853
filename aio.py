"""Asyncio clients: the names, parameters and behaviour of the synchronous ones, on the caller's event
loop."""

from __future__ import annotations

from .clients.aio.admin_io import AsyncAdmin
from .clients.aio.cluster_io import AsyncCluster, connect
from .clients.aio.consumer_io import AsyncConsumer
from .clients.aio.producer_io import AsyncProducer
from .clients.aio.transaction_io import AsyncTransaction

__all__ = ["connect", "AsyncCluster", "AsyncProducer", "AsyncTransaction", "AsyncConsumer", "AsyncAdmin"]
