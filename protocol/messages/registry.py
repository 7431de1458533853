"""All apis by Kafka's numbers. Numbers from 10000 on are headrace's own."""

from __future__ import annotations

from . import control, data, groups, log_dirs, quorum, quotas, transactions
from .envelope import Api, ApiVersionsRequest, ApiVersionsResponse

PRODUCE = Api(0, "Produce", 0, 0, data.ProduceRequest, data.ProduceResponse)
FETCH = Api(1, "Fetch", 0, 0, data.FetchRequest, data.FetchResponse)
LIST_OFFSETS = Api(2, "ListOffsets", 0, 0, data.ListOffsetsRequest, data.ListOffsetsResponse)
METADATA = Api(3, "Metadata", 0, 0, data.MetadataRequest, data.MetadataResponse)
API_VERSIONS = Api(18, "ApiVersions", 0, 0, ApiVersionsRequest, ApiVersionsResponse)
CREATE_TOPICS = Api(19, "CreateTopics", 0, 0, control.CreateTopicsRequest, control.CreateTopicsResponse)
DELETE_TOPICS = Api(20, "DeleteTopics", 0, 0, control.DeleteTopicsRequest, control.DeleteTopicsResponse)
DELETE_RECORDS = Api(21, "DeleteRecords", 0, 0, data.DeleteRecordsRequest, data.DeleteRecordsResponse)
DESCRIBE_CONFIGS = Api(
    32, "DescribeConfigs", 0, 0, control.DescribeConfigsRequest, control.DescribeConfigsResponse
)
OFFSET_FOR_LEADER_EPOCH = Api(
    23,
    "OffsetForLeaderEpoch",
    0,
    0,
    data.OffsetForLeaderEpochRequest,
    data.OffsetForLeaderEpochResponse,
)
ALTER_REPLICA_LOG_DIRS = Api(
    34,
    "AlterReplicaLogDirs",
    0,
    0,
    log_dirs.AlterReplicaLogDirsRequest,
    log_dirs.AlterReplicaLogDirsResponse,
)
DESCRIBE_LOG_DIRS = Api(
    35, "DescribeLogDirs", 0, 0, log_dirs.DescribeLogDirsRequest, log_dirs.DescribeLogDirsResponse
)
CREATE_PARTITIONS = Api(
    37, "CreatePartitions", 0, 0, control.CreatePartitionsRequest, control.CreatePartitionsResponse
)
ELECT_LEADERS = Api(43, "ElectLeaders", 0, 0, control.ElectLeadersRequest, control.ElectLeadersResponse)
INCREMENTAL_ALTER_CONFIGS = Api(
    44,
    "IncrementalAlterConfigs",
    0,
    0,
    control.IncrementalAlterConfigsRequest,
    control.IncrementalAlterConfigsResponse,
)
VOTE = Api(52, "Vote", 0, 0, quorum.VoteRequest, quorum.VoteResponse)
BEGIN_QUORUM_EPOCH = Api(
    53, "BeginQuorumEpoch", 0, 0, quorum.BeginQuorumEpochRequest, quorum.BeginQuorumEpochResponse
)
END_QUORUM_EPOCH = Api(
    54, "EndQuorumEpoch", 0, 0, quorum.EndQuorumEpochRequest, quorum.EndQuorumEpochResponse
)
DESCRIBE_QUORUM = Api(55, "DescribeQuorum", 0, 0, quorum.DescribeQuorumRequest, quorum.DescribeQuorumResponse)
FETCH_SNAPSHOT = Api(59, "FetchSnapshot", 0, 0, quorum.FetchSnapshotRequest, quorum.FetchSnapshotResponse)
ALTER_PARTITION_REASSIGNMENTS = Api(
    45,
    "AlterPartitionReassignments",
    0,
    0,
    control.AlterPartitionReassignmentsRequest,
    control.AlterPartitionReassignmentsResponse,
)
LIST_PARTITION_REASSIGNMENTS = Api(
    46,
    "ListPartitionReassignments",
    0,
    0,
    control.ListPartitionReassignmentsRequest,
    control.ListPartitionReassignmentsResponse,
)
ALTER_PARTITION = Api(
    56, "AlterPartition", 0, 0, control.AlterPartitionRequest, control.AlterPartitionResponse
)
DESCRIBE_CLUSTER = Api(60, "DescribeCluster", 0, 0, data.DescribeClusterRequest, data.DescribeClusterResponse)
BROKER_REGISTRATION = Api(
    62,
    "BrokerRegistration",
    0,
    0,
    control.BrokerRegistrationRequest,
    control.BrokerRegistrationResponse,
)
BROKER_HEARTBEAT = Api(
    63, "BrokerHeartbeat", 0, 0, control.BrokerHeartbeatRequest, control.BrokerHeartbeatResponse
)
UNREGISTER_BROKER = Api(
    64, "UnregisterBroker", 0, 0, control.UnregisterBrokerRequest, control.UnregisterBrokerResponse
)
DESCRIBE_CLIENT_QUOTAS = Api(
    48,
    "DescribeClientQuotas",
    0,
    0,
    quotas.DescribeClientQuotasRequest,
    quotas.DescribeClientQuotasResponse,
)
ALTER_CLIENT_QUOTAS = Api(
    49, "AlterClientQuotas", 0, 0, quotas.AlterClientQuotasRequest, quotas.AlterClientQuotasResponse
)
UPDATE_FEATURES = Api(57, "UpdateFeatures", 0, 0, quotas.UpdateFeaturesRequest, quotas.UpdateFeaturesResponse)
LIST_CONFIG_RESOURCES = Api(
    74,
    "ListConfigResources",
    0,
    0,
    control.ListConfigResourcesRequest,
    control.ListConfigResourcesResponse,
)
ADD_RAFT_VOTER = Api(80, "AddRaftVoter", 0, 0, quorum.AddRaftVoterRequest, quorum.RaftVoterResponse)
REMOVE_RAFT_VOTER = Api(81, "RemoveRaftVoter", 0, 0, quorum.RemoveRaftVoterRequest, quorum.RaftVoterResponse)
UPDATE_RAFT_VOTER = Api(82, "UpdateRaftVoter", 0, 0, quorum.UpdateRaftVoterRequest, quorum.RaftVoterResponse)
OFFSET_COMMIT = Api(8, "OffsetCommit", 0, 0, groups.OffsetCommitRequest, groups.OffsetCommitResponse)
OFFSET_FETCH = Api(9, "OffsetFetch", 0, 0, groups.OffsetFetchRequest, groups.OffsetFetchResponse)
FIND_COORDINATOR = Api(
    10, "FindCoordinator", 0, 0, groups.FindCoordinatorRequest, groups.FindCoordinatorResponse
)
JOIN_GROUP = Api(11, "JoinGroup", 0, 0, groups.JoinGroupRequest, groups.JoinGroupResponse)
HEARTBEAT = Api(12, "Heartbeat", 0, 0, groups.HeartbeatRequest, groups.HeartbeatResponse)
LEAVE_GROUP = Api(13, "LeaveGroup", 0, 0, groups.LeaveGroupRequest, groups.LeaveGroupResponse)
SYNC_GROUP = Api(14, "SyncGroup", 0, 0, groups.SyncGroupRequest, groups.SyncGroupResponse)
DESCRIBE_GROUPS = Api(15, "DescribeGroups", 0, 0, groups.DescribeGroupsRequest, groups.DescribeGroupsResponse)
LIST_GROUPS = Api(16, "ListGroups", 0, 0, groups.ListGroupsRequest, groups.ListGroupsResponse)
DELETE_GROUPS = Api(42, "DeleteGroups", 0, 0, groups.DeleteGroupsRequest, groups.DeleteGroupsResponse)
OFFSET_DELETE = Api(47, "OffsetDelete", 0, 0, groups.OffsetDeleteRequest, groups.OffsetDeleteResponse)
CONSUMER_GROUP_HEARTBEAT = Api(
    68,
    "ConsumerGroupHeartbeat",
    0,
    0,
    groups.ConsumerGroupHeartbeatRequest,
    groups.ConsumerGroupHeartbeatResponse,
)
CONSUMER_GROUP_DESCRIBE = Api(
    69,
    "ConsumerGroupDescribe",
    0,
    0,
    groups.ConsumerGroupDescribeRequest,
    groups.ConsumerGroupDescribeResponse,
)
INIT_PRODUCER_ID = Api(
    22, "InitProducerId", 0, 0, transactions.InitProducerIdRequest, transactions.InitProducerIdResponse
)
ADD_PARTITIONS_TO_TXN = Api(
    24,
    "AddPartitionsToTxn",
    0,
    0,
    transactions.AddPartitionsToTxnRequest,
    transactions.AddPartitionsToTxnResponse,
)
ADD_OFFSETS_TO_TXN = Api(
    25, "AddOffsetsToTxn", 0, 0, transactions.AddOffsetsToTxnRequest, transactions.AddOffsetsToTxnResponse
)
END_TXN = Api(26, "EndTxn", 0, 0, transactions.EndTxnRequest, transactions.EndTxnResponse)
WRITE_TXN_MARKERS = Api(
    27, "WriteTxnMarkers", 0, 0, transactions.WriteTxnMarkersRequest, transactions.WriteTxnMarkersResponse
)
TXN_OFFSET_COMMIT = Api(
    28, "TxnOffsetCommit", 0, 0, transactions.TxnOffsetCommitRequest, transactions.TxnOffsetCommitResponse
)
DESCRIBE_PRODUCERS = Api(
    61,
    "DescribeProducers",
    0,
    0,
    transactions.DescribeProducersRequest,
    transactions.DescribeProducersResponse,
)
DESCRIBE_TRANSACTIONS = Api(
    65,
    "DescribeTransactions",
    0,
    0,
    transactions.DescribeTransactionsRequest,
    transactions.DescribeTransactionsResponse,
)
LIST_TRANSACTIONS = Api(
    66, "ListTransactions", 0, 0, transactions.ListTransactionsRequest, transactions.ListTransactionsResponse
)
ALLOCATE_PRODUCER_IDS = Api(
    67,
    "AllocateProducerIds",
    0,
    0,
    transactions.AllocateProducerIdsRequest,
    transactions.AllocateProducerIdsResponse,
)
FETCH_METADATA = Api(
    10_000, "FetchMetadata", 0, 0, control.FetchMetadataRequest, control.FetchMetadataResponse
)
QUORUM_FETCH = Api(10_003, "QuorumFetch", 0, 0, quorum.QuorumFetchRequest, quorum.QuorumFetchResponse)
DRAIN_NODE = Api(10_001, "DrainNode", 0, 0, control.DrainNodeRequest, control.DrainNodeResponse)

PREPARE_TXN = Api(10_004, "PrepareTxn", 0, 0, transactions.PrepareTxnRequest, transactions.PrepareTxnResponse)

ALL_APIS: tuple[Api, ...] = (
    PRODUCE,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    API_VERSIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DELETE_RECORDS,
    OFFSET_FOR_LEADER_EPOCH,
    DESCRIBE_CONFIGS,
    ALTER_REPLICA_LOG_DIRS,
    DESCRIBE_LOG_DIRS,
    CREATE_PARTITIONS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    VOTE,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    FETCH_SNAPSHOT,
    DESCRIBE_CLUSTER,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    ALTER_PARTITION,
    BROKER_REGISTRATION,
    BROKER_HEARTBEAT,
    UNREGISTER_BROKER,
    LIST_CONFIG_RESOURCES,
    DESCRIBE_CLIENT_QUOTAS,
    ALTER_CLIENT_QUOTAS,
    UPDATE_FEATURES,
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
    UPDATE_RAFT_VOTER,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    SYNC_GROUP,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    DELETE_GROUPS,
    OFFSET_DELETE,
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_GROUP_DESCRIBE,
    INIT_PRODUCER_ID,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    WRITE_TXN_MARKERS,
    TXN_OFFSET_COMMIT,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    ALLOCATE_PRODUCER_IDS,
    FETCH_METADATA,
    QUORUM_FETCH,
    DRAIN_NODE,
    PREPARE_TXN,
)

# A storage node answers these by asking the controller.
FORWARDED: tuple[Api, ...] = (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    LIST_CONFIG_RESOURCES,
    DESCRIBE_CLIENT_QUOTAS,
    ALTER_CLIENT_QUOTAS,
    UPDATE_FEATURES,
    CREATE_PARTITIONS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
    UNREGISTER_BROKER,
    DRAIN_NODE,
    DESCRIBE_QUORUM,
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
)

# Coordinators answer these, on the node that leads the partition of the group or transactional id.
GROUP_APIS: tuple[Api, ...] = (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    JOIN_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    SYNC_GROUP,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    DELETE_GROUPS,
    OFFSET_DELETE,
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_GROUP_DESCRIBE,
    TXN_OFFSET_COMMIT,
)
TRANSACTION_APIS: tuple[Api, ...] = (
    INIT_PRODUCER_ID,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    PREPARE_TXN,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
)

APIS_BY_KEY: dict[int, Api] = {api.key: api for api in ALL_APIS}
