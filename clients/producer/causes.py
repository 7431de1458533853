"""Why a batch is not acknowledged yet: the text of DeliveryTimeoutError and BufferExhaustedError. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import error_from_code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..cluster.metadata import ClusterView
    from .batches import Batch
    from .effects import SendProduce


def cause_of(
    batch: Batch,
    view: ClusterView,
    in_flight: Iterable[SendProduce],
    metadata_error: BaseException | None,
    *,
    has_identity: bool,
) -> str:
    """The last error of the batch, or the response or metadata that it waits for; and the error of the last
    metadata refresh, if that failed. `has_identity`: the producer has a producer id, or needs none."""
    found = str(batch.last_error) if batch.last_error is not None else ""
    waits_for = _waits_for(batch, view, in_flight, has_identity=has_identity)
    parts = [f"last error: {found}" if found else "", waits_for]
    if metadata_error is not None:
        parts.append(f"the metadata request failed: {metadata_error}")
    return "; ".join(filter(None, parts))


def _waits_for(
    batch: Batch, view: ClusterView, in_flight: Iterable[SendProduce], *, has_identity: bool
) -> str:
    topic, partition = batch.queue.topic.name, batch.queue.partition
    if batch.is_on_wire:
        node_id = next((send.node_id for send in in_flight if batch in send.batches), -1)
        return f"node {node_id} has not responded to the last request"
    if not has_identity:
        return "no node has assigned a producer id"
    if view.leader_of(topic, partition) is None:
        return f"the leader is unknown: {_no_leader(view, topic, partition)}"
    return "" if batch.last_error is not None else _waits_behind(batch, view, in_flight)


def _waits_behind(batch: Batch, view: ClusterView, in_flight: Iterable[SendProduce]) -> str:
    head = next((first for first in batch.queue.batches if first is not batch), None)
    if batch.queue.is_muted or (head is not None and head.attempts):
        return "an earlier batch of the partition is not acknowledged"
    found = view.leader_of(batch.queue.topic.name, batch.queue.partition)
    unanswered = sum(found is not None and send.node_id == found[1] for send in in_flight)
    if unanswered:
        return f"node {found[1]} has not responded to {unanswered} earlier requests" if found else ""
    return "it was not sent yet"


def _no_leader(view: ClusterView, topic: str, partition: int) -> str:
    found = view.topics.get(topic)
    if found is None:
        code = view.missing.get(topic)
        return f"topic {topic!r} is not in the metadata" + (
            f" ({type(error_from_code(code)).__name__})" if code is not None else ""
        )
    if partition >= len(found.partitions):
        return f"the metadata has only {len(found.partitions)} partitions of {topic!r}"
    leader = found.partitions[partition].leader
    if leader < 0:
        return "the metadata names no leader of the partition"
    return f"the metadata does not list its leader, node {leader}"
