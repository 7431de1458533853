"""Producer, consumer and admin clients, synchronous and asyncio.

Names are imported at their first use, so that `import headrace` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from ..runtime.tracing.log_ids import TraceIds
    from .admin.admin_types import (
        ANY_NAME,
        EARLIEST,
        LATEST,
        MAX_TIMESTAMP,
        ElectionType,
        NewTopic,
        Resource,
        Results,
        TopicPartitionReplica,
        append,
        subtract,
    )
    from .admin.quotas_io import quota_entity
    from .consumer.interceptors import ConsumerInterceptor
    from .group.assignors import Assignor
    from .group.group_metadata import GroupMetadata, OffsetAndMetadata
    from .group.listeners import RebalanceListener
    from .producer.delivery_io import BatchResult, RecordFuture
    from .producer.partitioner import murmur2_sticky
    from .producer.record_preparer_io import ProducerInterceptor
    from .records import OffsetAndTimestamp, PartitionInfo, ProducerRecord, Record, RecordMetadata
    from .serdes import ContextSerde, Serde, SerdeContext, bytes_, int64, json, msgpack, utf8, uuid
    from .sync.admin_io import Admin
    from .sync.cluster_io import Cluster, connect
    from .sync.consumer_io import Consumer
    from .sync.producer_io import Producer
    from .sync.transaction_io import Transaction

_HOMES = {
    ".sync.cluster_io": ("connect", "Cluster"),
    ".sync.producer_io": ("Producer",),
    ".sync.transaction_io": ("Transaction",),
    ".sync.consumer_io": ("Consumer",),
    ".sync.admin_io": ("Admin",),
    ".records": ("ProducerRecord", "Record", "RecordMetadata", "OffsetAndTimestamp", "PartitionInfo"),
    ".group.group_metadata": ("GroupMetadata", "OffsetAndMetadata"),
    ".group.listeners": ("RebalanceListener",),
    ".group.assignors": ("Assignor",),
    ".consumer.interceptors": ("ConsumerInterceptor",),
    ".producer.delivery_io": ("BatchResult", "RecordFuture"),
    ".producer.record_preparer_io": ("ProducerInterceptor",),
    ".producer.partitioner": ("murmur2_sticky",),
    ".admin.admin_types": (
        "NewTopic", "Resource", "Results", "append", "subtract", "EARLIEST", "LATEST", "MAX_TIMESTAMP",
        "ElectionType", "TopicPartitionReplica", "ANY_NAME",
    ),
    ".admin.quotas_io": ("quota_entity",),
    "..runtime.tracing.log_ids": ("TraceIds",),
    ".serdes": (
        "Serde", "ContextSerde", "SerdeContext", "bytes_", "utf8", "int64", "uuid", "json", "msgpack",
    ),
}  # fmt: skip

__all__ = [
    "connect", "Cluster", "Producer", "Transaction", "Consumer", "Admin",
    "ProducerRecord", "Record", "RecordMetadata", "OffsetAndTimestamp", "PartitionInfo",
    "GroupMetadata", "OffsetAndMetadata", "RebalanceListener", "Assignor", "ConsumerInterceptor",
    "BatchResult", "RecordFuture", "ProducerInterceptor", "murmur2_sticky",
    "NewTopic", "Resource", "Results", "append", "subtract", "EARLIEST", "LATEST", "MAX_TIMESTAMP",
    "ElectionType", "TopicPartitionReplica", "ANY_NAME", "quota_entity", "TraceIds",
    "Serde", "ContextSerde", "SerdeContext", "bytes_", "utf8", "int64", "uuid", "json", "msgpack",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names})
