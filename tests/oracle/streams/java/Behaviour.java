import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.Punctuator;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessingContext;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.SessionStoreWithHeaders;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStoreWithHeaders;
import org.apache.kafka.streams.state.TimestampedWindowStoreWithHeaders;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;

/** What a user's processor does, by the name that a case gives; behaviours.py has the same. */
@SuppressWarnings("unchecked")
final class Behaviour {
    interface Emit {
        void emit(Object key, Object value, long timestamp, Headers headers);

        default void emitTo(String child, Object key, Object value, long timestamp, Headers headers) {
            throw new IllegalStateException("no children by name");
        }
    }

    private final JsonNode spec;
    private final List<String> effects;
    private ProcessingContext context;
    private Object store;
    private Cancellable schedule;
    private int calls;

    Behaviour(JsonNode spec, List<String> effects) {
        this.spec = spec;
        this.effects = effects;
    }

    static Set<StoreBuilder<?>> provided(JsonNode spec) {
        boolean isProvided = Specs.is(spec, "provides") || "provided".equals(Specs.string(spec, "adds"));
        return spec.hasNonNull("uses") && isProvided ? Set.of(Specs.builder(spec.get("uses"))) : null;
    }

    void init(ProcessingContext context, Emit emit) {
        this.context = context;
        if (spec.hasNonNull("uses")) {
            store = context.getStateStore(Specs.string(spec.get("uses"), "name"));
        }
        if (spec.hasNonNull("looks_up")) {
            store = context.getStateStore(Specs.string(spec, "looks_up"));
        }
        if (spec.hasNonNull("punctuate")) {
            JsonNode punctuate = spec.get("punctuate");
            PunctuationType type = Specs.is(punctuate, "wall") ? PunctuationType.WALL_CLOCK_TIME : PunctuationType.STREAM_TIME;
            calls = punctuate.hasNonNull("times") ? punctuate.get("times").asInt() : -1;
            Punctuator punctuator = now -> punctuate(now, emit);
            schedule = punctuate.hasNonNull("start")
                ? context.schedule(Instant.ofEpochMilli(punctuate.get("start").asLong()), Specs.millis(punctuate, "interval"), type, punctuator)
                : context.schedule(Specs.millis(punctuate, "interval"), type, punctuator);
        }
    }

    private void punctuate(long now, Emit emit) {
        effects.add(Specs.string(spec, "id") + ": punctuate " + now + " " + context.currentStreamTimeMs());
        if (Specs.is(spec.get("punctuate"), "fails") && Math.floorMod(now, 2L) == 1) {
            throw new IllegalStateException("asked to fail");
        }
        if (--calls == 0) {
            schedule.cancel();
        }
        if (!Specs.string(spec, "processor").equals("buffer")) {
            return;
        }
        KeyValueStore<Object, Object> buffered = (KeyValueStore<Object, Object>) store;
        List<KeyValue<Object, Object>> entries = new ArrayList<>();
        try (KeyValueIterator<Object, Object> all = buffered.all()) {
            all.forEachRemaining(entries::add);
        }
        for (KeyValue<Object, Object> entry : entries) {
            emit.emit(entry.key, entry.value, now, new RecordHeaders());
            buffered.delete(entry.key);
        }
    }

    void process(Object key, Object value, long timestamp, Headers headers, Emit emit) {
        switch (Specs.string(spec, "processor")) {
            case "count": count(key, timestamp, headers, emit); break;
            case "previous": previous(key, value, timestamp, headers, emit); break;
            case "range": range(key, value, timestamp, headers, emit); break;
            case "windows": windows(key, value, timestamp, headers, emit); break;
            case "sessions": sessions(key, value, timestamp, headers, emit); break;
            case "remember": remember(key, value, timestamp, headers, emit); break;
            case "remember_windows": rememberWindows(key, value, timestamp, headers, emit); break;
            case "remember_sessions": rememberSessions(key, value, timestamp, headers, emit); break;
            case "versions": versions(key, value, timestamp, headers, emit); break;
            case "fail_on_x":
                emit.emit(key, Functions.value("fail_on_x", key, value), timestamp, headers);
                break;
            case "lookup":
                emit.emit(key, (key == null ? "null" : found(key)) + "/" + Functions.text(value), timestamp, headers);
                break;
            case "child":
                JsonNode children = spec.get("children");
                String child = children.get((int) Math.floorMod(Functions.number(value), (long) children.size())).asText();
                emit.emitTo(child, key, value, timestamp, headers);
                break;
            case "buffer": ((KeyValueStore<Object, Object>) store).put(key, value); break;
            case "headers":
                // the headers of a record are shared by all that follow: a copy, as in Python
                Headers seen = new RecordHeaders(headers).add("seen", Functions.text(value).getBytes(StandardCharsets.UTF_8));
                emit.emit(key, value, timestamp + 7, seen);
                emit.emit(key, value, timestamp + 3, new RecordHeaders());
                break;
            case "where":
                emit.emit(key, context.recordMetadata().map(at -> at.topic() + "-" + at.partition() + "@" + at.offset()).orElse("nowhere")
                    + " " + context.currentStreamTimeMs() + " " + context.currentSystemTimeMs() + " " + context.taskId(), timestamp, headers);
                break;
            case "commit":
                context.commit();
                emit.emit(key, value, timestamp, headers);
                break;
            default: throw new IllegalArgumentException(spec.toString());
        }
    }

    private void count(Object key, long timestamp, Headers headers, Emit emit) {
        KeyValueStore<Object, Object> counts = (KeyValueStore<Object, Object>) store;
        if (key == null) {
            emit.emit(null, -1L, timestamp, headers);
            return;
        }
        Object before = counts.get(key);
        Object now = Functions.number(before) + 1;
        counts.put(key, now);
        emit.emit(key, now, timestamp, headers);
    }

    private void previous(Object key, Object value, long timestamp, Headers headers, Emit emit) {
        TimestampedKeyValueStore<Object, Object> last = (TimestampedKeyValueStore<Object, Object>) store;
        if (key == null) {
            return;
        }
        ValueAndTimestamp<Object> before = last.get(key);
        last.put(key, ValueAndTimestamp.make(value, timestamp));
        String text = before == null ? "-" : Functions.text(before.value()) + "@" + before.timestamp();
        emit.emit(key, text + ">" + Functions.text(value), timestamp, headers);
    }

    /** Counts what each way of reading gives, and tells the order of keys. */
    private void range(Object key, Object value, long timestamp, Headers headers, Emit emit) {
        KeyValueStore<Object, Object> kept = (KeyValueStore<Object, Object>) store;
        if (key == null) {
            return;
        }
        Object before = kept.putIfAbsent(key, value);
        StringBuilder text = new StringBuilder(Functions.text(before));
        try (KeyValueIterator<Object, Object> found = kept.range(key, null)) {
            found.forEachRemaining(entry -> text.append(" ").append(Functions.text(entry.key)));
        }
        text.append(" /");
        // backwards Kafka shows entries that are deleted in the cache alone
        try (KeyValueIterator<Object, Object> found = kept.reverseRange(null, key)) {
            found.forEachRemaining(entry -> text.append(entry.value == null ? "" : " " + Functions.text(entry.key)));
        }
        text.append(" /");
        try (KeyValueIterator<Object, Object> found = kept.reverseAll()) {
            found.forEachRemaining(entry -> text.append(entry.value == null ? "" : " " + Functions.text(entry.value)));
        }
        if (value == null) {
            kept.delete(key);
        }
        emit.emit(key, text.toString(), timestamp, headers);
    }

    private void windows(Object key, Object value, long timestamp, Headers headers, Emit emit) {
        WindowStore<Object, Object> windows = (WindowStore<Object, Object>) store;
        if (key == null) {
            return;
        }
        long start = timestamp - Math.floorMod(timestamp, 50L);
        windows.put(key, value, start);
        StringBuilder text = new StringBuilder(Functions.text(windows.fetch(key, start)));
        try (var found = windows.fetch(key, Math.max(0, timestamp - 200), timestamp)) {
            found.forEachRemaining(entry -> text.append(" ").append(entry.key).append("=").append(Functions.text(entry.value)));
        }
        text.append(" /");
        try (var found = windows.backwardFetchAll(Math.max(0, timestamp - 100), timestamp + 100)) {
            found.forEachRemaining(entry -> {
                // backwards Kafka shows entries that are deleted in the cache alone
                if (entry.value != null) {
                    text.append(" ").append(Functions.text(entry.key));
                }
            });
        }
        emit.emit(key, text.toString(), timestamp, headers);
    }

    /** Sessions with a gap of 60 ms, merged by hand. */
    private void sessions(Object key, Object value, long timestamp, Headers headers, Emit emit) {
        SessionStore<Object, Object> sessions = (SessionStore<Object, Object>) store;
        if (key == null) {
            return;
        }
        long start = timestamp;
        long end = timestamp;
        List<Windowed<Object>> merged = new ArrayList<>();
        StringBuilder text = new StringBuilder(Functions.text(value));
        try (KeyValueIterator<Windowed<Object>, Object> found = sessions.findSessions(key, Math.max(0, timestamp - 60), timestamp + 60)) {
            while (found.hasNext()) {
                KeyValue<Windowed<Object>, Object> next = found.next();
                merged.add(next.key);
                start = Math.min(start, next.key.window().start());
                end = Math.max(end, next.key.window().end());
                text.append("|").append(Functions.text(next.value));
            }
        }
        merged.forEach(sessions::remove);
        String whole = text.substring(0, Math.min(text.length(), 40));
        sessions.put(new Windowed<>(key, new SessionWindow(start, end)), whole);
        emit.emit(key, start + "-" + end + " " + whole, timestamp, headers);
    }

    private static String remembered(ValueTimestampHeaders<Object> found) {
        return found == null ? "-" : Functions.text(found.value()) + "@" + found.timestamp() + Functions.text(found.headers());
    }

    private void remember(Object key, Object value, long timestamp, Headers headers, Emit emit) {
        var kept = (TimestampedKeyValueStoreWithHeaders<Object, Object>) store;
        if (key == null) {
            return;
        }
        String before = remembered(kept.get(key));
        kept.put(key, ValueTimestampHeaders.make(value, timestamp, headers));
        emit.emit(key, before + ">" + remembered(kept.get(key)), timestamp, headers);
    }

    private void rememberWindows(Object key, Object value, long timestamp, Headers headers, Emit emit) {
        var kept = (TimestampedWindowStoreWithHeaders<Object, Object>) store;
        if (key == null) {
            return;
        }
        long start = timestamp - Math.floorMod(timestamp, 50L);
        kept.put(key, ValueTimestampHeaders.make(value, timestamp, headers), start);
        StringBuilder text = new StringBuilder(remembered(kept.fetch(key, start)));
        try (var found = kept.fetch(key, Math.max(0, timestamp - 200), timestamp)) {
            found.forEachRemaining(entry -> text.append(" ").append(entry.key).append("=").append(remembered(entry.value)));
        }
        emit.emit(key, text.toString(), timestamp, headers);
    }

    private void rememberSessions(Object key, Object value, long timestamp, Headers headers, Emit emit) {
        var kept = (SessionStoreWithHeaders<Object, Object>) store;
        if (key == null) {
            return;
        }
        StringBuilder text = new StringBuilder();
        try (var found = kept.findSessions(key, Math.max(0, timestamp - 60), timestamp + 60)) {
            found.forEachRemaining(entry -> text.append(Functions.text(entry.key)).append("=")
                .append(Functions.text(entry.value.aggregation())).append(Functions.text(entry.value.headers())));
        }
        kept.put(new Windowed<>(key, new SessionWindow(timestamp, timestamp)), AggregationWithHeaders.make(value, headers));
        emit.emit(key, text.toString(), timestamp, headers);
    }

    private void versions(Object key, Object value, long timestamp, Headers headers, Emit emit) {
        VersionedKeyValueStore<Object, Object> versions = (VersionedKeyValueStore<Object, Object>) store;
        if (key == null) {
            return;
        }
        long validTo = versions.put(key, value, timestamp);
        emit.emit(key, validTo + " " + version(versions.get(key, timestamp - 50)) + " " + version(versions.get(key)), timestamp, headers);
    }

    /** What a store of a table or of another processor has for a key. */
    private String found(Object key) {
        if (store instanceof VersionedKeyValueStore) {
            return version(((VersionedKeyValueStore<Object, Object>) store).get(key)).replaceFirst("^-$", "null");
        }
        Object found = ((ReadOnlyKeyValueStore<Object, Object>) store).get(key);
        if (found instanceof ValueTimestampHeaders) {
            return remembered((ValueTimestampHeaders<Object>) found);
        }
        if (found instanceof ValueAndTimestamp) {
            ValueAndTimestamp<Object> both = (ValueAndTimestamp<Object>) found;
            return Functions.text(both.value()) + "@" + both.timestamp();
        }
        return Functions.text(found);
    }

    private static String version(VersionedRecord<Object> found) {
        return found == null ? "-" : Functions.text(found.value()) + "@" + found.timestamp();
    }

    static ProcessorSupplier<Object, Object, Object, Object> supplier(JsonNode spec, List<String> effects) {
        return new ProcessorSupplier<>() {
            @Override
            public Processor<Object, Object, Object, Object> get() {
                Behaviour behaviour = new Behaviour(spec, effects);
                return new Processor<>() {
                    private Emit emit;

                    @Override
                    public void init(ProcessorContext<Object, Object> context) {
                        emit = new Emit() {
                            @Override
                            public void emit(Object key, Object value, long timestamp, Headers headers) {
                                context.forward(new Record<>(key, value, timestamp, headers));
                            }

                            @Override
                            public void emitTo(String child, Object key, Object value, long timestamp, Headers headers) {
                                context.forward(new Record<>(key, value, timestamp, headers), child);
                            }
                        };
                        behaviour.init(context, emit);
                    }

                    @Override
                    public void process(Record<Object, Object> record) {
                        behaviour.process(record.key(), record.value(), record.timestamp(), record.headers(), emit);
                    }
                };
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return provided(spec);
            }
        };
    }

    static FixedKeyProcessorSupplier<Object, Object, Object> fixedKeySupplier(JsonNode spec, List<String> effects) {
        return new FixedKeyProcessorSupplier<>() {
            @Override
            public FixedKeyProcessor<Object, Object, Object> get() {
                Behaviour behaviour = new Behaviour(spec, effects);
                return new FixedKeyProcessor<>() {
                    private FixedKeyProcessorContext<Object, Object> context;

                    @Override
                    public void init(FixedKeyProcessorContext<Object, Object> context) {
                        this.context = context;
                        behaviour.init(context, null);
                    }

                    @Override
                    public void process(FixedKeyRecord<Object, Object> record) {
                        behaviour.process(record.key(), record.value(), record.timestamp(), record.headers(), (key, value, timestamp, headers) ->
                            context.forward(record.withValue(value).withTimestamp(timestamp).withHeaders(headers)));
                    }
                };
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return provided(spec);
            }
        };
    }

    /** A KTable's transformValues: the value with how often its key was seen, by a store if the case names one. */
    static ValueTransformerWithKeySupplier<Object, Object, Object> transformer(JsonNode spec) {
        return new ValueTransformerWithKeySupplier<>() {
            @Override
            public ValueTransformerWithKey<Object, Object, Object> get() {
                return new ValueTransformerWithKey<>() {
                    private KeyValueStore<Object, Object> seen;

                    @Override
                    public void init(org.apache.kafka.streams.processor.ProcessorContext context) {
                        if (spec.hasNonNull("uses")) {
                            seen = context.getStateStore(Specs.string(spec.get("uses"), "name"));
                        }
                    }

                    @Override
                    public Object transform(Object key, Object value) {
                        if (seen == null) {
                            return Functions.value(Specs.string(spec, "value_f"), key, value);
                        }
                        long times = Functions.number(seen.get(key)) + 1;
                        seen.put(key, times);
                        return Functions.text(value) + "#" + times;
                    }

                    @Override
                    public void close() {}
                };
            }

            @Override
            public Set<StoreBuilder<?>> stores() {
                return provided(spec);
            }
        };
    }

    /** A processor of a global store: it puts what comes. */
    static ProcessorSupplier<Object, Object, Void, Void> keeper(JsonNode spec) {
        return () -> new Processor<>() {
            private KeyValueStore<Object, Object> kept;

            @Override
            public void init(ProcessorContext<Void, Void> context) {
                kept = context.getStateStore(Specs.string(spec.get("uses"), "name"));
            }

            @Override
            public void process(Record<Object, Object> record) {
                if (record.key() != null) {
                    kept.put(record.key(), Functions.value(Specs.string(spec, "value_f"), record.key(), record.value()));
                }
            }
        };
    }
}
