"""headrace: a partitioned, replicated commit log inside a Ray cluster.

Synchronous clients are here, asyncio clients in `headrace.aio`. Names are imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .protocol.records.environment_io import codec_choice
from .runtime.compiled_io import prefer_compiled

prefer_compiled(codec_choice())  # Order: before the compiled modules are imported

from .clients.bootstrap import register_resolver  # noqa: E402 -- as above
from .runtime.lazy_names import lazy_names  # noqa: E402 -- as above
from .stream.ray.finders import FoundRay, register_ray_finder  # noqa: E402 -- as above

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
        TraceIds,
        Transaction,
        append,
        bytes_,
        connect,
        int64,
        murmur2_sticky,
        quota_entity,
        subtract,
        utf8,
    )
    from .clients import json as json
    from .clients import msgpack as msgpack
    from .clients import ray_data as ray_data
    from .clients import security as security
    from .clients import spark as spark
    from .clients import uuid as uuid
    from .clients.arrow.layout import ARROW_SCHEMA as ARROW_SCHEMA
    from .clients.otel_metrics_io import export_metrics as export_metrics
    from .clients.pipeline.measures_io import pipelines as pipelines
    from .protocol import errors
    from .protocol.errors import HeadraceError, KafkaError
    from .protocol.model import TopicPartition
    from .services.local_io import LocalCluster, local
    from .services.local_security import Security
    from .services.telemetry.application_io import start_telemetry as start_telemetry

_OTHER_HOMES = {
    # Not in __all__: `from headrace import *` must not hide modules of these names.
    **dict.fromkeys(("json", "msgpack", "uuid"), ".clients"),
    "HeadraceError": ".protocol.errors",
    "KafkaError": ".protocol.errors",
    "TopicPartition": ".protocol.model",
    "ARROW_SCHEMA": ".clients.arrow.layout",
    "export_metrics": ".clients.otel_metrics_io",
    "pipelines": ".clients.pipeline.measures_io",
    "start_telemetry": ".services.telemetry.application_io",
    "local": ".services.local_io",
    "LocalCluster": ".services.local_io",
    "Security": ".services.local_security",
}
_MODULES = {
    "aio": ".aio",
    "errors": ".protocol.errors",
    "ray_data": ".clients.ray_data",
    "security": ".clients.security",
    "spark": ".clients.spark",
}

__all__ = [
    "connect", "Cluster", "Producer", "Transaction", "Consumer", "Admin", "aio", "local", "LocalCluster",
    "Security", "ProducerRecord", "Record", "RecordMetadata", "OffsetAndTimestamp", "PartitionInfo",
    "TopicPartition",
    "GroupMetadata", "OffsetAndMetadata", "RebalanceListener", "Assignor", "ConsumerInterceptor",
    "BatchResult", "RecordFuture", "ProducerInterceptor", "murmur2_sticky",
    "NewTopic", "Resource", "Results", "append", "subtract", "EARLIEST", "LATEST", "MAX_TIMESTAMP",
    "ElectionType", "TopicPartitionReplica", "ANY_NAME", "quota_entity", "TraceIds",
    "Serde", "ContextSerde", "SerdeContext", "bytes_", "utf8", "int64",
    "errors", "HeadraceError", "KafkaError",
]  # fmt: skip
# ARROW_SCHEMA and spark are not listed: they need extras, and `from headrace import *` must work without


def _discover() -> str | None:
    """Bootstrap addresses for clients without any: clusters that were started from this machine, or run on
    this Ray."""
    from .services.discovery import discover

    return discover()


def _discover_ray() -> FoundRay | None:
    """The Ray of a cluster that was started from this machine, for workers of applications."""
    from .services.discovery import ray_of_cluster

    return ray_of_cluster()


register_resolver("the clusters of this machine", _discover)
register_ray_finder("the clusters of this machine", _discover_ray)

__getattr__, __dir__ = lazy_names(
    __name__, {**dict.fromkeys(__all__, ".clients"), **_OTHER_HOMES}, modules=_MODULES
)
