"""What a produce request is made of: its body, and a frame per batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.data import ProducePartition, ProduceRequest
from ...protocol.records.header import restamped_batch
from ..cluster.silence import Stake

if TYPE_CHECKING:
    from ...protocol.records.header import Buffer
    from .batches import Batch
    from .effects import SendProduce


def request_of(
    send: SendProduce, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> ProduceRequest:
    """The body of the request."""
    partitions = tuple(
        ProducePartition(target.topic_id, target.partition, target.leader_epoch) for target in send.targets
    )
    return ProduceRequest(acks, timeout_ms, partitions, transactional_id)


def stakes_of(send: SendProduce) -> list[Stake]:
    """What it is about, for who watches whether its answer can still come."""
    return [
        Stake(batch.queue.topic.name, *target)
        for batch, target in zip(send.batches, send.targets, strict=True)
    ]


def frames_of(send: SendProduce) -> list[Buffer]:
    """The frames beside it: the finished bytes of each batch."""
    return [_data_of(batch) for batch in send.batches]


def _data_of(batch: Batch) -> Buffer:
    """Built (and compressed) before its first attempt; a copy where its number has changed since.

    Order: never written in place: the bytes of an earlier attempt may still be on their way (KAFKA-19012).
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
