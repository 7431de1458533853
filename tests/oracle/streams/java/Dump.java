import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

/** The contents of a store, in the order of its iterator, as rows of texts. */
@SuppressWarnings("unchecked")
final class Dump {
    private static final String[] KEYS = {"a", "b", "c", "d"};
    private static final int NUMBERS = 4;
    private final ArrayNode rows;
    private final List<Long> times;

    Dump(ArrayNode rows, List<Long> times) {
        this.rows = rows;
        this.times = times;
    }

    /** Rows of a store that cannot be read are [unreadable]: windows of a join may have no length. */
    void store(StateStore store) {
        try {
            read(store);
        } catch (IllegalArgumentException error) {
            rows.removeAll().addArray().add("unreadable");
        }
    }

    private void read(StateStore store) {
        if (store instanceof KeyValueStore) {
            iterate(((KeyValueStore<Object, Object>) store).all());
        } else if (store instanceof WindowStore) {
            iterate(((WindowStore<Object, Object>) store).all());
        } else if (store instanceof SessionStore) {
            SessionStore<Object, Object> sessions = (SessionStore<Object, Object>) store;
            for (String key : KEYS) {
                keyed(() -> iterate((Iterator<?>) sessions.findSessions(key, 0, Long.MAX_VALUE)));
            }
            for (long key = 0; key < NUMBERS; key++) {
                Object number = key;
                keyed(() -> iterate((Iterator<?>) sessions.findSessions(number, 0, Long.MAX_VALUE)));
            }
        } else if (store instanceof VersionedKeyValueStore) {
            VersionedKeyValueStore<Object, Object> versions = (VersionedKeyValueStore<Object, Object>) store;
            for (String key : KEYS) {
                keyed(() -> versions(versions, key));
            }
            for (long key = 0; key < NUMBERS; key++) {
                Object number = key;
                keyed(() -> versions(versions, number));
            }
        } else {
            rows.addArray().add("unreadable");
        }
    }

    /** A store whose keys are of the other type has none of these. */
    private static void keyed(Runnable read) {
        try {
            read.run();
        } catch (ClassCastException | org.apache.kafka.streams.errors.StreamsException other) {
            // the key is of another type
        }
    }

    private void versions(VersionedKeyValueStore<Object, Object> versions, Object key) {
        version(key, "latest", versions.get(key));
        for (long time : times) {
            version(key, Long.toString(time), versions.get(key, time));
        }
    }

    private void version(Object key, String asOf, VersionedRecord<Object> found) {
        if (found != null) {
            rows.addArray().add(Functions.text(key)).add(asOf).add(text(found.value()))
                .add(found.timestamp());
        }
    }

    private void iterate(Iterator<?> entries) {
        while (entries.hasNext()) {
            KeyValue<Object, Object> entry = (KeyValue<Object, Object>) entries.next();
            rows.addArray().add(text(entry.key)).add(text(entry.value));
        }
        if (entries instanceof AutoCloseable) {
            try {
                ((AutoCloseable) entries).close();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private static String text(Object value) {
        if (value instanceof ValueAndTimestamp) {
            ValueAndTimestamp<?> both = (ValueAndTimestamp<?>) value;
            return text(both.value()) + " @" + both.timestamp();
        }
        if (value instanceof ValueTimestampHeaders) {
            ValueTimestampHeaders<?> all = (ValueTimestampHeaders<?>) value;
            return text(all.value()) + " @" + all.timestamp() + " " + Functions.text(all.headers());
        }
        if (value instanceof AggregationWithHeaders) {
            AggregationWithHeaders<?> both = (AggregationWithHeaders<?>) value;
            return text(both.aggregation()) + " " + Functions.text(both.headers());
        }
        if (value instanceof Bytes) {
            return Oracle.hex(((Bytes) value).get());
        }
        if (value == null || value instanceof Long || value instanceof String || value instanceof org.apache.kafka.streams.kstream.Windowed) {
            return Functions.text(value);
        }
        return value.getClass().getSimpleName();
    }
}
