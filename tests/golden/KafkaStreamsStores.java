// State stores of Kafka Streams under random operations, for the golden tests: prints each operation with its
// result and what was written to the changelog. It uses package-private classes: compile it with javac (with the
// jars of kafka-streams, kafka-streams-test-utils, kafka-clients, rocksdbjni and slf4j) and run it from the
// folder of the classes before those jars.
package org.apache.kafka.streams.state.internals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.function.Supplier;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;
import org.apache.kafka.streams.test.TestRecord;

@SuppressWarnings({"unchecked", "rawtypes"})
public class KafkaStreamsStores {
    static final String[] KEYS = {"a", "ab", "b", "c"};
    static Random random;
    static long time;
    static boolean hasNullBounds, hasHeaders;

    static String key() {
        return KEYS[random.nextInt(KEYS.length)];
    }

    static String bound() {
        return hasNullBounds && random.nextInt(5) == 0 ? null : key();
    }

    static Long value() {
        return random.nextInt(6) == 0 ? null : (long) random.nextInt(100);
    }

    static long near() {
        return Math.max(0, time - random.nextInt(160) + 10);
    }

    static String text(Object value) {
        if (value instanceof ValueTimestampHeaders) {
            ValueTimestampHeaders<Long> all = (ValueTimestampHeaders<Long>) value;
            return all.value() + "~" + all.timestamp() + "~" + text(all.headers());
        }
        if (value instanceof AggregationWithHeaders) {
            AggregationWithHeaders<Long> both = (AggregationWithHeaders<Long>) value;
            return both.aggregation() + "~~" + text(both.headers());
        }
        if (value instanceof ValueAndTimestamp) {
            ValueAndTimestamp<Long> both = (ValueAndTimestamp<Long>) value;
            return both.value() + "~" + both.timestamp();
        }
        if (value instanceof VersionedRecord) {
            VersionedRecord<Long> record = (VersionedRecord<Long>) value;
            return record.value() + "~" + record.timestamp();
        }
        if (value instanceof Windowed) {
            Windowed<String> windowed = (Windowed<String>) value;
            return windowed.key() + "@" + windowed.window().start() + "/" + windowed.window().end();
        }
        return String.valueOf(value);
    }

    static String text(Headers headers) {
        List<String> texts = new ArrayList<>();
        for (Header header : headers) {
            texts.add(header.key() + ":" + (header.value() == null ? "null" : HexFormat.of().formatHex(header.value())));
        }
        return String.join("+", texts);
    }

    static Headers headers() {
        Headers headers = new RecordHeaders();
        for (int i = random.nextInt(3); i > 0; i--) {
            headers.add("h" + i, random.nextInt(4) == 0 ? null : new byte[random.nextInt(3)]);
        }
        return headers;
    }

    static Object timestamped(Long plain, long timestamp) {
        if (plain == null) return null;
        return hasHeaders ? ValueTimestampHeaders.make(plain, timestamp, headers()) : ValueAndTimestamp.make(plain, timestamp);
    }

    static String rows(KeyValueIterator iterator) {
        List<String> rows = new ArrayList<>();
        try (KeyValueIterator open = iterator) {
            while (open.hasNext()) {
                KeyValue row = (KeyValue) open.next();
                rows.add(text(row.key) + "=" + text(row.value));
            }
        } catch (NullPointerException deleted) {  // stores with headers fail at entries that are deleted in the cache
            return "=null";
        }
        return rows.isEmpty() ? "-" : String.join(",", rows);
    }

    static void say(String operation, Object result) {
        System.out.println(operation + " -> " + (result instanceof String ? result : text(result)));
    }

    static void keyValue(KeyValueStore store, boolean timestamped, boolean ranges) {
        String key = key(), other = bound(), another = bound();
        Long plain = value();
        Object value = timestamped && plain != null ? timestamped(plain, time - random.nextInt(5)) : plain;
        switch (random.nextInt(ranges ? 12 : 7)) {
            case 0, 1, 2, 3 -> { store.put(key, value); say("put " + key + " " + text(value), "ok"); }
            case 4 -> say("put_if_absent " + key + " " + text(value), store.putIfAbsent(key, value));
            case 5 -> say("delete " + key, store.delete(key));
            case 6 -> say("get " + key, store.get(key));
            case 7 -> say("range " + other + " " + another, rows(store.range(other, another)));
            case 8 -> say("reverse_range " + other + " " + another, rows(store.reverseRange(other, another)));
            case 9 -> say("all", rows(store.all()));
            case 10 -> say("reverse_all", rows(store.reverseAll()));
            default -> say("prefix_scan " + key, rows(store.prefixScan(key, new StringSerializer())));
        }
    }

    static void window(WindowStore store, boolean timestamped) {
        String key = key(), other = bound(), another = bound();
        Long plain = value();
        long start = near(), from = near(), to = from + random.nextInt(80);
        Object value = timestamped && plain != null ? timestamped(plain, time) : plain;
        String times = " " + from + " " + to;
        switch (random.nextInt(15)) {
            case 0, 1, 2, 3, 4, 5 -> { store.put(key, value, start); say("put " + key + " " + text(value) + " " + start, "ok"); }
            case 6 -> say("fetch " + key + " " + start, store.fetch(key, start));
            case 7 -> say("fetch_range " + key + times, rows(store.fetch(key, from, to)));
            case 8 -> say("backward_fetch_range " + key + times, rows(store.backwardFetch(key, from, to)));
            case 9 -> say("fetch_key_range " + other + " " + another + times, rows(store.fetch(other, another, from, to)));
            case 10 -> say("backward_fetch_key_range " + other + " " + another + times,
                rows(store.backwardFetch(other, another, from, to)));
            case 11 -> say("fetch_all" + times, rows(store.fetchAll(from, to)));
            case 12 -> say("backward_fetch_all" + times, rows(store.backwardFetchAll(from, to)));
            case 13 -> say("all", rows(store.all()));
            default -> say("backward_all", rows(store.backwardAll()));
        }
    }

    static void session(SessionStore store, boolean byEnd) {
        String key = key(), other = bound(), another = bound();
        Long plain = value();
        Object value = hasHeaders ? AggregationWithHeaders.make(plain, headers()) : plain;
        long start = near(), end = start + random.nextInt(40), latest = end + random.nextInt(60);
        String session = key + " " + start + " " + end;
        Windowed<String> windowed = new Windowed<>(key, new SessionWindow(start, end));
        // backwards, the cache of a session store leaves out sessions that end after the latest start
        int step = random.nextInt(byEnd ? 15 : 14);
        switch (!hasNullBounds && (step == 9 || step == 11 || step == 13) ? 8 : step) {
            case 0, 1, 2, 3, 4, 5 -> { store.put(windowed, value); say("put " + session + " " + text(value), "ok"); }
            case 6 -> { store.remove(windowed); say("remove " + session, "ok"); }
            case 7 -> say("fetch_session " + session, store.fetchSession(key, start, end));
            case 8 -> say("find_sessions " + session, rows(store.findSessions(key, start, end)));
            case 9 -> say("backward_find_sessions " + session, rows(store.backwardFindSessions(key, start, end)));
            case 10 -> say("find_sessions_key_range " + other + " " + another + " " + start + " " + latest,
                rows(store.findSessions(other, another, start, latest)));
            case 11 -> say("backward_find_sessions_key_range " + other + " " + another + " " + start + " " + latest,
                rows(store.backwardFindSessions(other, another, start, latest)));
            case 12 -> say("fetch " + key, rows(store.fetch(key)));
            case 13 -> say("backward_fetch " + key, rows(store.backwardFetch(key)));
            default -> say("find_sessions_by_end " + start + " " + latest, rows(store.findSessions(start, latest)));
        }
    }

    static void versioned(VersionedKeyValueStore store) {
        String key = key();
        Long value = value();
        long timestamp = near();
        switch (random.nextInt(8)) {
            case 0, 1, 2, 3 -> say("put " + key + " " + value + " " + timestamp, store.put(key, value, timestamp));
            case 4 -> say("delete " + key + " " + timestamp, store.delete(key, timestamp));
            case 5 -> say("get " + key, store.get(key));
            default -> say("get_as_of " + key + " " + timestamp, store.get(key, timestamp));
        }
    }

    interface Step {
        void run(StateStore store);
    }

    static void run(String name, long cacheBytes, StoreBuilder builder, Step step) {
        random = new Random(name.hashCode());
        time = 100;
        Topology topology = new Topology();
        topology.addSource("source", "in");
        topology.addProcessor("processor", () -> new Processor<byte[], byte[], Void, Void>() {
            StateStore store;

            public void init(ProcessorContext<Void, Void> context) {
                store = context.getStateStore("store");
            }

            public void process(Record<byte[], byte[]> record) {
                for (int i = random.nextInt(6); i >= 0; i--) step.run(store);
            }
        }, "source");
        topology.addStateStore(builder, "processor");
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1");
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cacheBytes);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        config.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir") + "/stores-" + name);
        System.out.println("store " + name + " " + cacheBytes);
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config)) {
            TestInputTopic<String, Long> in = driver.createInputTopic("in", new StringSerializer(), new LongSerializer());
            TestOutputTopic<byte[], byte[]> log = driver.createOutputTopic("app-store-changelog",
                new ByteArrayDeserializer(), new ByteArrayDeserializer());
            for (int i = 0; i < 60; i++) {
                time += random.nextInt(12);
                Headers headers = hasHeaders ? headers() : new RecordHeaders();
                System.out.println("record " + time + (hasHeaders ? " " + text(headers) : ""));
                in.pipeInput(new TestRecord<>("k", 1L, headers, time));
                for (TestRecord<byte[], byte[]> each : log.readRecordsToList()) {
                    String value = each.value() == null ? "null" : HexFormat.of().formatHex(each.value());
                    System.out.println("log " + HexFormat.of().formatHex(each.key()) + " " + value + " " + each.timestamp()
                        + (hasHeaders ? " " + text(each.headers()) : ""));
                }
            }
        }
    }

    static StoreBuilder cached(StoreBuilder builder, boolean isCached) {
        return isCached ? builder.withCachingEnabled() : builder.withCachingDisabled();
    }

    static void withHeaders(boolean isCached, long bytes, String suffix) {
        hasHeaders = true;
        hasNullBounds = !isCached;
        run("headers-memory" + suffix, bytes, cached(Stores.timestampedKeyValueStoreWithHeadersBuilder(
            Stores.inMemoryKeyValueStore("store"), Serdes.String(), Serdes.Long()), isCached),
            store -> keyValue((KeyValueStore) store, true, true));
        run("headers-rocks" + suffix, bytes, cached(Stores.timestampedKeyValueStoreWithHeadersBuilder(
            Stores.persistentTimestampedKeyValueStoreWithHeaders("store"), Serdes.String(), Serdes.Long()), isCached),
            store -> keyValue((KeyValueStore) store, true, true));
        run("headers-window-rocks" + suffix, bytes, cached(Stores.timestampedWindowStoreWithHeadersBuilder(
            new RocksDbWindowHeadersBytesStoreSupplier("store", 100, 50, 10, false), Serdes.String(), Serdes.Long()),
            isCached), store -> window((WindowStore) store, true));
        run("headers-session-rocks" + suffix, bytes, cached(Stores.sessionStoreWithHeadersBuilder(
            new RocksDbSessionHeadersBytesStoreSupplier("store", 100), Serdes.String(), Serdes.Long()), isCached),
            store -> session((SessionStore) store, false));
        if (!isCached) {
            run("headers-window-by-time-index", bytes, Stores.timestampedWindowStoreWithHeadersBuilder(
                RocksDbIndexedTimeOrderedWindowBytesStoreWithHeadersSupplier.create("store", Duration.ofMillis(100),
                    Duration.ofMillis(10), false, true),
                Serdes.String(), Serdes.Long()), store -> window((WindowStore) store, true));
        }
        hasHeaders = false;
    }

    public static void main(String[] args) {
        Duration retention = Duration.ofMillis(100), size = Duration.ofMillis(10);
        for (boolean isCached : new boolean[] {false, true}) {
            long bytes = isCached ? 400 : 0;
            String suffix = isCached ? "-cached" : "";
            hasNullBounds = true;
            Map<String, KeyValueBytesStoreSupplier> keyValues = Map.of("memory", Stores.inMemoryKeyValueStore("store"),
                "rocks", Stores.persistentKeyValueStore("store"), "lru", Stores.lruMap("store", 3));
            for (String form : new String[] {"memory", "rocks", "lru"}) {
                run("key-value-" + form + suffix, bytes, cached(Stores.keyValueStoreBuilder(keyValues.get(form),
                    Serdes.String(), Serdes.Long()), isCached), store -> keyValue((KeyValueStore) store, false, true));
            }
            run("timestamped-memory" + suffix, bytes, cached(Stores.timestampedKeyValueStoreBuilder(
                Stores.inMemoryKeyValueStore("store"), Serdes.String(), Serdes.Long()), isCached),
                store -> keyValue((KeyValueStore) store, true, true));
            run("timestamped-rocks" + suffix, bytes, cached(Stores.timestampedKeyValueStoreBuilder(
                Stores.persistentTimestampedKeyValueStore("store"), Serdes.String(), Serdes.Long()), isCached),
                store -> keyValue((KeyValueStore) store, true, true));
            hasNullBounds = !isCached;
            run("window-memory" + suffix, bytes, cached(Stores.windowStoreBuilder(Stores.inMemoryWindowStore(
                "store", retention, size, false), Serdes.String(), Serdes.Long()), isCached),
                store -> window((WindowStore) store, false));
            run("window-rocks" + suffix, bytes, cached(Stores.windowStoreBuilder(new RocksDbWindowBytesStoreSupplier(
                "store", 100, 50, 10, false, RocksDbWindowBytesStoreSupplier.WindowStoreTypes.DEFAULT_WINDOW_STORE),
                Serdes.String(), Serdes.Long()), isCached), store -> window((WindowStore) store, false));
            run("timestamped-window-rocks" + suffix, bytes, cached(Stores.timestampedWindowStoreBuilder(
                new RocksDbWindowBytesStoreSupplier("store", 100, 50, 10, false,
                RocksDbWindowBytesStoreSupplier.WindowStoreTypes.TIMESTAMPED_WINDOW_STORE),
                Serdes.String(), Serdes.Long()), isCached), store -> window((WindowStore) store, true));
            run("timestamped-window-by-time" + suffix, bytes, cached(Stores.timestampedWindowStoreBuilder(
                new RocksDbIndexedTimeOrderedWindowBytesStoreSupplier("store", 100, 50, 10, false, false, false),
                Serdes.String(), Serdes.Long()), isCached), store -> window((WindowStore) store, true));
            run("session-memory" + suffix, bytes, cached(Stores.sessionStoreBuilder(Stores.inMemorySessionStore(
                "store", retention), Serdes.String(), Serdes.Long()), isCached),
                store -> session((SessionStore) store, !isCached));
            run("session-rocks" + suffix, bytes, cached(Stores.sessionStoreBuilder(
                new RocksDbSessionBytesStoreSupplier("store", 100), Serdes.String(), Serdes.Long()), isCached),
                store -> session((SessionStore) store, false));
        }
        for (boolean isCached : new boolean[] {false, true}) {
            withHeaders(isCached, isCached ? 400 : 0, isCached ? "-cached" : "");
        }
        hasNullBounds = true;
        run("window-memory-duplicates", 0, Stores.windowStoreBuilder(Stores.inMemoryWindowStore(
            "store", retention, size, true), Serdes.String(), Serdes.Long()), store -> window((WindowStore) store, false));
        run("window-rocks-duplicates", 0, Stores.windowStoreBuilder(new RocksDbWindowBytesStoreSupplier(
            "store", 100, 50, 10, true, RocksDbWindowBytesStoreSupplier.WindowStoreTypes.DEFAULT_WINDOW_STORE),
            Serdes.String(), Serdes.Long()), store -> window((WindowStore) store, false));
        run("timestamped-window-by-time-index", 0, Stores.timestampedWindowStoreBuilder(
            new RocksDbIndexedTimeOrderedWindowBytesStoreSupplier("store", 100, 50, 10, false, true, false),
            Serdes.String(), Serdes.Long()), store -> window((WindowStore) store, true));
        run("session-by-time-index", 0, Stores.sessionStoreBuilder(new RocksDbTimeOrderedSessionBytesStoreSupplier(
            "store", 100, true), Serdes.String(), Serdes.Long()), store -> session((SessionStore) store, true));
        run("versioned", 0, Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore("store",
            retention, Duration.ofMillis(30)), Serdes.String(), Serdes.Long()), store -> versioned((VersionedKeyValueStore) store));
    }
}
