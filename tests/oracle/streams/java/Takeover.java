import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/** Runs applications of Kafka Streams on a cluster: a line with {"config", "nodes"} starts one, the next line stops it. Each is answered by a line. */
public final class Takeover {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int PATIENCE_S = 60;

    private final KafkaStreams streams;
    private final CountDownLatch settled = new CountDownLatch(1);
    private volatile String error;

    private Takeover(JsonNode spec) {
        Properties config = new Properties();
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        spec.get("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
        streams = new KafkaStreams(new Building(config, new ArrayList<>(), "").build(spec.get("nodes")), config);
        streams.setUncaughtExceptionHandler(failure -> {
            error = failure + " <- " + failure.getCause();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((state, before) -> {
            if (state == KafkaStreams.State.RUNNING || state.hasCompletedShutdown()) {
                settled.countDown();
            }
        });
    }

    private String start() throws InterruptedException {
        streams.start();
        boolean isSettled = settled.await(PATIENCE_S, TimeUnit.SECONDS);
        return isSettled ? streams.state().toString() : "late: " + streams.state();
    }

    private String stop() {
        boolean isClosed = streams.close(CloseOptions.timeout(Duration.ofSeconds(PATIENCE_S))
            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        return error != null ? error : isClosed ? streams.state().toString() : "late: " + streams.state();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Takeover running = new Takeover(JSON.readTree(line));
            out.println(running.start());
            lines.readLine();
            out.println(running.stop());
        }
    }
}
