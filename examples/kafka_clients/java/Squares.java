import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Apache Kafka's own client: read, work and write in transactions. Its argument is bootstrap.servers. */
public class Squares {
    private static final int COUNT = 1_000;
    private static final Duration WAIT = Duration.ofSeconds(1);

    public static void main(String[] arguments) {
        Map<String, Object> cluster = Map.of("bootstrap.servers", arguments[0]);
        try (var producer = producer(cluster, Map.of("compression.type", "lz4"))) {
            for (int number = 0; number < COUNT; number++) {
                producer.send(new ProducerRecord<>("java-numbers", Integer.toString(number)));
            }
        }
        // the group's members keep their shares by the protocol of KIP-848
        try (var reader = consumer(cluster, Map.of("group.id", "java-squares", "group.protocol", "consumer"));
                var writer = producer(cluster, Map.of("transactional.id", "java-squares-1"))) {
            reader.subscribe(List.of("java-numbers"));
            writer.initTransactions();
            for (int done = 0; done < COUNT; ) {
                ConsumerRecords<String, String> records = reader.poll(WAIT);
                writer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    long number = Long.parseLong(record.value());
                    writer.send(new ProducerRecord<>("java-results", Long.toString(number * number)));
                }
                writer.sendOffsetsToTransaction(records.nextOffsets(), reader.groupMetadata());
                writer.commitTransaction();
                done += records.count();
            }
        }
        try (var checker = consumer(cluster, Map.of("group.id", "java-checker", "isolation.level", "read_committed"))) {
            checker.subscribe(List.of("java-results"));
            int found = 0;
            long sum = 0;
            while (found < COUNT) {
                for (ConsumerRecord<String, String> record : checker.poll(WAIT)) {
                    found += 1;
                    sum += Long.parseLong(record.value());
                }
            }
            System.out.println("kafka-clients: " + found + " squares, sum " + sum);
        }
    }

    private static KafkaProducer<String, String> producer(Map<String, Object> cluster, Map<String, Object> more) {
        return new KafkaProducer<>(both(cluster, more), new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(Map<String, Object> cluster, Map<String, Object> more) {
        Map<String, Object> config = both(cluster, more);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    private static Map<String, Object> both(Map<String, Object> cluster, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(cluster);
        config.putAll(more);
        return config;
    }
}
