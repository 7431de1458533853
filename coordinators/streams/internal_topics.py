"""Creation of the internal topics of topologies. Pure.

The coordinator creates missing topics while members send heartbeats: one request per group at a time, and the
next one RETRY_MS after a failure. Source: Kafka AutoTopicCreationManager.scala createStreamsInternalTopics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.coordinator_errors import CoordinatorNotAvailableError
from ...protocol.errors import KafkaError, TopicAlreadyExistsError
from ...protocol.messages import registry
from ...protocol.messages.control import CreateTopicsRequest, NewTopicSpec
from ...protocol.model import NO_NODE
from ...protocol.security.acls import CLUSTER, AclOperation, Resource, ResourceType
from ...protocol.security.identity import Identity
from ...protocol.security.principals import connection_principal
from ..runtime.ports import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.streams_group_records import TopicInfo
    from ...storage_node.embedded.contract import Now
    from ..group.topic_rights import Client
    from ..runtime.ports import ShardContext

CREATE_TIMEOUT_MS = 30_000
RETRY_MS = 1_000
DEFAULT = -1  # the cluster's replication factor
MAX_FAULT = 1_000  # characters of a status


class InternalTopics:
    """Creates internal topics of the groups of one shard. Bound: an entry per group."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._in_flight: set[str] = set()
        self._faults: dict[str, tuple[str, int]] = {}  # group -> error of the last attempt, next attempt

    def fault_of(self, group_id: str) -> str:
        """The error of the last attempt; empty if it succeeded."""
        return self._faults.get(group_id, ("", 0))[0]

    def create(self, group_id: str, topics: Sequence[TopicInfo], now: Now) -> Outcome:
        """Request the creation of `topics`, unless it is too early."""
        _, not_before_ms = self._faults.get(group_id, ("", now.ms))
        if topics and group_id not in self._in_flight and now.ms >= not_before_ms:
            self._in_flight.add(group_id)
            request = CreateTopicsRequest(tuple(map(_spec, topics)), CREATE_TIMEOUT_MS)
            self._context.ask(
                NO_NODE,
                registry.CREATE_TOPICS,
                request,
                CREATE_TIMEOUT_MS,
                lambda answer, then: self._created(group_id, answer, then),
            )
        return Outcome()

    def _created(self, group_id: str, answer: Any, now: Now) -> Outcome:
        self._in_flight.discard(group_id)
        if isinstance(answer, KafkaError):
            fault = answer.detail or repr(answer)
        else:
            fault = "; ".join(
                f"{topic.name}: {topic.error_detail or topic.error_code}"
                for topic in answer.topics
                if topic.error_code not in (0, TopicAlreadyExistsError.code)
            )
        if fault:
            self._faults[group_id] = (fault[:MAX_FAULT], now.ms + RETRY_MS)
        else:
            self.forget(group_id)
        return Outcome()

    def refused(self, topics: Sequence[TopicInfo], client: Client | None) -> tuple[str, ...]:
        """Those of `topics` that the client may not create; without a client none.

        Errors: CoordinatorNotAvailableError while the rules of this node are not loaded or too old.
        """
        authorizer = self._context.authorizer
        if authorizer is None or client is None or not topics:
            return ()
        if not authorizer.is_ready:
            raise CoordinatorNotAvailableError("this node does not have the present rules")
        identity = Identity(connection_principal(client[0]), client[1])
        if authorizer.allows(identity, AclOperation.CREATE, CLUSTER):
            return ()
        return tuple(
            topic.name
            for topic in topics
            if not authorizer.allows(identity, AclOperation.CREATE, Resource(ResourceType.TOPIC, topic.name))
        )

    def forget(self, group_id: str) -> None:
        """Drop the error of the last attempt."""
        self._faults.pop(group_id, None)


def _spec(topic: TopicInfo) -> NewTopicSpec:
    return NewTopicSpec(
        topic.name, topic.partitions, topic.replication_factor or DEFAULT, (), dict(topic.topic_configs)
    )
