"""Produce requests: the body, and a frame for each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.data import ProducePartition, ProduceRequest
from ...protocol.records.header import restamped_batch
from ..cluster.silence import ExpectedLeader

if TYPE_CHECKING:
    from ...protocol.records.header import Buffer
    from .batches import Batch
    from .effects import SendProduce


def request_of(
    send: SendProduce, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> ProduceRequest:
    """The ProduceRequest without its batches."""
    partitions = tuple(
        ProducePartition(target.topic_id, target.partition, target.leader_epoch, batch.delivery.traceparents)
        for target, batch in zip(send.targets, send.batches, strict=True)
    )
    return ProduceRequest(acks, timeout_ms, partitions, transactional_id)


def leaders_of(send: SendProduce) -> list[ExpectedLeader]:
    """The leaderships on which the response depends; see `silence.py`."""
    return [
        ExpectedLeader(batch.queue.topic.name, *target)
        for batch, target in zip(send.batches, send.targets, strict=True)
    ]


def frames_of(send: SendProduce) -> list[Buffer]:
    """The finished bytes of each batch."""
    return [_data_of(batch) for batch in send.batches]


def _data_of(batch: Batch) -> Buffer:
    """Build (and compress) the batch before its first attempt; copy it when its sequence has changed.

    Order: never write in place: the bytes of an earlier attempt may still be in a socket (KAFKA-19012).
    """
    stamp = batch.stamp
    if batch.data is None:
        assert batch.builder is not None
        if stamp is not None:
            batch.builder.stamp(*stamp)
        batch.data, batch.builder = batch.builder.finish(), None
    elif stamp is not None and stamp != batch.stamped_as:
        batch.data = restamped_batch(batch.data, stamp.producer_id, stamp.epoch, stamp.base_sequence)
    batch.stamped_as = stamp
    return batch.data
