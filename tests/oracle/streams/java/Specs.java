import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.TimeWindowedDeserializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.kstream.internals.NamedInternal;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.DslStoreSuppliers;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** The small parts of a case: names, serdes, durations, stores. What a case leaves out is left out here. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Specs {
    private Specs() {}

    static String string(JsonNode spec, String field) {
        return spec.hasNonNull(field) ? spec.get(field).asText() : null;
    }

    static boolean is(JsonNode spec, String field) {
        return spec.hasNonNull(field) && spec.get(field).asBoolean();
    }

    static Duration millis(JsonNode spec, String field) {
        return spec.hasNonNull(field) ? Duration.ofMillis(spec.get(field).asLong()) : null;
    }

    static Named named(JsonNode spec) {
        return NamedInternal.with(string(spec, "name"));
    }

    static Serde<Object> serde(JsonNode spec, String field) {
        return spec.hasNonNull(field) ? serde(spec.get(field).asText()) : null;
    }

    /** "string", "long", "time:string:100" (window size in ms) or "session:string". */
    static Serde<Object> serde(String name) {
        String[] parts = name.split(":");
        switch (parts[0]) {
            case "string": return (Serde) Serdes.String();
            case "long": return (Serde) Serdes.Long();
            case "session": return (Serde) new WindowedSerdes.SessionWindowedSerde<>(serde(parts[1]));
            case "time":
                Serde<Object> inner = serde(parts[1]);
                return (Serde) Serdes.serdeFrom(
                    new TimeWindowedSerializer<>(inner.serializer()),
                    new TimeWindowedDeserializer<>(inner.deserializer(), Long.parseLong(parts[2])));
            default: throw new IllegalArgumentException(name);
        }
    }

    static DslStoreSuppliers suppliers(String type) {
        return type.equals("memory") ? BuiltInDslStoreSuppliers.IN_MEMORY : BuiltInDslStoreSuppliers.ROCKS_DB;
    }

    static KeyValueBytesStoreSupplier keyValueSupplier(JsonNode store) {
        String name = string(store, "name");
        switch (string(store, "supplier")) {
            case "memory": return Stores.inMemoryKeyValueStore(name);
            case "persistent": return Stores.persistentKeyValueStore(name);
            case "timestamped": return Stores.persistentTimestampedKeyValueStore(name);
            case "lru": return Stores.lruMap(name, 2);
            case "headers": return Stores.persistentTimestampedKeyValueStoreWithHeaders(name);
            case "versioned": return Stores.persistentVersionedKeyValueStore(name, millis(store, "history"));
            default: throw new IllegalArgumentException(store.toString());
        }
    }

    static WindowBytesStoreSupplier windowSupplier(JsonNode store, Duration size, boolean duplicates) {
        String name = string(store, "name");
        Duration retention = millis(store, "retention");
        switch (string(store, "supplier")) {
            case "memory": return Stores.inMemoryWindowStore(name, retention, size, duplicates);
            case "persistent": return Stores.persistentWindowStore(name, retention, size, duplicates);
            case "timestamped": return Stores.persistentTimestampedWindowStore(name, retention, size, duplicates);
            case "headers": return Stores.persistentTimestampedWindowStoreWithHeaders(name, retention, size, duplicates);
            default: throw new IllegalArgumentException(store.toString());
        }
    }

    static SessionBytesStoreSupplier sessionSupplier(JsonNode store) {
        String name = string(store, "name");
        Duration retention = millis(store, "retention");
        switch (string(store, "supplier")) {
            case "memory": return Stores.inMemorySessionStore(name, retention);
            case "headers": return Stores.persistentSessionStoreWithHeaders(name, retention);
            default: return Stores.persistentSessionStore(name, retention);
        }
    }

    /** `kind`: "kv", "window" or "session". Null where the case has no store. */
    static <S extends StateStore> Materialized<Object, Object, S> materialized(JsonNode spec, String kind, Duration size) {
        if (!spec.hasNonNull("store")) {
            return null;
        }
        JsonNode store = spec.get("store");
        Materialized<Object, Object, S> made;
        if (!store.hasNonNull("supplier")) {
            made = store.hasNonNull("name")
                ? Materialized.as(string(store, "name"))
                : Materialized.with(null, null);
        } else if (kind.equals("kv")) {
            made = (Materialized) Materialized.as(keyValueSupplier(store));
        } else if (kind.equals("window")) {
            made = (Materialized) Materialized.as(windowSupplier(store, size, false));
        } else {
            made = (Materialized) Materialized.as(sessionSupplier(store));
        }
        if (store.hasNonNull("key")) {
            made = made.withKeySerde(serde(store, "key"));
        }
        if (store.hasNonNull("value")) {
            made = made.withValueSerde(serde(store, "value"));
        }
        if (store.hasNonNull("cached")) {
            made = is(store, "cached") ? made.withCachingEnabled() : made.withCachingDisabled();
        }
        if (store.hasNonNull("logged")) {
            made = is(store, "logged") ? made.withLoggingEnabled(new HashMap<>()) : made.withLoggingDisabled();
        }
        if (store.hasNonNull("retention") && !store.hasNonNull("supplier")) {
            made = made.withRetention(millis(store, "retention"));
        }
        if (store.hasNonNull("type")) {
            made = made.withStoreType(suppliers(string(store, "type")));
        }
        return made;
    }

    /** A store of a processor. */
    static StoreBuilder<?> builder(JsonNode store) {
        Serde<Object> key = serde(store, "key");
        Serde<Object> value = serde(store, "value");
        StoreBuilder<?> made;
        switch (string(store, "kind")) {
            case "kv": made = Stores.keyValueStoreBuilder(keyValueSupplier(store), key, value); break;
            case "timestamped": made = Stores.timestampedKeyValueStoreBuilder(keyValueSupplier(store), key, value); break;
            case "versioned":
                made = Stores.versionedKeyValueStoreBuilder((org.apache.kafka.streams.state.VersionedBytesStoreSupplier) keyValueSupplier(store), key, value);
                break;
            case "window":
                made = Stores.windowStoreBuilder(windowSupplier(store, millis(store, "size"), is(store, "duplicates")), key, value);
                break;
            case "session": made = Stores.sessionStoreBuilder(sessionSupplier(store), key, value); break;
            case "headers": made = Stores.timestampedKeyValueStoreWithHeadersBuilder(keyValueSupplier(store), key, value); break;
            case "window_headers":
                made = Stores.timestampedWindowStoreWithHeadersBuilder(windowSupplier(store, millis(store, "size"), false), key, value);
                break;
            case "session_headers": made = Stores.sessionStoreWithHeadersBuilder(sessionSupplier(store), key, value); break;
            default: throw new IllegalArgumentException(store.toString());
        }
        if (is(store, "cached")) {
            made = made.withCachingEnabled();
        }
        return store.hasNonNull("logged") && !is(store, "logged") ? made.withLoggingDisabled() : made;
    }
}
