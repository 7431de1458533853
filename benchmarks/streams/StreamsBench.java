import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The applications of `make bench-streams` in Kafka Streams. Each line of stdin is an order: words name=value;
 * names with "config." are settings. The program starts the application, prints "running" when its stores are
 * restored and it is running, answers the line "tasks" with the numbers of its active and its standby tasks, and
 * stops it at the line "stop", which it answers with "stopped".
 */
public class StreamsBench {
    /** Number, sum and maximum: 24 bytes. */
    private static final Serde<long[]> ROWS = Serdes.serdeFrom(
        (topic, row) -> row == null
            ? null
            : ByteBuffer.allocate(24).putLong(row[0]).putLong(row[1]).putLong(row[2]).array(),
        (topic, data) -> {
            if (data == null) {
                return null;
            }
            final ByteBuffer row = ByteBuffer.wrap(data);
            return new long[] {row.getLong(), row.getLong(), row.getLong()};
        });

    private static StreamsBuilder topology(final Map<String, String> order) {
        final StreamsBuilder builder = new StreamsBuilder();
        final String output = order.get("output");
        if (order.get("workload").equals("restore")) {
            builder.stream(order.get("input"), Consumed.with(Serdes.String(), Serdes.ByteArray()))
                .groupByKey()
                .reduce((old, value) -> value, Materialized.as("latest"));
            return builder;
        }
        final KStream<String, Long> input = builder.stream(order.get("input"));
        switch (order.get("workload")) {
            case "filter-map":
            case "arrow":
                input.filter((key, value) -> value % 10 != 0).mapValues(value -> value * 2).to(output);
                break;
            case "count":
                input.groupByKey().count(Materialized.as("counts")).toStream().to(output);
                break;
            case "moves":
                final String instance = order.get("instance");
                input.groupByKey()
                    .count(Materialized.as("counts"))
                    .toStream()
                    .mapValues(count -> instance)
                    .to(output, Produced.with(Serdes.String(), Serdes.String()));
                break;
            case "named":
                input.groupByKey()
                    .aggregate(
                        () -> new long[] {0, 0, Long.MIN_VALUE},
                        (key, value, row) ->
                            new long[] {row[0] + 1, row[1] + value, Math.max(row[2], value)},
                        Materialized.<String, long[], KeyValueStore<Bytes, byte[]>>as("totals")
                            .withValueSerde(ROWS))
                    .toStream()
                    .to(output, Produced.with(Serdes.String(), ROWS));
                break;
            case "windowed-sum":
                input.groupByKey()
                    .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(5)))
                    .reduce(Long::sum, Materialized.as("sums"))
                    .toStream()
                    .to(output, Produced.with(
                        WindowedSerdes.timeWindowedSerdeFrom(String.class, 300_000L), Serdes.Long()));
                break;
            case "join":
                final KTable<String, Long> table = builder.table(order.get("table"), Materialized.as("rows"));
                input.join(table, (value, row) -> value + row).to(output);
                break;
            default:
                throw new IllegalArgumentException(order.get("workload"));
        }
        return builder;
    }

    private static Properties settings(final Map<String, String> order) {
        final Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, order.get("application"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, order.get("bootstrap"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, order.get("state"));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, order.get("guarantee"));
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, order.get("commit"));
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.LongSerde.class);
        settings.put("consumer.auto.offset.reset", "earliest");
        order.forEach((name, value) -> {
            if (name.startsWith("config.")) {
                settings.put(name.substring("config.".length()), value);
            }
        });
        return settings;
    }

    /** Of a streams group the number of standbys is a config of the group. */
    private static void setStandbys(final Map<String, String> order) throws Exception {
        final String count = order.get("standbys");
        if (count == null) {
            return;
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", order.get("bootstrap")))) {
            final ConfigResource group =
                new ConfigResource(ConfigResource.Type.GROUP, order.get("application"));
            final AlterConfigOp change = new AlterConfigOp(
                new ConfigEntry("streams.num.standby.replicas", count), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(group, List.of(change))).all().get();
        }
    }

    private static String tasks(final KafkaStreams streams) {
        final int[] found = new int[2];
        streams.metadataForLocalThreads().forEach(thread -> {
            found[0] += thread.activeTasks().size();
            found[1] += thread.standbyTasks().size();
        });
        return found[0] + " " + found[1];
    }

    public static void main(final String[] arguments) throws Exception {
        final BufferedReader orders =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("ready");
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            final Map<String, String> order = new HashMap<>();
            for (final String word : line.split(" ")) {
                final int at = word.indexOf('=');
                order.put(word.substring(0, at), word.substring(at + 1));
            }
            setStandbys(order);
            final CountDownLatch running = new CountDownLatch(1);
            final KafkaStreams streams = new KafkaStreams(topology(order).build(), settings(order));
            streams.setStateListener((now, before) -> {
                if (now == KafkaStreams.State.RUNNING) {
                    running.countDown();
                }
                if (now == KafkaStreams.State.ERROR) {
                    System.err.println("the application failed");
                    Runtime.getRuntime().halt(1);
                }
            });
            streams.start();
            running.await();
            System.out.println("running");
            while (orders.readLine().equals("tasks")) {
                System.out.println(tasks(streams));
            }
            streams.close(CloseOptions.groupMembershipOperation(
                CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
            System.out.println("stopped");
        }
    }
}
