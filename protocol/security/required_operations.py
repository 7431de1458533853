"""The operations and resources that each api requires: one table for both planes. Pure.

Enforcement (runtime/authorization), docs/AUTHORIZATION.md and the tests are made from it. Source: Kafka
KafkaApis.scala, ControllerApis.scala, AclApis.scala; docs/security.html, "Operations and resources on
protocols".
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ..messages import registry
from .acls import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..messages.envelope import Api

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
)
_CLUSTER_ACTION = AclOperation.CLUSTER_ACTION
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID


class Scope(Enum):
    """What is rejected if the operation is not allowed."""

    REQUEST = "the request"
    EACH = "that resource only"
    SHOWN = "nothing: the response omits it"
    CREATED = "its creation: the status of the group names it"  # checked by the coordinator


class Right(NamedTuple):
    """An operation on resources of one type."""

    operation: AclOperation
    resource_type: ResourceType


class Need(NamedTuple):
    """A required right, or `alternative` in its place. `when`: the requests to which it applies."""

    right: Right
    scope: Scope
    when: str = ""
    alternative: Right | None = None


class Required(NamedTuple):
    """All rights that an api requires; without any, every client may send it. `note` is for the docs."""

    name: str
    needs: tuple[Need, ...] = ()
    note: str = ""


def _whole(operation: AclOperation, kind: ResourceType, when: str = "", or_: Right | None = None) -> Need:
    return Need(Right(operation, kind), Scope.REQUEST, when, or_)


def _each(operation: AclOperation, kind: ResourceType, when: str = "", or_: Right | None = None) -> Need:
    return Need(Right(operation, kind), Scope.EACH, when, or_)


def _shown(operation: AclOperation, kind: ResourceType, when: str = "", or_: Right | None = None) -> Need:
    return Need(Right(operation, kind), Scope.SHOWN, when, or_)


_READS_GROUP = (_whole(_READ, _GROUP),)
_WRITES_TRANSACTION = _whole(_WRITE, _TRANSACTIONAL_ID)
_DESCRIBES_CLUSTER = (_whole(_DESCRIBE, _CLUSTER),)
_ALTERS_CLUSTER = (_whole(_ALTER, _CLUSTER),)
_OF_SERVERS = (_whole(_CLUSTER_ACTION, _CLUSTER),)
_OR_CREATE_CLUSTER = Right(_CREATE, _CLUSTER)
_MEMBERS_TOPICS = "of the members; without it the group has an error in the place of its members"


def _configs(operation: AclOperation) -> tuple[Need, ...]:
    """One of them for each resource, by its type."""
    return (
        _each(operation, _TOPIC, "for a topic"),
        _each(operation, _GROUP, "for a group"),
        _each(operation, _CLUSTER, "for a node, its loggers, or a client metrics subscription"),
    )


_OF_HEADRACE: dict[Api, tuple[tuple[Need, ...], str]] = {
    registry.PRODUCE: (
        (_whole(_WRITE, _TRANSACTIONAL_ID, "with a transactional id"), _each(_WRITE, _TOPIC)),
        "",
    ),
    registry.FETCH: (
        (_whole(_CLUSTER_ACTION, _CLUSTER, "by a follower"), _each(_READ, _TOPIC, "by a client")),
        "",
    ),
    registry.LIST_OFFSETS: ((_each(_DESCRIBE, _TOPIC),), ""),
    registry.METADATA: (
        (_each(_DESCRIBE, _TOPIC, "named"), _shown(_DESCRIBE, _TOPIC, "if all are requested")),
        "Kafka clients whose request creates a missing topic need CreateTopics, too.",
    ),
    registry.OFFSET_COMMIT: ((*_READS_GROUP, _each(_READ, _TOPIC)), ""),
    registry.OFFSET_FETCH: (
        (
            _each(_DESCRIBE, _GROUP),
            _each(_DESCRIBE, _TOPIC, "named"),
            _shown(_DESCRIBE, _TOPIC, "if all are requested"),
        ),
        "",
    ),
    registry.FIND_COORDINATOR: (
        (_each(_DESCRIBE, _GROUP, "of a group"), _each(_DESCRIBE, _TRANSACTIONAL_ID, "of a transaction")),
        "",
    ),
    registry.JOIN_GROUP: (_READS_GROUP, ""),
    registry.HEARTBEAT: (_READS_GROUP, ""),
    registry.LEAVE_GROUP: (_READS_GROUP, ""),
    registry.SYNC_GROUP: (_READS_GROUP, ""),
    registry.DESCRIBE_GROUPS: ((_each(_DESCRIBE, _GROUP),), ""),
    registry.LIST_GROUPS: ((_shown(_DESCRIBE, _GROUP, "", Right(_DESCRIBE, _CLUSTER)),), ""),
    registry.API_VERSIONS: ((), "Served before authentication."),
    registry.CREATE_TOPICS: (
        (_each(_CREATE, _TOPIC, "", _OR_CREATE_CLUSTER),),
        "The configs in a response to a Kafka client need DescribeConfigs. Namespaces around a topic need"
        " room for it.",
    ),
    registry.DELETE_TOPICS: (
        (_each(_DELETE, _TOPIC),),
        "The response has the name of a topic that is deleted by its id if the client may describe it.",
    ),
    registry.DELETE_RECORDS: ((_each(_DELETE, _TOPIC),), ""),
    registry.INIT_PRODUCER_ID: (
        (
            _whole(_WRITE, _TRANSACTIONAL_ID, "with a transactional id"),
            _whole(
                AclOperation.IDEMPOTENT_WRITE, _CLUSTER, "without a transactional id", Right(_WRITE, _TOPIC)
            ),
        ),
        "WRITE on any topic is enough for an idempotent producer (KIP-679).",
    ),
    registry.OFFSET_FOR_LEADER_EPOCH: (
        (_each(_DESCRIBE, _TOPIC, "", Right(_CLUSTER_ACTION, _CLUSTER)),),
        "",
    ),
    registry.ADD_PARTITIONS_TO_TXN: (
        (_each(_WRITE, _TRANSACTIONAL_ID), _each(_WRITE, _TOPIC)),
        "Without one of the topics no partition of the transaction is added.",
    ),
    registry.ADD_OFFSETS_TO_TXN: ((_WRITES_TRANSACTION, *_READS_GROUP), ""),
    registry.END_TXN: ((_WRITES_TRANSACTION,), ""),
    registry.WRITE_TXN_MARKERS: (
        (_whole(_ALTER, _CLUSTER, "", Right(_CLUSTER_ACTION, _CLUSTER)),),
        "",
    ),
    registry.TXN_OFFSET_COMMIT: ((_WRITES_TRANSACTION, *_READS_GROUP, _each(_READ, _TOPIC)), ""),
    registry.DESCRIBE_CONFIGS: (_configs(AclOperation.DESCRIBE_CONFIGS), ""),
    registry.ALTER_REPLICA_LOG_DIRS: (_ALTERS_CLUSTER, ""),
    registry.DESCRIBE_LOG_DIRS: (_DESCRIBES_CLUSTER, ""),
    registry.CREATE_PARTITIONS: ((_each(_ALTER, _TOPIC),), ""),
    registry.DELETE_GROUPS: ((_each(_DELETE, _GROUP),), ""),
    registry.ELECT_LEADERS: (_ALTERS_CLUSTER, ""),
    registry.INCREMENTAL_ALTER_CONFIGS: (_configs(AclOperation.ALTER_CONFIGS), ""),
    registry.ALTER_PARTITION_REASSIGNMENTS: (_ALTERS_CLUSTER, ""),
    registry.LIST_PARTITION_REASSIGNMENTS: (_DESCRIBES_CLUSTER, ""),
    registry.OFFSET_DELETE: ((_whole(_DELETE, _GROUP), _each(_READ, _TOPIC)), ""),
    registry.DESCRIBE_CLIENT_QUOTAS: ((_whole(AclOperation.DESCRIBE_CONFIGS, _CLUSTER),), ""),
    registry.ALTER_CLIENT_QUOTAS: ((_whole(AclOperation.ALTER_CONFIGS, _CLUSTER),), ""),
    registry.VOTE: (_OF_SERVERS, ""),
    registry.BEGIN_QUORUM_EPOCH: (_OF_SERVERS, ""),
    registry.END_QUORUM_EPOCH: (_OF_SERVERS, ""),
    registry.DESCRIBE_QUORUM: (_DESCRIBES_CLUSTER, ""),
    registry.ALTER_PARTITION: (_OF_SERVERS, ""),
    registry.UPDATE_FEATURES: (_ALTERS_CLUSTER, ""),
    registry.FETCH_SNAPSHOT: (_OF_SERVERS, ""),
    registry.DESCRIBE_CLUSTER: ((), "The operations allowed on the cluster are shown with DESCRIBE on it."),
    registry.DESCRIBE_PRODUCERS: ((_each(_READ, _TOPIC),), ""),
    registry.BROKER_REGISTRATION: (_OF_SERVERS, ""),
    registry.BROKER_HEARTBEAT: (_OF_SERVERS, ""),
    registry.UNREGISTER_BROKER: (_ALTERS_CLUSTER, ""),
    registry.DESCRIBE_TRANSACTIONS: (
        (_each(_DESCRIBE, _TRANSACTIONAL_ID), _shown(_DESCRIBE, _TOPIC, "of the transaction")),
        "",
    ),
    registry.LIST_TRANSACTIONS: ((_shown(_DESCRIBE, _TRANSACTIONAL_ID),), ""),
    registry.ALLOCATE_PRODUCER_IDS: (_OF_SERVERS, ""),
    registry.CONSUMER_GROUP_HEARTBEAT: (
        (
            *_READS_GROUP,
            _whole(_DESCRIBE, _TOPIC, "subscribed by name"),
            _shown(_DESCRIBE, _TOPIC, "matched by an expression"),
        ),
        "An expression matches topics that the member may describe whose heartbeat matches it: in Kafka those"
        " of all members, here its own. Members that share an expression should have the same rights.",
    ),
    registry.CONSUMER_GROUP_DESCRIBE: (
        (_each(_DESCRIBE, _GROUP), _each(_DESCRIBE, _TOPIC, _MEMBERS_TOPICS)),
        "",
    ),
    registry.LIST_CONFIG_RESOURCES: ((_whole(AclOperation.DESCRIBE_CONFIGS, _CLUSTER),), ""),
    registry.ADD_RAFT_VOTER: (_ALTERS_CLUSTER, ""),
    registry.REMOVE_RAFT_VOTER: (_ALTERS_CLUSTER, ""),
    registry.UPDATE_RAFT_VOTER: (_OF_SERVERS, ""),
    registry.STREAMS_GROUP_HEARTBEAT: (
        (
            *_READS_GROUP,
            _whole(_DESCRIBE, _TOPIC, "of the topology, internal ones included"),
            Need(Right(_CREATE, _TOPIC), Scope.CREATED, "internal, and not created yet", _OR_CREATE_CLUSTER),
        ),
        "A member that may not create one of the missing internal topics joins; none is created for it. An"
        " expression of the topology matches topics that all members may describe: members should have the"
        " same rights.",
    ),
    registry.STREAMS_GROUP_DESCRIBE: (
        (_each(_DESCRIBE, _GROUP), _each(_DESCRIBE, _TOPIC, _MEMBERS_TOPICS)),
        "",
    ),
    registry.DESCRIBE_ACLS: (_DESCRIBES_CLUSTER, ""),
    registry.CREATE_ACLS: (_ALTERS_CLUSTER, ""),
    registry.DELETE_ACLS: (_ALTERS_CLUSTER, ""),
    registry.CREATE_DELEGATION_TOKEN: (
        (_whole(AclOperation.CREATE_TOKENS, ResourceType.USER, "for another owner"),),
        "",
    ),
    registry.RENEW_DELEGATION_TOKEN: ((), "For its owner and its renewers."),
    registry.EXPIRE_DELEGATION_TOKEN: ((), "For its owner and its renewers."),
    registry.DESCRIBE_DELEGATION_TOKEN: (
        (
            _shown(
                _DESCRIBE,
                ResourceType.DELEGATION_TOKEN,
                "of others",
                Right(AclOperation.DESCRIBE_TOKENS, ResourceType.USER),
            ),
        ),
        "",
    ),
    registry.DESCRIBE_USER_SCRAM_CREDENTIALS: (_DESCRIBES_CLUSTER, ""),
    registry.ALTER_USER_SCRAM_CREDENTIALS: (_ALTERS_CLUSTER, ""),
    registry.FETCH_METADATA: (_OF_SERVERS, ""),
    registry.DRAIN_NODE: (_ALTERS_CLUSTER, ""),
    registry.QUORUM_FETCH: (_OF_SERVERS, ""),
    registry.PREPARE_TXN: (
        (_WRITES_TRANSACTION, _whole(AclOperation.TWO_PHASE_COMMIT, _TRANSACTIONAL_ID)),
        "A prepared transaction has no timeout (KIP-939).",
    ),
    registry.STREAMS_QUERY: (
        (),
        "Served by the instances of an application to each other and to its users, not by the cluster.",
    ),
    registry.ALTER_ROLES: (_ALTERS_CLUSTER, "The rules of a role are changed by CreateAcls and DeleteAcls."),
    registry.DESCRIBE_ROLES: (_DESCRIBES_CLUSTER, ""),
    registry.ALTER_NAMESPACES: (_ALTERS_CLUSTER, ""),
    registry.DESCRIBE_NAMESPACES: (_DESCRIBES_CLUSTER, ""),
    registry.DESCRIBE_REPLICAS: (_DESCRIBES_CLUSTER, ""),
    registry.COUNT_RECORDS: ((_each(_DESCRIBE, _TOPIC),), ""),
}

# Served to Kafka clients alone; a node answers them itself, or with the apis above.
_OF_KAFKA: dict[int, Required] = {
    17: Required("SaslHandshake", (), "Authenticates the connection."),
    33: Required("AlterConfigs", _configs(AclOperation.ALTER_CONFIGS)),
    36: Required("SaslAuthenticate", (), "Authenticates the connection."),
    71: Required("GetTelemetrySubscriptions"),
    72: Required("PushTelemetry"),
    75: Required(
        "DescribeTopicPartitions",
        (_each(_DESCRIBE, _TOPIC, "named"), _shown(_DESCRIBE, _TOPIC, "if all are requested")),
    ),
}

REQUIRED: dict[int, Required] = _OF_KAFKA | {
    api.key: Required(api.name, needs, note) for api, (needs, note) in _OF_HEADRACE.items()
}
