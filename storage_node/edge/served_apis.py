"""The apis that a storage node's own listener serves, and those of them that are forwarded to the controller.
Pure."""

from __future__ import annotations

from ...protocol.messages import registry
from ..embedded.contract import COORDINATOR_APIS

SERVED_APIS = (
    registry.PRODUCE,
    registry.FETCH,
    registry.LIST_OFFSETS,
    registry.DELETE_RECORDS,
    registry.METADATA,
    registry.DESCRIBE_CLUSTER,
    registry.OFFSET_FOR_LEADER_EPOCH,
    registry.DESCRIBE_LOG_DIRS,
    registry.DESCRIBE_REPLICAS,
    registry.ALTER_REPLICA_LOG_DIRS,
    registry.WRITE_TXN_MARKERS,
    registry.DESCRIBE_PRODUCERS,
    registry.COUNT_RECORDS,
    *registry.FORWARDED,
    *COORDINATOR_APIS,
)
FORWARDED_KEYS = frozenset(api.key for api in registry.FORWARDED)
