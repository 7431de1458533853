"""The table of required operations has every api, with the operations that Kafka's documentation lists."""

from headrace.protocol.messages import registry
from headrace.protocol.security.acls import AclOperation, ResourceType
from headrace.protocol.security.required_operations import REQUIRED, Right
from headrace.services.kafka_listener.served import SERVED

# From Kafka's documentation ("Authorization using ACLs", operations and resources on protocols) and, for apis
# that it lacks, KafkaApis.scala and ControllerApis.scala of 4.3. Written down apart from the code's table.
KAFKA = """
Produce: Write TransactionalId, Write Topic
Fetch: ClusterAction Cluster, Read Topic
ListOffsets: Describe Topic
Metadata: Describe Topic
OffsetCommit: Read Group, Read Topic
OffsetFetch: Describe Group, Describe Topic
FindCoordinator: Describe Group, Describe TransactionalId
JoinGroup: Read Group
Heartbeat: Read Group
LeaveGroup: Read Group
SyncGroup: Read Group
DescribeGroups: Describe Group
ListGroups: Describe Cluster, Describe Group
SaslHandshake:
ApiVersions:
CreateTopics: Create Cluster, Create Topic
DeleteTopics: Delete Topic
DeleteRecords: Delete Topic
InitProducerId: Write TransactionalId, IdempotentWrite Cluster, Write Topic
OffsetForLeaderEpoch: ClusterAction Cluster, Describe Topic
AddPartitionsToTxn: Write TransactionalId, Write Topic
AddOffsetsToTxn: Write TransactionalId, Read Group
EndTxn: Write TransactionalId
WriteTxnMarkers: Alter Cluster, ClusterAction Cluster
TxnOffsetCommit: Write TransactionalId, Read Group, Read Topic
DescribeAcls: Describe Cluster
CreateAcls: Alter Cluster
DeleteAcls: Alter Cluster
DescribeConfigs: DescribeConfigs Cluster, DescribeConfigs Topic, DescribeConfigs Group
AlterConfigs: AlterConfigs Cluster, AlterConfigs Topic, AlterConfigs Group
AlterReplicaLogDirs: Alter Cluster
DescribeLogDirs: Describe Cluster
SaslAuthenticate:
CreatePartitions: Alter Topic
CreateDelegationToken: CreateTokens User
RenewDelegationToken:
ExpireDelegationToken:
DescribeDelegationToken: Describe DelegationToken, DescribeTokens User
DeleteGroups: Delete Group
ElectLeaders: Alter Cluster
IncrementalAlterConfigs: AlterConfigs Cluster, AlterConfigs Topic, AlterConfigs Group
AlterPartitionReassignments: Alter Cluster
ListPartitionReassignments: Describe Cluster
OffsetDelete: Delete Group, Read Topic
DescribeClientQuotas: DescribeConfigs Cluster
AlterClientQuotas: AlterConfigs Cluster
DescribeUserScramCredentials: Describe Cluster
AlterUserScramCredentials: Alter Cluster
Vote: ClusterAction Cluster
BeginQuorumEpoch: ClusterAction Cluster
EndQuorumEpoch: ClusterAction Cluster
DescribeQuorum: Describe Cluster
AlterPartition: ClusterAction Cluster
UpdateFeatures: Alter Cluster
FetchSnapshot: ClusterAction Cluster
DescribeCluster:
DescribeProducers: Read Topic
BrokerRegistration: ClusterAction Cluster
BrokerHeartbeat: ClusterAction Cluster
UnregisterBroker: Alter Cluster
DescribeTransactions: Describe TransactionalId, Describe Topic
ListTransactions: Describe TransactionalId
AllocateProducerIds: ClusterAction Cluster
ConsumerGroupHeartbeat: Read Group, Describe Topic
ConsumerGroupDescribe: Describe Group, Describe Topic
GetTelemetrySubscriptions:
PushTelemetry:
ListConfigResources: DescribeConfigs Cluster
DescribeTopicPartitions: Describe Topic
AddRaftVoter: Alter Cluster
RemoveRaftVoter: Alter Cluster
UpdateRaftVoter: ClusterAction Cluster
StreamsGroupHeartbeat: Read Group, Describe Topic, Create Cluster, Create Topic
StreamsGroupDescribe: Describe Group, Describe Topic
"""
# Apis of headrace that Kafka does not have.
OWN = """
FetchMetadata: ClusterAction Cluster
DrainNode: Alter Cluster
QuorumFetch: ClusterAction Cluster
PrepareTxn: Write TransactionalId, TwoPhaseCommit TransactionalId
StreamsQuery:
AlterRoles: Alter Cluster
DescribeRoles: Describe Cluster
AlterNamespaces: Alter Cluster
DescribeNamespaces: Describe Cluster
DescribeReplicas: Describe Cluster
CountRecords: Describe Topic
"""


def documented() -> dict[str, set[Right]]:
    """The operations and resource types of each api."""
    found = {}
    for line in (KAFKA + OWN).strip().splitlines():
        if not line:
            continue
        name, _, rights = line.partition(":")
        found[name] = {right_of(each) for each in rights.split(",") if each.strip()}
    return found


def right_of(text: str) -> Right:
    operation, kind = ("".join(f"_{c}" if c.isupper() else c for c in word)[1:] for word in text.split())
    return Right(AclOperation[operation.upper()], ResourceType[kind.upper()])


def test_every_api_of_both_planes_is_in_the_table() -> None:
    """Each under the name that it has there, and nothing else."""
    served = {key: api.name for key, api in SERVED.items()} | {api.key: api.name for api in registry.ALL_APIS}
    assert {key: each.name for key, each in REQUIRED.items()} == served


def test_the_operations_are_those_of_kafka() -> None:
    """All that the documentation lists, as requirements or in the place of one."""
    for required in REQUIRED.values():
        rights = {need.right for need in required.needs} | {
            need.alternative for need in required.needs if need.alternative
        }
        assert rights == documented()[required.name], required.name
