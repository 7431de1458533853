"""FindCoordinator: the leader of an id's partition; creates the internal topic on first use.

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
    from ...storage_node.embedded.contract import CoordinatorHost

_TOPICS = {GROUP_KEY: CONSUMER_OFFSETS, TRANSACTION_KEY: TRANSACTION_STATE}
CREATE_TIMEOUT_MS = 30_000


class CoordinatorFinder:
    """FindCoordinator of one node.

    Bound: one CreateTopics request per internal topic is in flight.
    """

    def __init__(self, host: CoordinatorHost) -> None:
        self._host = host
        self._making: set[str] = set()
        self._faults: dict[str, str] = {}  # topic -> error of the last attempt

    def answer(self, body: FindCoordinatorRequest, max_keys: int) -> FindCoordinatorResponse:
        """A coordinator or an error for each key. Errors: InvalidRequestError for the whole request."""
        topic = _TOPICS.get(body.key_type)
        if topic is None:
            raise InvalidRequestError(
                f"key type {body.key_type} is unknown: use 0 (group) or 1 (transaction)"
            )
        if len(body.keys) > max_keys:
            raise InvalidRequestError(
                f"the request has {len(body.keys)} keys, at most {max_keys} are allowed"
            )
        return FindCoordinatorResponse(tuple(self._create_group(topic, key) for key in body.keys))

    def _create_group(self, topic: str, key: str) -> Coordinator:
        try:
            check_key(topic, key, may_be_empty=topic == CONSUMER_OFFSETS)
            return self._coordinator(topic, key)
        except KafkaError as error:
            return Coordinator(error.code, key[:100], error_detail=error.detail)

    def _coordinator(self, topic: str, key: str) -> Coordinator:
        """Errors: CoordinatorNotAvailableError, which is retriable."""
        image = self._host.image
        found = image.topics.get(topic)
        if found is None:
            self._make(topic)
            fault = self._faults.get(topic)
            raise CoordinatorNotAvailableError(
                f"creating {topic} failed: {fault}" if fault else f"{topic} is being created: retry"
            )
        partition = partition_of_id(key, len(found.partitions))
        leader = found.partitions[partition].leader
        broker = image.brokers.get(leader)
        if broker is None or broker.is_fenced:
            raise CoordinatorNotAvailableError(f"{topic}-{partition} has no leader: retry")
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
            lambda outcome, _now: self._made(topic, outcome),
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
            self._host.note(
                logging.WARNING, f"creating internal topic {topic} failed, it is retried: {fault}"
            )
        self._faults[topic] = fault


def new_topic(topic: str, config: CoordinatorConfig) -> NewTopicSpec:
    """The CreateTopics entry of an internal topic."""
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
