// One thread of Apache Kafka's own log cleaner. In source launch mode with Kafka's jars:
// `KafkaCleaner.java <bytes of the offset map> <folder> ...` cleans the log in each folder up to its active segment,
// and prints a line for each: bytes of log, seconds, seconds of the first pass, CPU seconds of the JVM, bytes kept.
import com.sun.management.OperatingSystemMXBean;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class KafkaCleaner {
    // the defaults of log.cleaner.io.buffer.size (for reading and writing) and its load factor
    static final int BUFFER = 512 * 1024 / 2;
    static final double LOAD_FACTOR = 0.9;
    static final OperatingSystemMXBean JVM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    static long size(UnifiedLog log) {
        return log.logSegments().stream().mapToLong(LogSegment::size).sum();
    }

    static void clean(Cleaner cleaner, KafkaScheduler scheduler, File folder) throws Exception {
        LogConfig config = new LogConfig(new HashMap<>(Map.of("cleanup.policy", "compact")));
        UnifiedLog log = UnifiedLog.create(folder, config, 0L, 0L, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.empty(), new ConcurrentHashMap<>(), false, LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        long active = log.activeSegment().baseOffset();
        long bytes = size(log) - log.activeSegment().size();
        LogToClean all = new LogToClean(log, 0L, active, true);
        long cpu = JVM.getProcessCpuTime(), began = System.nanoTime();
        Map.Entry<Long, CleanerStats> done = cleaner.clean(all);
        double seconds = (System.nanoTime() - began) / 1e9;
        if (done.getKey() != active)
            throw new IllegalStateException("cleaned up to " + done.getKey() + " of " + active);
        System.out.printf("%d %.6f %.6f %.6f %d%n", bytes, seconds, done.getValue().elapsedIndexSecs(),
            (JVM.getProcessCpuTime() - cpu) / 1e9, size(log) - log.activeSegment().size());
        log.close();
    }

    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        Throttler none = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(Integer.parseInt(arguments[0])), BUFFER,
            1024 * 1024 + 12, LOAD_FACTOR, none, Time.SYSTEM, partition -> { });
        for (String folder : List.of(arguments).subList(1, arguments.length))
            clean(cleaner, scheduler, new File(folder));
        scheduler.shutdown();
        System.exit(0);
    }
}
