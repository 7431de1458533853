"""Writes decisions of the authorizer to the topic `__headrace_audit`. Pure.

The data path only records into a bounded buffer. At each step the oldest events become one batch, which is
sent to the leader of a partition of the topic with acks=all; one request is in flight at a time. The topic is
created for the first event. Events that cannot be written are counted, and the next written event has their
number. Records are JSON with the principal as key, so that the events of a principal are in
order.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import KafkaError, TopicAlreadyExistsError
from ...protocol.messages import registry
from ...protocol.messages.control import CreateTopicsRequest, NewTopicSpec
from ...protocol.messages.data import ProducePartition, ProduceRequest
from ...protocol.model import AUDIT_TOPIC, NO_NODE
from ...protocol.records.codec import active_codec
from ..effects import AskPeer, Note
from .audit_buffer import AuditBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.metadata.image import MetadataImage, TopicImage
    from ..configs.audit_config import AuditConfig
    from ..effects import Effect
    from .audit_buffer import AuditEvent, Decision

ACKS_ALL = -1
REQUEST_TIMEOUT_MS = 10_000
RETRY_MS = 5_000
# Bound: events of one batch, with 1,000 to 4,000 bytes of names at most each.
MAX_BATCH_EVENTS, MAX_BATCH_BYTES = 2_000, 900_000


class AuditWriter:
    """The audit log of one node. `image`: the node's metadata; `emit` takes an effect for the shell."""

    def __init__(
        self,
        config: Callable[[], AuditConfig],
        image: Callable[[], MetadataImage],
        emit: Callable[[Effect], None],
    ) -> None:
        self._config, self._image, self._emit = config, image, emit
        self._buffer = AuditBuffer(config().audit_buffer_max_events)
        self._is_in_flight = False
        self._not_before_ms = 0
        self.written_total = 0

    def record(self, decision: Decision, wall_ms: int) -> None:
        """Record a denial, or an allowed operation of `audit.allowed.operations`. Never fails or waits."""
        config = self._config()
        if config.audit_enable and (
            not decision.allowed or decision.operation.name in config.audit_allowed_operations
        ):
            self._buffer.record(decision, wall_ms)

    @property
    def missing_total(self) -> int:
        """Decisions that were not written, since the start."""
        return self._buffer.missing_total

    def step(self, node_id: int, now_ms: int) -> None:
        """Send the oldest events; called about each second."""
        if self._is_in_flight or not len(self._buffer) or now_ms < self._not_before_ms:
            return
        image = self._image()
        topic = image.topics.get(AUDIT_TOPIC)
        if topic is None:
            self._create_topic()
            return
        found = _leader_of(image, topic, node_id)
        if found is not None:
            self._send(topic.topic_id, *found, self._buffer.take(node_id, MAX_BATCH_EVENTS))

    # --- requests ----------------------------------------------------------------------------------------

    def _create_topic(self) -> None:
        config = self._config()
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": str(config.audit_topic_retention_ms),
            "compression.type": "zstd",
        }
        topic = NewTopicSpec(AUDIT_TOPIC, 1, config.audit_topic_replication_factor, (), configs)
        request = CreateTopicsRequest((topic,), REQUEST_TIMEOUT_MS)
        self._ask(NO_NODE, registry.CREATE_TOPICS, request, self._created)

    def _created(self, outcome: Any, now_ms: int) -> None:
        fault: KafkaError | str | None
        if isinstance(outcome, KafkaError):
            fault = outcome
        else:
            (created,) = outcome.topics
            is_there = created.error_code in (0, TopicAlreadyExistsError.code)
            fault = None if is_there else created.error_detail or f"error {created.error_code}"
        if fault is not None:
            self._failed(f"creating {AUDIT_TOPIC} failed, will retry: {fault}", now_ms)

    def _send(self, topic_id: bytes, partition: int, leader: int, events: list[AuditEvent]) -> None:
        builder = active_codec().builder(max_bytes=MAX_BATCH_BYTES)
        for event in events:
            value = msgspec.json.encode(event)
            if builder.append(event.time_ms, event.principal.encode(), value) < 0:
                break
        unsent = len(events) - builder.count
        request = ProduceRequest(ACKS_ALL, REQUEST_TIMEOUT_MS, (ProducePartition(topic_id, partition),))
        if unsent:
            self._buffer.give_back(sum(event.count for event in events[-unsent:]))
        sent = sum(event.count for event in events[: builder.count])

        def answered(outcome: Any, now_ms: int) -> None:
            if isinstance(outcome, KafkaError):
                fault: KafkaError | str | None = outcome
            else:
                (result,) = outcome.partitions
                fault = (result.error_detail or f"error {result.error_code}") if result.error_code else None
            if fault is None:
                self.written_total += sent
            else:
                self._buffer.give_back(sent)
                self._failed(f"{sent} decisions could not be written to {AUDIT_TOPIC}: {fault}", now_ms)

        self._ask(leader, registry.PRODUCE, request, answered, (builder.finish(),))

    def _ask(
        self,
        node_id: int,
        api: Any,
        request: Any,
        answered: Callable[[Any, int], None],
        frames: tuple[Any, ...] = (),
    ) -> None:
        self._is_in_flight = True

        def settle(outcome: Any, now_ms: int, _wall_ms: int) -> None:
            self._is_in_flight = False
            answered(outcome, now_ms)

        self._emit(AskPeer(node_id, api, request, REQUEST_TIMEOUT_MS, settle, frames))

    def _failed(self, text: str, now_ms: int) -> None:
        self._not_before_ms = now_ms + RETRY_MS
        self._emit(Note(logging.WARNING, text))


def _leader_of(image: MetadataImage, topic: TopicImage, node_id: int) -> tuple[int, int] | None:
    """A partition with a live leader, and that leader; each node starts at another partition."""
    count = len(topic.partitions)
    for offset in range(count):
        partition = (node_id + offset) % count
        leader = topic.partitions[partition].leader
        broker = image.brokers.get(leader)
        if broker is not None and not broker.is_fenced:
            return partition, leader
    return None
