import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;

/** The example's word count: bootstrap, application id, guarantee, input, output, state folder, words. */
public class CountWords {
    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[2]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[5]);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        // every update of a count is written, so that the output is the same each time
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        CountDownLatch words = new CountDownLatch(Integer.parseInt(arguments[6]));
        KafkaStreams streams =
                new KafkaStreams(WordCount.topology(arguments[3], arguments[4], words::countDown), config);
        streams.start();
        boolean counted = words.await(40, TimeUnit.SECONDS);
        boolean closed = streams.close(Duration.ofSeconds(20));
        System.out.println("counted: " + counted + ", closed: " + closed);
    }
}
