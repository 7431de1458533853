"""All apis by Kafka's keys. Keys from 10000 on are headrace's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import (
    control,
    data,
    envelope,
    groups,
    lag,
    log_dirs,
    quorum,
    quotas,
    replicas,
    roles,
    sasl,
    security,
    streams_groups,
    streams_queries,
    transactions,
)
from .envelope import Api, Role

if TYPE_CHECKING:
    from types import ModuleType


def _api(key: int, module: ModuleType, name: str, role: Role = Role.DIRECT, *, response: str = "") -> Api:
    """Version 0 of an api with the bodies `<name>Request` and `<name>Response` of the module."""
    bodies = (getattr(module, f"{name}Request"), getattr(module, response or f"{name}Response"))
    return Api(key, name, 0, 0, *bodies, role)


PRODUCE = _api(0, data, "Produce")
FETCH = _api(1, data, "Fetch")
LIST_OFFSETS = _api(2, data, "ListOffsets")
METADATA = _api(3, data, "Metadata")
OFFSET_COMMIT = _api(8, groups, "OffsetCommit", Role.GROUP)
OFFSET_FETCH = _api(9, groups, "OffsetFetch", Role.GROUP)
FIND_COORDINATOR = _api(10, groups, "FindCoordinator")
JOIN_GROUP = _api(11, groups, "JoinGroup", Role.GROUP)
HEARTBEAT = _api(12, groups, "Heartbeat", Role.GROUP)
LEAVE_GROUP = _api(13, groups, "LeaveGroup", Role.GROUP)
SYNC_GROUP = _api(14, groups, "SyncGroup", Role.GROUP)
DESCRIBE_GROUPS = _api(15, groups, "DescribeGroups", Role.GROUP)
LIST_GROUPS = _api(16, groups, "ListGroups", Role.GROUP)
SASL_HANDSHAKE = _api(17, sasl, "SaslHandshake")
API_VERSIONS = _api(18, envelope, "ApiVersions")
CREATE_TOPICS = _api(19, control, "CreateTopics", Role.FORWARDED)
DELETE_TOPICS = _api(20, control, "DeleteTopics", Role.FORWARDED)
DELETE_RECORDS = _api(21, data, "DeleteRecords")
INIT_PRODUCER_ID = _api(22, transactions, "InitProducerId", Role.TRANSACTION)
OFFSET_FOR_LEADER_EPOCH = _api(23, data, "OffsetForLeaderEpoch")
ADD_PARTITIONS_TO_TXN = _api(24, transactions, "AddPartitionsToTxn", Role.TRANSACTION)
ADD_OFFSETS_TO_TXN = _api(25, transactions, "AddOffsetsToTxn", Role.TRANSACTION)
END_TXN = _api(26, transactions, "EndTxn", Role.TRANSACTION)
WRITE_TXN_MARKERS = _api(27, transactions, "WriteTxnMarkers")
TXN_OFFSET_COMMIT = _api(28, transactions, "TxnOffsetCommit", Role.GROUP)
DESCRIBE_ACLS = _api(29, security, "DescribeAcls", Role.FORWARDED)
CREATE_ACLS = _api(30, security, "CreateAcls", Role.FORWARDED)
DELETE_ACLS = _api(31, security, "DeleteAcls", Role.FORWARDED)
DESCRIBE_CONFIGS = _api(32, control, "DescribeConfigs", Role.FORWARDED)
ALTER_REPLICA_LOG_DIRS = _api(34, log_dirs, "AlterReplicaLogDirs")
DESCRIBE_LOG_DIRS = _api(35, log_dirs, "DescribeLogDirs")
SASL_AUTHENTICATE = _api(36, sasl, "SaslAuthenticate")
CREATE_PARTITIONS = _api(37, control, "CreatePartitions", Role.FORWARDED)
CREATE_DELEGATION_TOKEN = _api(38, security, "CreateDelegationToken", Role.FORWARDED)
RENEW_DELEGATION_TOKEN = _api(39, security, "RenewDelegationToken", Role.FORWARDED)
EXPIRE_DELEGATION_TOKEN = _api(40, security, "ExpireDelegationToken", Role.FORWARDED)
DESCRIBE_DELEGATION_TOKEN = _api(41, security, "DescribeDelegationToken", Role.FORWARDED)
DELETE_GROUPS = _api(42, groups, "DeleteGroups", Role.GROUP)
ELECT_LEADERS = _api(43, control, "ElectLeaders", Role.FORWARDED)
INCREMENTAL_ALTER_CONFIGS = _api(44, control, "IncrementalAlterConfigs", Role.FORWARDED)
ALTER_PARTITION_REASSIGNMENTS = _api(45, control, "AlterPartitionReassignments", Role.FORWARDED)
LIST_PARTITION_REASSIGNMENTS = _api(46, control, "ListPartitionReassignments", Role.FORWARDED)
OFFSET_DELETE = _api(47, groups, "OffsetDelete", Role.GROUP)
DESCRIBE_CLIENT_QUOTAS = _api(48, quotas, "DescribeClientQuotas", Role.FORWARDED)
ALTER_CLIENT_QUOTAS = _api(49, quotas, "AlterClientQuotas", Role.FORWARDED)
DESCRIBE_USER_SCRAM_CREDENTIALS = _api(50, security, "DescribeUserScramCredentials", Role.FORWARDED)
ALTER_USER_SCRAM_CREDENTIALS = _api(51, security, "AlterUserScramCredentials", Role.FORWARDED)
VOTE = _api(52, quorum, "Vote")
BEGIN_QUORUM_EPOCH = _api(53, quorum, "BeginQuorumEpoch")
END_QUORUM_EPOCH = _api(54, quorum, "EndQuorumEpoch")
DESCRIBE_QUORUM = _api(55, quorum, "DescribeQuorum", Role.FORWARDED)
ALTER_PARTITION = _api(56, control, "AlterPartition")
UPDATE_FEATURES = _api(57, quotas, "UpdateFeatures", Role.FORWARDED)
FETCH_SNAPSHOT = _api(59, quorum, "FetchSnapshot")
DESCRIBE_CLUSTER = _api(60, data, "DescribeCluster")
DESCRIBE_PRODUCERS = _api(61, transactions, "DescribeProducers")
BROKER_REGISTRATION = _api(62, control, "BrokerRegistration")
BROKER_HEARTBEAT = _api(63, control, "BrokerHeartbeat")
UNREGISTER_BROKER = _api(64, control, "UnregisterBroker", Role.FORWARDED)
DESCRIBE_TRANSACTIONS = _api(65, transactions, "DescribeTransactions", Role.TRANSACTION)
LIST_TRANSACTIONS = _api(66, transactions, "ListTransactions", Role.TRANSACTION)
ALLOCATE_PRODUCER_IDS = _api(67, transactions, "AllocateProducerIds")
CONSUMER_GROUP_HEARTBEAT = _api(68, groups, "ConsumerGroupHeartbeat", Role.GROUP)
CONSUMER_GROUP_DESCRIBE = _api(69, groups, "ConsumerGroupDescribe", Role.GROUP)
LIST_CONFIG_RESOURCES = _api(74, control, "ListConfigResources", Role.FORWARDED)
ADD_RAFT_VOTER = _api(80, quorum, "AddRaftVoter", Role.FORWARDED, response="RaftVoterResponse")
REMOVE_RAFT_VOTER = _api(81, quorum, "RemoveRaftVoter", Role.FORWARDED, response="RaftVoterResponse")
UPDATE_RAFT_VOTER = _api(82, quorum, "UpdateRaftVoter", response="RaftVoterResponse")
STREAMS_GROUP_HEARTBEAT = _api(88, streams_groups, "StreamsGroupHeartbeat", Role.GROUP)
STREAMS_GROUP_DESCRIBE = _api(89, streams_groups, "StreamsGroupDescribe", Role.GROUP)
FETCH_METADATA = _api(10_000, control, "FetchMetadata")
DRAIN_NODE = _api(10_001, control, "DrainNode", Role.FORWARDED)
QUORUM_FETCH = _api(10_003, quorum, "QuorumFetch")
PREPARE_TXN = _api(10_004, transactions, "PrepareTxn", Role.TRANSACTION)
STREAMS_QUERY = _api(10_005, streams_queries, "StreamsQuery")
ALTER_ROLES = _api(10_006, roles, "AlterRoles", Role.FORWARDED)
DESCRIBE_ROLES = _api(10_007, roles, "DescribeRoles", Role.FORWARDED)
ALTER_NAMESPACES = _api(10_008, roles, "AlterNamespaces", Role.FORWARDED)
DESCRIBE_NAMESPACES = _api(10_009, roles, "DescribeNamespaces", Role.FORWARDED)
DESCRIBE_REPLICAS = _api(10_010, replicas, "DescribeReplicas")
COUNT_RECORDS = _api(10_011, lag, "CountRecords")

ALL_APIS: tuple[Api, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Api))


def _of(role: Role) -> tuple[Api, ...]:
    return tuple(api for api in ALL_APIS if api.role is role)


FORWARDED = _of(Role.FORWARDED)
GROUP_APIS = _of(Role.GROUP)
TRANSACTION_APIS = _of(Role.TRANSACTION)
APIS_BY_KEY: dict[int, Api] = {api.key: api for api in ALL_APIS}
