"""headrace: a partitioned, replicated commit log inside a Ray cluster.

Synchronous clients are here, their asyncio twins in `headrace.aio`. Names are loaded at their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .clients.bootstrap import register_resolver

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import aio
    from .clients import (
        ANY_NAME,
        EARLIEST,
        LATEST,
        MAX_TIMESTAMP,
        Admin,
        Assignor,
        BatchResult,
        Cluster,
        Consumer,
        ConsumerInterceptor,
        ContextSerde,
        ElectionType,
        GroupMetadata,
        NewTopic,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        Producer,
        ProducerInterceptor,
        ProducerRecord,
        RebalanceListener,
        Record,
        RecordFuture,
        RecordMetadata,
        Resource,
        Results,
        Serde,
        SerdeContext,
        TopicPartitionReplica,
        Transaction,
        append,
        bytes_,
        connect,
        int64,
        json,
        msgpack,
        murmur2_sticky,
        quota_entity,
        subtract,
        utf8,
        uuid,
    )
    from .clients import ray_data as ray_data
    from .clients import spark as spark
    from .clients.arrow.layout import ARROW_SCHEMA as ARROW_SCHEMA
    from .protocol import errors
    from .protocol.errors import HeadraceError, KafkaError
    from .protocol.model import TopicPartition
    from .services.local_io import LocalCluster, local

_OTHER_HOMES = {
    "HeadraceError": ".protocol.errors",
    "KafkaError": ".protocol.errors",
    "TopicPartition": ".protocol.model",
    "ARROW_SCHEMA": ".clients.arrow.layout",
    "local": ".services.local_io",
    "LocalCluster": ".services.local_io",
}
_MODULES = {
    "aio": ".aio",
    "errors": ".protocol.errors",
    "ray_data": ".clients.ray_data",
    "spark": ".clients.spark",
}

__all__ = [
    "connect", "Cluster", "Producer", "Transaction", "Consumer", "Admin", "aio", "local", "LocalCluster",
    "ProducerRecord", "Record", "RecordMetadata", "OffsetAndTimestamp", "PartitionInfo", "TopicPartition",
    "GroupMetadata", "OffsetAndMetadata", "RebalanceListener", "Assignor", "ConsumerInterceptor",
    "BatchResult", "RecordFuture", "ProducerInterceptor", "murmur2_sticky",
    "NewTopic", "Resource", "Results", "append", "subtract", "EARLIEST", "LATEST", "MAX_TIMESTAMP",
    "ElectionType", "TopicPartitionReplica", "ANY_NAME", "quota_entity",
    "Serde", "ContextSerde", "SerdeContext", "bytes_", "utf8", "int64", "uuid", "json", "msgpack",
    "errors", "HeadraceError", "KafkaError",
]  # fmt: skip
# ARROW_SCHEMA and spark are not among them: they need extras, and `from headrace import *` must work without


def _discover() -> str | None:
    """Clients without a bootstrap address find the clusters that were started here, or run on this Ray."""
    from .services.discovery import discover

    return discover()


register_resolver("the clusters of this machine", _discover)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(_MODULES[name], __name__)
    elif name in __all__ or name in _OTHER_HOMES:
        value = getattr(import_module(_OTHER_HOMES.get(name, ".clients"), __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
