"""Blocks of producer ids for storage nodes. Pure. Source: Kafka ProducerIdControlManager.java; KIP-730."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import UnknownServerError
from ...protocol.messages.transactions import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ...protocol.metadata.records import ProducerIdsRecord
from .cluster_state import check_broker_epoch
from .decision import Decision

if TYPE_CHECKING:
    from ...protocol.metadata.image import MetadataImage

BLOCK_IDS = 1_000
_MOST = 2**63 - 1


def decide_allocate(image: MetadataImage, request: AllocateProducerIdsRequest) -> Decision:
    """The next block for a node. A repeated request gets another one.

    Errors: StaleBrokerEpochError for a process that was replaced, UnknownServerError when the ids are
    exhausted.
    """
    check_broker_epoch(image, request.node_id, request.broker_epoch)
    start = image.next_producer_id
    if start > _MOST - BLOCK_IDS:
        raise UnknownServerError("all producer ids are allocated")
    record = ProducerIdsRecord(request.node_id, request.broker_epoch, start + BLOCK_IDS)
    return Decision((record,), AllocateProducerIdsResponse(0, start, BLOCK_IDS))
