import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.test.TestRecord;

/** One case per line of stdin as JSON, one result per line of stdout; the folder for state is the argument. */
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Instant START = Instant.ofEpochMilli(1_000);

    private final JsonNode spec;
    private final String folder;
    private final ObjectNode result = JSON.createObjectNode();
    private final List<String> effects = new ArrayList<>();
    private String place = "build";

    private Oracle(JsonNode spec, String folder) {
        this.spec = spec;
        this.folder = folder;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        long number = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Oracle oracle = new Oracle(JSON.readTree(line), arguments[0] + "/" + number++);
            oracle.run();
            out.println(JSON.writeValueAsString(oracle.result));
            out.flush();
        }
    }

    private Properties config() {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        config.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        spec.get("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
        return config;
    }

    private void run() {
        TopologyTestDriver driver = null;
        try {
            Properties config = config();
            Topology topology = new Building(config, effects, folder).build(spec.get("nodes"));
            result.put("describe", topology.describe().toString());
            place = "start";
            driver = new TopologyTestDriver(topology, config, START);
            feed(driver);
            place = "close";
            result.put("dropped", dropped(driver));
            ObjectNode stores = result.putObject("stores");
            List<Long> times = times();
            for (Map.Entry<String, StateStore> each : new TreeMap<>(driver.getAllStateStores()).entrySet()) {
                new Dump(stores.putArray(each.getKey()), times).store(each.getValue());
            }
            driver.close();
            read(driver, spec.get("events").size());
            printed();
        } catch (Throwable error) {
            fail(error);
            closeQuietly(driver);
        }
        effects.forEach(result.withArray("effects")::add);
    }

    private void printed() throws IOException {
        ObjectNode printed = result.putObject("printed");
        for (JsonNode node : spec.get("nodes")) {
            if (Specs.string(node, "op").equals("print")) {
                Path file = Path.of(Building.printed(folder, node));
                ArrayNode lines = printed.putArray(Specs.string(node, "id"));
                Files.readAllLines(file).forEach(lines::add);
                Files.delete(file);
            }
        }
    }

    private void fail(Throwable error) {
        ObjectNode failed = result.putObject("error");
        failed.put("place", place);
        ArrayNode chain = failed.putArray("chain");
        for (Throwable each = error; each != null; each = each.getCause()) {
            chain.add(each.getClass().getSimpleName() + ": " + each.getMessage());
        }
        StackTraceElement[] trace = error.getStackTrace();
        for (int each = 0; each < Math.min(6, trace.length); each++) {
            failed.withArray("trace").add(trace[each].toString());
        }
    }

    private static void closeQuietly(TopologyTestDriver driver) {
        try {
            if (driver != null) {
                driver.close();
            }
        } catch (RuntimeException again) {
            // the first error is the one that is reported
        }
    }

    private void feed(TopologyTestDriver driver) {
        int number = 0;
        Map<String, TestInputTopic<byte[], byte[]>> inputs = new TreeMap<>();
        for (JsonNode event : spec.get("events")) {
            place = "event " + number;
            if (event.has("advance_ms")) {
                driver.advanceWallClockTime(Duration.ofMillis(event.get("advance_ms").asLong()));
            } else {
                TestInputTopic<byte[], byte[]> input = inputs.computeIfAbsent(event.get("topic").asText(),
                    topic -> driver.createInputTopic(topic, new ByteArraySerializer(), new ByteArraySerializer()));
                Headers headers = new RecordHeaders();
                for (JsonNode header : event.withArray("headers")) {
                    headers.add(header.get(0).asText(), bytes(header.get(1)));
                }
                input.pipeInput(new TestRecord<>(bytes(event.get("key")), bytes(event.get("value")), headers, event.get("timestamp").asLong()));
            }
            read(driver, number++);
        }
    }

    /** What the event gave: per topic its records, as [event, topic, key, value, timestamp, headers]. */
    private void read(TopologyTestDriver driver, int event) {
        for (String topic : new TreeSet<>(driver.producedTopicNames())) {
            var output = driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            if (output.isEmpty()) {
                continue;
            }
            for (TestRecord<byte[], byte[]> record : output.readRecordsToList()) {
                ArrayNode row = result.withArray("records").addArray();
                row.add(event).add(topic).add(hex(record.key())).add(hex(record.value())).add(record.timestamp());
                ArrayNode headers = row.addArray();
                for (Header header : record.headers()) {
                    headers.addArray().add(header.key()).add(hex(header.value()));
                }
            }
        }
    }

    private List<Long> times() {
        TreeSet<Long> times = new TreeSet<>();
        for (JsonNode event : spec.get("events")) {
            if (event.has("timestamp")) {
                times.add(Math.max(0, event.get("timestamp").asLong()));
            }
        }
        return new ArrayList<>(times);
    }

    private static double dropped(TopologyTestDriver driver) {
        double sum = 0;
        for (Map.Entry<MetricName, ? extends Metric> each : driver.metrics().entrySet()) {
            if (each.getKey().name().equals("dropped-records-total")) {
                sum += (Double) each.getValue().metricValue();
            }
        }
        return sum;
    }

    private static byte[] bytes(JsonNode hex) {
        return hex == null || hex.isNull() ? null : HexFormat.of().parseHex(hex.asText());
    }

    static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }
}
