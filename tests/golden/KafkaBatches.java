// Apache Kafka's own record batches, for the golden tests: "write" prints `name hex` lines, "read" takes
// hex lines and prints every record as Kafka's reader sees it. Run in source launch mode with Kafka's jars.
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Scanner;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

public class KafkaBatches {
    static final long TIME = 1_700_000_000_000L;
    static final Uuid ID = new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L);

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static void print(String name, MemoryRecords records) {
        ByteBuffer buffer = records.buffer().duplicate();
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        System.out.println(name + " " + HexFormat.of().formatHex(data));
    }

    // The same records as SAMPLE in test_record_batches.py.
    static void fill(MemoryRecordsBuilder builder) {
        builder.append(TIME, bytes("key"), bytes("value"));
        builder.append(TIME + 1, (byte[]) null, bytes("v".repeat(200)));
        builder.append(TIME - 5, bytes("tombstone"), (byte[]) null);
        builder.append(TIME + 70_000_000_000L, bytes(""), bytes(""),
            new Header[] {new RecordHeader("h", bytes("1")), new RecordHeader("n\u00efl", null)});
        for (int i = 0; i < 40; i++)
            builder.append(TIME + i, bytes("key-" + i), bytes("line " + i + " of a compressible text"));
    }

    static MemoryRecords sample(Compression compression, TimestampType type, long pid, boolean txn, long horizon) {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1 << 16),
            RecordBatch.MAGIC_VALUE_V2, compression, type, 0L, TIME + 9, pid, (short) (pid < 0 ? -1 : 3),
            pid < 0 ? -1 : 11, txn, false, -1, 1 << 16, horizon);
        fill(builder);
        return builder.build();
    }

    static void write() {
        Compression none = Compression.NONE;
        TimestampType create = TimestampType.CREATE_TIME;
        print("none", sample(none, create, -1, false, -1));
        print("gzip", sample(Compression.gzip().build(), create, -1, false, -1));
        print("snappy", sample(Compression.snappy().build(), create, -1, false, -1));
        print("lz4", sample(Compression.lz4().build(), create, -1, false, -1));
        print("zstd", sample(Compression.zstd().build(), create, -1, false, -1));
        print("gzip-9", sample(Compression.gzip().level(9).build(), create, -1, false, -1));
        print("lz4-17", sample(Compression.lz4().level(17).build(), create, -1, false, -1));
        print("zstd-22", sample(Compression.zstd().level(22).build(), create, -1, false, -1));
        print("log-append-time", sample(none, TimestampType.LOG_APPEND_TIME, -1, false, -1));
        print("transactional", sample(none, create, 4000, true, -1));
        print("delete-horizon", sample(none, create, -1, false, TIME + 1000));
        print("commit", MemoryRecords.withEndTransactionMarker(TIME, 4000, (short) 3,
            new EndTransactionMarker(ControlRecordType.COMMIT, 7)));
        print("abort", MemoryRecords.withEndTransactionMarker(TIME, 4000, (short) 3,
            new EndTransactionMarker(ControlRecordType.ABORT, 7)));
        List<LeaderChangeMessage.Voter> voters = List.of(
            new LeaderChangeMessage.Voter().setVoterId(1), new LeaderChangeMessage.Voter().setVoterId(2));
        LeaderChangeMessage change = new LeaderChangeMessage().setVersion((short) 0).setLeaderId(1)
            .setVoters(voters).setGrantingVoters(voters.subList(0, 1));
        print("leader-change", MemoryRecords.withLeaderChangeMessage(0, TIME, 5, ByteBuffer.allocate(512), change));
        ByteBuffer newer = MessageUtil.toByteBufferAccessor(change.setVersion((short) 1), (short) 1).buffer();
        System.out.println("leader-change-value-1 " + hex(newer).substring(1));
        print("snapshot-header", MemoryRecords.withSnapshotHeaderRecord(0, TIME, 5, ByteBuffer.allocate(512),
            new SnapshotHeaderRecord().setVersion((short) 0).setLastContainedLogTimestamp(TIME)));
        print("snapshot-footer", MemoryRecords.withSnapshotFooterRecord(0, TIME, 5, ByteBuffer.allocate(512),
            new SnapshotFooterRecord().setVersion((short) 0)));
        print("quorum-version", MemoryRecords.withKRaftVersionRecord(0, TIME, 5, ByteBuffer.allocate(512),
            new KRaftVersionRecord().setVersion((short) 0).setKRaftVersion((short) 1)));
        VotersRecord.Endpoint endpoint = new VotersRecord.Endpoint();
        endpoint.setName("CONTROLLER").setHost("h\u00f4te").setPort(65000);
        VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
        endpoints.add(endpoint);
        print("voters", MemoryRecords.withVotersRecord(0, TIME, 5, ByteBuffer.allocate(512),
            new VotersRecord().setVersion((short) 0).setVoters(List.of(new VotersRecord.Voter().setVoterId(1)
                .setVoterDirectoryId(ID).setEndpoints(endpoints)
                .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                    .setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1))))));
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null)
            return "null";
        byte[] data = new byte[buffer.remaining()];
        buffer.duplicate().get(data);
        return "x" + HexFormat.of().formatHex(data);
    }

    static void read() {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            MemoryRecords records = MemoryRecords.readableRecords(
                ByteBuffer.wrap(HexFormat.of().parseHex(lines.nextLine().trim())));
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> each = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                    while (each.hasNext()) {
                        Record record = each.next();
                        StringBuilder line = new StringBuilder();
                        line.append(record.offset()).append(' ').append(record.timestamp()).append(' ')
                            .append(hex(record.key())).append(' ').append(hex(record.value()));
                        for (Header header : record.headers())
                            line.append(' ').append(hex(ByteBuffer.wrap(bytes(header.key())))).append('=')
                                .append(hex(header.value() == null ? null : ByteBuffer.wrap(header.value())));
                        System.out.println(line);
                    }
                }
            }
            System.out.println("end");
        }
    }

    public static void main(String[] args) {
        if (args[0].equals("write"))
            write();
        else
            read();
    }
}
