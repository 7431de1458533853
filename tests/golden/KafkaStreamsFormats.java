// Kafka Streams' own bytes of stores, changelogs and internal topics, for the golden tests: prints `name hex`
// lines. It uses package-private classes: compile it with javac (-cp kafka-streams.jar:kafka-clients.jar:...) and
// run it from the folder of the classes before those jars.
package org.apache.kafka.streams.state.internals;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Supplier;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.Change;
import org.apache.kafka.streams.kstream.internals.ChangedSerializer;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.CombinedKeySchema;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionResponseWrapper;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionResponseWrapperSerde;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapper;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapperSerde;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

public class KafkaStreamsFormats {
    static final long TIME = 1_700_000_000_123L;
    static final Serde<String> TEXT = Serdes.String();

    static void print(String name, byte[] data) {
        System.out.println(name + " " + (data.length == 0 ? "-" : HexFormat.of().formatHex(data)));
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static RecordHeaders headers() {
        RecordHeaders headers = new RecordHeaders();
        headers.add("a", bytes("1"));
        headers.add("n\u00e9", null);
        return headers;
    }

    static void windows() {
        Bytes key = Bytes.wrap(bytes("k\u00e9y"));
        print("window-store-key", WindowKeySchema.toStoreKeyBinary(key, TIME, 7).get());
        print("time-first-key", PrefixedWindowKeySchemas.TimeFirstWindowKeySchema.toStoreKeyBinary(key, TIME, 7).get());
        print("key-first-key", PrefixedWindowKeySchemas.KeyFirstWindowKeySchema.toStoreKeyBinary(key, TIME, 7).get());
        print("session-key", SessionKeySchema.toBinary(key, TIME, TIME + 5).get());
        print("time-first-session-key",
            PrefixedSessionKeySchemas.TimeFirstSessionKeySchema.toBinary(key, TIME, TIME + 5).get());
        print("key-first-session-key",
            PrefixedSessionKeySchemas.KeyFirstSessionKeySchema.toBinary(key, TIME, TIME + 5).get());
        print("time-windowed", new TimeWindowedSerializer<>(TEXT.serializer())
            .serialize("t", new Windowed<>("k\u00e9y", new TimeWindow(TIME, TIME + 10))));
        print("session-windowed", new SessionWindowedSerializer<>(TEXT.serializer())
            .serialize("t", new Windowed<>("k\u00e9y", new SessionWindow(TIME, TIME + 5))));
    }

    static void values() {
        Headers none = new RecordHeaders();
        print("value-and-timestamp", new ValueAndTimestampSerializer<>(TEXT.serializer())
            .serialize("t", none, ValueAndTimestamp.make("v\u00e4lue", TIME)));
        print("timestamped-key-left", new TimestampedKeyAndJoinSideSerializer<>(TEXT.serializer())
            .serialize("t", none, TimestampedKeyAndJoinSide.makeLeft("key", TIME)));
        print("timestamped-key-right", new TimestampedKeyAndJoinSideSerializer<>(TEXT.serializer())
            .serialize("t", none, TimestampedKeyAndJoinSide.makeRight("key", TIME)));
        LeftOrRightValueSerializer<String, Long> sides =
            new LeftOrRightValueSerializer<>(TEXT.serializer(), Serdes.Long().serializer());
        print("left-value", sides.serialize("t", none, LeftOrRightValue.makeLeftValue("left")));
        print("right-value", sides.serialize("t", none, LeftOrRightValue.makeRightValue(9L)));
        List<byte[]> list = new ArrayList<>(Arrays.asList(bytes("one"), new byte[0], bytes("three")));
        print("list-of-values", Serdes.ListSerde(ArrayList.class, Serdes.ByteArray()).serializer()
            .serialize("t", (ArrayList) list));
        ChangedSerializer<String> changed = new ChangedSerializer<>(TEXT.serializer());
        print("change-new", changed.serialize("t", none, new Change<>("new", null)));
        print("change-old", changed.serialize("t", none, new Change<>(null, "old")));
        print("change-both", changed.serialize("t", none, new Change<>("new", "old")));
        print("change-long", changed.serialize("t", none, new Change<>("n".repeat(200), "old")));
        for (int size : new int[] {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 40}) {
            byte[] data = new byte[size];
            for (int i = 0; i < size; i++) data[i] = (byte) (i * 37 - 100);
            long[] hash = Murmur3.hash128(data);
            print("murmur3-" + size, ByteBuffer.allocate(16).putLong(hash[0]).putLong(hash[1]).array());
        }
    }

    static void foreignKeys() throws Exception {
        Headers none = new RecordHeaders();
        long[] hash = {0x0102030405060708L, -2L};
        Supplier<String> topic = () -> "t";
        for (SubscriptionWrapper.Instruction instruction : SubscriptionWrapper.Instruction.values()) {
            print("subscription-" + instruction.value(), new SubscriptionWrapperSerde<>(topic, TEXT).serializer()
                .serialize("t", none, new SubscriptionWrapper<>(hash, instruction, "pk", 3)));
        }
        SubscriptionWrapper.Instruction some = SubscriptionWrapper.Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE;
        print("subscription-no-hash", new SubscriptionWrapperSerde<>(topic, TEXT).serializer()
            .serialize("t", none, new SubscriptionWrapper<>(null, some, "pk", 3)));
        print("subscription-v0", new SubscriptionWrapperSerde<>(topic, TEXT).serializer()
            .serialize("t", none, new SubscriptionWrapper<>(hash, some, "pk", (byte) 0, null)));
        SubscriptionResponseWrapperSerde<String> response = new SubscriptionResponseWrapperSerde<>(TEXT);
        print("response", response.serializer().serialize("t", none, new SubscriptionResponseWrapper<>(hash, "v", 3)));
        print("response-null", response.serializer()
            .serialize("t", none, new SubscriptionResponseWrapper<>(hash, null, 3)));
        print("response-no-hash", response.serializer()
            .serialize("t", none, new SubscriptionResponseWrapper<>(null, "v", 3)));
        CombinedKeySchema<String, String> schema = new CombinedKeySchema<>(topic, TEXT, topic, TEXT);
        Method toBytes = CombinedKeySchema.class
            .getDeclaredMethod("toBytes", Object.class, Object.class, Headers.class);
        toBytes.setAccessible(true);
        print("combined-key", ((Bytes) toBytes.invoke(schema, "foreign", "primary", none)).get());
    }

    static void buffers() {
        ProcessorRecordContext context = new ProcessorRecordContext(TIME, 42L, 3, "t\u00f6pic", headers());
        print("record-context", context.serialize());
        byte[] one = bytes("one"), two = bytes("two"), three = bytes("three");
        byte[][][] values = {{one, two, three}, {null, null, three}, {one, one, null}, {one, null, three}};
        for (int i = 0; i < values.length; i++) {
            BufferValue value = new BufferValue(values[i][0], values[i][1], values[i][2], context);
            ByteBuffer data = value.serialize(8);
            data.putLong(TIME + 1);
            print("buffer-value-" + i, data.array());
        }
    }

    static void versions() {
        RocksDBVersionedStoreSegmentValueFormatter.SegmentValue value =
            RocksDBVersionedStoreSegmentValueFormatter.newSegmentValueWithRecord(bytes("one"), 10, 20);
        print("versions-1", value.serialize());
        value.insertAsLatest(20, 30, bytes("two"));
        print("versions-2", value.serialize());
        value.insertAsLatest(40, 50, bytes("four"));
        print("versions-3", value.serialize());
        value.insertAsEarliest(5, null);
        print("versions-4", value.serialize());
        value.find(25, true);
        value.insert(25, bytes("twenty-five"), value.find(25, true).index());
        print("versions-5", value.serialize());
        value.updateRecord(25, bytes("25"), value.find(25, true).index());
        print("versions-6", value.serialize());
        print("versions-tombstone",
            RocksDBVersionedStoreSegmentValueFormatter.newSegmentValueWithRecord(null, 7, 7).serialize());
        RocksDBVersionedStoreSegmentValueFormatter.SegmentValue again =
            RocksDBVersionedStoreSegmentValueFormatter.deserialize(value.serialize());
        again.insertAsLatest(22, 60, bytes("again"));
        print("versions-truncated", again.serialize());
    }

    static void withHeaders() throws Exception {
        print("value-timestamp-headers", new ValueTimestampHeadersSerializer<>(TEXT.serializer())
            .serialize("t", headers(), ValueTimestampHeaders.make("value", TIME, headers())));
        print("value-timestamp-no-headers", new ValueTimestampHeadersSerializer<>(TEXT.serializer())
            .serialize("t", new RecordHeaders(), ValueTimestampHeaders.make("value", TIME, new RecordHeaders())));
        print("aggregation-with-headers", new AggregationWithHeadersSerializer<>(TEXT.serializer())
            .serialize("t", headers(), AggregationWithHeaders.make("value", headers())));
    }

    public static void main(String[] args) throws Exception {
        windows();
        values();
        foreignKeys();
        buffers();
        versions();
        withHeaders();
    }
}
