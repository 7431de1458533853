"""FindCoordinator: who leads the partition of an id, and the internal topics, made when first wanted.

Pure. Source: Kafka KafkaApis.handleFindCoordinatorRequest, AutoTopicCreationManager.scala.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...protocol.coordinator_ids import partition_of_id
from ...protocol.errors import (
    CoordinatorNotAvailableError,
    InvalidRequestError,
    KafkaError,
    TopicAlreadyExistsError,
)
from ...protocol.messages import registry
from ...protocol.messages.control import CreateTopicsRequest, NewTopicSpec
from ...protocol.messages.groups import (
    GROUP_KEY,
    TRANSACTION_KEY,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ...protocol.model import CONSUMER_OFFSETS, NO_NODE, TRANSACTION_STATE
from .routing import check_key

if TYPE_CHECKING:
    from ...storage_node.configs.coordinator_config import CoordinatorConfig
    from ...storage_node.embedded.contract import GuestHost

_TOPICS = {GROUP_KEY: CONSUMER_OFFSETS, TRANSACTION_KEY: TRANSACTION_STATE}
CREATE_TIMEOUT_MS = 30_000


class Finder:
    """Answers for one node.

    Bound: one attempt to make a topic is under way at a time.
    """

    def __init__(self, host: GuestHost) -> None:
        self._host = host
        self._making: set[str] = set()
        self._faults: dict[str, str] = {}  # of the last attempts

    def answer(self, body: FindCoordinatorRequest, max_keys: int) -> FindCoordinatorResponse:
        """Key by key. Errors: InvalidRequestError for the whole request."""
        topic = _TOPICS.get(body.key_type)
        if topic is None:
            raise InvalidRequestError(f"key type {body.key_type}, only 0 (groups) and 1 (transactions) exist")
        if len(body.keys) > max_keys:
            raise InvalidRequestError(f"{len(body.keys)} keys, at most {max_keys} are allowed")
        return FindCoordinatorResponse(tuple(self._found(topic, key) for key in body.keys))

    def _found(self, topic: str, key: str) -> Coordinator:
        try:
            check_key(topic, key, may_be_empty=topic == CONSUMER_OFFSETS)
            return self._coordinator(topic, key)
        except KafkaError as error:
            return Coordinator(error.code, key[:100], error_detail=error.detail)

    def _coordinator(self, topic: str, key: str) -> Coordinator:
        """Errors: CoordinatorNotAvailableError, after which it is worth to ask again."""
        image = self._host.image
        found = image.topics.get(topic)
        if found is None:
            self._make(topic)
            fault = self._faults.get(topic)
            raise CoordinatorNotAvailableError(
                f"{topic} cannot be made: {fault}" if fault else f"{topic} is being made"
            )
        partition = partition_of_id(key, len(found.partitions))
        leader = found.partitions[partition].leader
        broker = image.brokers.get(leader)
        if broker is None or broker.is_fenced:
            raise CoordinatorNotAvailableError(f"nobody leads {topic}-{partition} now")
        return Coordinator(0, key, broker.node_id, broker.host, broker.port)

    def _make(self, topic: str) -> None:
        if topic in self._making or not self._host.is_caught_up:
            return
        self._making.add(topic)
        request = CreateTopicsRequest((new_topic(topic, self._host.config.now),), CREATE_TIMEOUT_MS)
        self._host.ask(
            NO_NODE,
            registry.CREATE_TOPICS,
            request,
            CREATE_TIMEOUT_MS,
            lambda outcome: self._made(topic, outcome),
        )

    def _made(self, topic: str, outcome: Any) -> None:
        self._making.discard(topic)
        if isinstance(outcome, KafkaError):
            fault = outcome.detail or repr(outcome)
        else:
            (created,) = outcome.topics
            is_there = created.error_code in (0, TopicAlreadyExistsError.code)
            fault = "" if is_there else created.error_detail or f"error {created.error_code}"
        if fault and self._faults.get(topic) != fault:
            self._host.note(logging.WARNING, f"{topic} cannot be made: {fault}")
        self._faults[topic] = fault


def new_topic(topic: str, config: CoordinatorConfig) -> NewTopicSpec:
    """How an internal topic is made."""
    configs = {"cleanup.policy": "compact", "compression.type": "producer"}
    if topic == CONSUMER_OFFSETS:
        configs["segment.bytes"] = str(config.offsets_topic_segment_bytes)
        partitions = config.offsets_topic_num_partitions
        return NewTopicSpec(topic, partitions, config.offsets_topic_replication_factor, (), configs)
    configs["segment.bytes"] = str(config.transaction_state_log_segment_bytes)
    configs["min.insync.replicas"] = str(config.transaction_state_log_min_isr)
    configs["unclean.leader.election.enable"] = "false"
    partitions = config.transaction_state_log_num_partitions
    return NewTopicSpec(topic, partitions, config.transaction_state_log_replication_factor, (), configs)
