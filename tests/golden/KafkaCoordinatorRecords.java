// Apache Kafka's own coordinator records, for the golden tests: prints `name key-hex value-hex` lines, with
// "-" for a tombstone. Run in source launch mode with Kafka's jars.
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogKey;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValue;

public class KafkaCoordinatorRecords {
    static final Uuid ID = new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L);
    static final long TIME = 1_700_000_000_000L;

    static void print(String name, ApiMessage key, ApiMessage value, int... versions) {
        String keyHex = hex(key.apiKey(), key, 0);
        System.out.println(name + "/tombstone " + keyHex + " -");
        for (int version : versions) {
            System.out.println(name + "/" + version + " " + keyHex + " " + hex(version, value, version));
        }
    }

    static String hex(int prefix, ApiMessage message, int version) {
        ByteBuffer fields = MessageUtil.toByteBufferAccessor(message, (short) version).buffer();
        ByteBuffer out = ByteBuffer.allocate(2 + fields.remaining()).putShort((short) prefix).put(fields);
        return HexFormat.of().formatHex(out.array());
    }

    static GroupMetadataValue.MemberMetadata member() {
        return new GroupMetadataValue.MemberMetadata().setMemberId("m-1").setGroupInstanceId("i")
            .setClientId("c").setClientHost("/h").setRebalanceTimeout(300000).setSessionTimeout(45000)
            .setSubscription(new byte[] {1, 2}).setAssignment(new byte[0]);
    }

    static ConsumerGroupMemberMetadataValue consumer() {
        return new ConsumerGroupMemberMetadataValue().setInstanceId(null).setRackId("r").setClientId("c")
            .setClientHost("/h").setSubscribedTopicNames(List.of("a", "b")).setSubscribedTopicRegex(null)
            .setRebalanceTimeoutMs(300000).setServerAssignor("uniform");
    }

    static StreamsGroupTopologyValue.TopicInfo topic(String name, int partitions, int replicas) {
        return new StreamsGroupTopologyValue.TopicInfo().setName(name).setPartitions(partitions)
            .setReplicationFactor((short) replicas).setTopicConfigs(List.of(
                new StreamsGroupTopologyValue.TopicConfig().setKey("cleanup.policy").setValue("compact")));
    }

    static StreamsGroupMemberMetadataValue streams() {
        return new StreamsGroupMemberMetadataValue().setInstanceId(null).setRackId("r").setClientId("c")
            .setClientHost("/h").setRebalanceTimeoutMs(300000).setTopologyEpoch(3).setProcessId("p")
            .setClientTags(List.of(new StreamsGroupMemberMetadataValue.KeyValue().setKey("zone")
                .setValue("a")));
    }

    static List<StreamsGroupTargetAssignmentMemberValue.TaskIds> target(String id, Integer... partitions) {
        return List.of(new StreamsGroupTargetAssignmentMemberValue.TaskIds().setSubtopologyId(id)
            .setPartitions(List.of(partitions)));
    }

    static List<StreamsGroupCurrentMemberAssignmentValue.TaskIds> current(String id, List<Integer> epochs,
            Integer... partitions) {
        StreamsGroupCurrentMemberAssignmentValue.TaskIds tasks =
            new StreamsGroupCurrentMemberAssignmentValue.TaskIds().setSubtopologyId(id)
                .setPartitions(List.of(partitions));
        return List.of(epochs == null ? tasks : tasks.setAssignmentEpochs(epochs));
    }

    static void printStreams() {
        StreamsGroupMetadataKey group = new StreamsGroupMetadataKey().setGroupId("g");
        print("streams-group", group, new StreamsGroupMetadataValue().setEpoch(9).setMetadataHash(-77)
            .setValidatedTopologyEpoch(3).setLastAssignmentConfigs(List.of(
                new StreamsGroupMetadataValue.LastAssignmentConfig().setKey("num.standby.replicas")
                    .setValue("1"))), 0);
        print("streams-group-plain", group, new StreamsGroupMetadataValue().setEpoch(9), 0);
        StreamsGroupMemberMetadataKey member = new StreamsGroupMemberMetadataKey().setGroupId("g")
            .setMemberId("m");
        print("streams-member", member, streams(), 0);
        print("streams-member-endpoint", member, streams().setInstanceId("i").setRackId(null).setUserEndpoint(
            new StreamsGroupMemberMetadataValue.Endpoint().setHost("h").setPort(65535)), 0);
        StreamsGroupTargetAssignmentMetadataKey target = new StreamsGroupTargetAssignmentMetadataKey()
            .setGroupId("g");
        print("streams-target", target, new StreamsGroupTargetAssignmentMetadataValue().setAssignmentEpoch(9)
            .setAssignmentTimestamp(TIME), 0);
        print("streams-target-plain", target, new StreamsGroupTargetAssignmentMetadataValue()
            .setAssignmentEpoch(9), 0);
        print("streams-target-member",
            new StreamsGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"),
            new StreamsGroupTargetAssignmentMemberValue().setActiveTasks(target("0", 0, 300))
                .setStandbyTasks(target("1", 2)).setWarmupTasks(List.of()), 0);
        print("streams-current",
            new StreamsGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"),
            new StreamsGroupCurrentMemberAssignmentValue().setMemberEpoch(9).setPreviousMemberEpoch(8)
                .setState((byte) 2).setActiveTasks(current("0", List.of(7, 9), 0, 300))
                .setStandbyTasks(current("1", null, 2)).setWarmupTasks(current("1", null, 4))
                .setActiveTasksPendingRevocation(current("0", List.of(8), 5))
                .setStandbyTasksPendingRevocation(current("1", null, 6))
                .setWarmupTasksPendingRevocation(List.of()), 0);
        print("streams-topology", new StreamsGroupTopologyKey().setGroupId("g"),
            new StreamsGroupTopologyValue().setEpoch(3).setSubtopologies(List.of(
                new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("0")
                    .setSourceTopics(List.of("in")).setSourceTopicRegex(List.of("x.*"))
                    .setStateChangelogTopics(List.of(topic("g-s-changelog", 0, 0)))
                    .setRepartitionSinkTopics(List.of("g-r-repartition"))
                    .setRepartitionSourceTopics(List.of(topic("g-q-repartition", 4, 3)))
                    .setCopartitionGroups(List.of(new StreamsGroupTopologyValue.CopartitionGroup()
                        .setSourceTopics(List.of((short) 0)).setSourceTopicRegex(List.of())
                        .setRepartitionSourceTopics(List.of((short) 0)))))), 0);
    }

    public static void main(String[] args) {
        print("offset", new OffsetCommitKey().setGroup("g\u00e9").setTopic("t").setPartition(7),
            new OffsetCommitValue().setOffset(5_000_000_000L).setLeaderEpoch(3).setMetadata("m")
                .setCommitTimestamp(TIME).setTopicId(ID), 0, 1, 2, 3, 4);
        print("offset-expiring", new OffsetCommitKey().setGroup("g").setTopic("t").setPartition(7),
            new OffsetCommitValue().setOffset(1).setMetadata("").setCommitTimestamp(TIME)
                .setExpireTimestamp(TIME + 1), 1);
        print("offset-old", new LegacyOffsetCommitKey().setGroup("g").setTopic("t").setPartition(7),
            new LegacyOffsetCommitValue().setOffset(9).setMetadata("m").setCommitTimestamp(TIME), 0);
        print("group", new GroupMetadataKey().setGroup("g"),
            new GroupMetadataValue().setProtocolType("consumer").setGeneration(4).setProtocol("range")
                .setLeader("m-1").setCurrentStateTimestamp(TIME).setMembers(List.of(member(), member()
                    .setMemberId("m-2").setGroupInstanceId(null))), 0, 1, 2, 3, 4);
        print("group-empty", new GroupMetadataKey().setGroup("g"),
            new GroupMetadataValue().setProtocolType("").setGeneration(0).setProtocol(null).setLeader(null)
                .setCurrentStateTimestamp(TIME).setMembers(List.of()), 3, 4);
        print("consumer-group", new ConsumerGroupMetadataKey().setGroupId("g"),
            new ConsumerGroupMetadataValue().setEpoch(9).setMetadataHash(-77), 0);
        print("consumer-group-plain", new ConsumerGroupMetadataKey().setGroupId("g"),
            new ConsumerGroupMetadataValue().setEpoch(9), 0);
        print("member", new ConsumerGroupMemberMetadataKey().setGroupId("g").setMemberId("m"), consumer(), 0);
        print("member-classic", new ConsumerGroupMemberMetadataKey().setGroupId("g").setMemberId("m"),
            consumer().setSubscribedTopicRegex("x.*").setClassicMemberMetadata(
                new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata().setSessionTimeoutMs(45000)
                    .setSupportedProtocols(List.of(new ConsumerGroupMemberMetadataValue.ClassicProtocol()
                        .setName("range").setMetadata(new byte[] {5})))), 0);
        print("target", new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("g"),
            new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(9), 0);
        print("target-member", new ConsumerGroupTargetAssignmentMemberKey().setGroupId("g").setMemberId("m"),
            new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(
                new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(ID)
                    .setPartitions(List.of(0, 300)))), 0);
        print("current", new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m"),
            new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(9).setPreviousMemberEpoch(8)
                .setState((byte) 1).setAssignedPartitions(List.of(
                    new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(ID)
                        .setPartitions(List.of(1)))), 0);
        print("regex", new ConsumerGroupRegularExpressionKey().setGroupId("g").setRegularExpression("a.*"),
            new ConsumerGroupRegularExpressionValue().setTopics(List.of("ab")).setVersion(12)
                .setTimestamp(TIME), 0);
        printStreams();
        print("partitions", new ConsumerGroupPartitionMetadataKey().setGroupId("g"),
            new ConsumerGroupPartitionMetadataValue(), 0);
        print("txn-empty", new TransactionLogKey().setTransactionalId("tx"),
            new TransactionLogValue().setProducerId(1000).setProducerEpoch((short) 0)
                .setTransactionTimeoutMs(60000).setTransactionStatus((byte) 0).setTransactionPartitions(null)
                .setTransactionLastUpdateTimestampMs(TIME).setTransactionStartTimestampMs(-1)
                .setClientTransactionVersion((short) 2), 1);
        print("txn-old", new TransactionLogKey().setTransactionalId("tx"),
            new TransactionLogValue().setProducerId(1000).setProducerEpoch((short) 3)
                .setTransactionTimeoutMs(60000).setTransactionStatus((byte) 1).setTransactionPartitions(
                    List.of(new TransactionLogValue.PartitionsSchema().setTopic("t")
                        .setPartitionIds(List.of(0, 2))))
                .setTransactionLastUpdateTimestampMs(TIME).setTransactionStartTimestampMs(TIME), 0);
        print("txn-overflow", new TransactionLogKey().setTransactionalId("tx"),
            new TransactionLogValue().setProducerId(1000).setPreviousProducerId(999).setNextProducerId(1001)
                .setProducerEpoch((short) 32767).setNextProducerEpoch((short) 1)
                .setTransactionTimeoutMs(60000).setTransactionStatus((byte) 2).setTransactionPartitions(
                    List.of(new TransactionLogValue.PartitionsSchema().setTopic("t")
                        .setPartitionIds(List.of(0, 2)),
                        new TransactionLogValue.PartitionsSchema().setTopic("__consumer_offsets")
                        .setPartitionIds(List.of(49))))
                .setTransactionLastUpdateTimestampMs(TIME).setTransactionStartTimestampMs(TIME)
                .setClientTransactionVersion((short) 2), 1);
    }
}
