"""Builds the coordinators of a storage node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from ..protocol.records.coordinator_records import decode_record, encode_record
from .group.shard import GroupShard
from .runtime.coordinators import Coordinators
from .runtime.hosted_shard import RecordCodec
from .txn.shard import TransactionShard

if TYPE_CHECKING:
    from ..storage_node.embedded.contract import CoordinatorHost

CODEC = RecordCodec(encode_record, decode_record)


def new_coordinators(host: CoordinatorHost, now_ms: int) -> Coordinators:
    """The group and transaction coordinators of one node; a CoordinatorFactory."""
    return Coordinators(
        host, {CONSUMER_OFFSETS: GroupShard, TRANSACTION_STATE: TransactionShard}, CODEC, now_ms
    )
