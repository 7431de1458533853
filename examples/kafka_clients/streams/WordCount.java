import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/** Kafka Streams: counts words, exactly once. Its argument is bootstrap.servers. */
public class WordCount {
    private static final String LINE = "the log is the thing";
    private static final int LINES = 200;
    private static final Map<String, Integer> COUNTS = Map.of("is", LINES, "log", LINES, "the", 2 * LINES, "thing", LINES);

    /** Lines of one topic become counts of words in another; `counted` is told of each word. */
    public static Topology topology(String input, String output, Runnable counted) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> List.of(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .mapValues(count -> Long.toString(count))
                .peek((word, count) -> counted.run())
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> cluster = Map.of("bootstrap.servers", arguments[0]);
        write(cluster);
        Properties config = new Properties();
        config.putAll(cluster);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "streams-word-count");
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.STATE_DIR_CONFIG, "build/state");
        // every update of a count is written, not the last of some time alone
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put("auto.offset.reset", "earliest");
        CountDownLatch words = new CountDownLatch(LINES * LINE.split(" ").length);
        try (KafkaStreams streams = new KafkaStreams(topology("streams-lines", "streams-counts", words::countDown), config)) {
            streams.cleanUp(); // what an earlier run on another cluster left
            streams.start();
            words.await(1, TimeUnit.MINUTES);
        }
        print(cluster);
    }

    private static void write(Map<String, Object> cluster) throws Exception {
        try (Admin admin = Admin.create(cluster)) {
            admin.createTopics(List.of(new NewTopic("streams-lines", 3, (short) 1), new NewTopic("streams-counts", 3, (short) 1)))
                    .all()
                    .get();
        }
        try (var producer = new KafkaProducer<>(cluster, new StringSerializer(), new StringSerializer())) {
            for (int line = 0; line < LINES; line++) {
                producer.send(new ProducerRecord<>("streams-lines", LINE));
            }
        }
    }

    private static void print(Map<String, Object> cluster) {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", cluster.get("bootstrap.servers"),
                "group.id", "streams-checker",
                "auto.offset.reset", "earliest",
                "isolation.level", "read_committed");
        Map<String, Integer> found = new TreeMap<>();
        try (var consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("streams-counts"));
            while (!found.equals(COUNTS)) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    found.put(record.key(), Integer.parseInt(record.value()));
                }
            }
        }
        System.out.println("kafka-streams: " + found);
    }
}
