import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.streams.kstream.*;

/** Aggregates of grouped, cogrouped and windowed streams, and of grouped tables. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Windowing {
    private final Map<String, Object> made;
    private final Map<Object, Duration> sizes = new HashMap<>();

    Windowing(Map<String, Object> made) {
        this.made = made;
    }

    Object aggregated(JsonNode node, String op, Object input) {
        switch (op) {
            case "window": return windowed(node, input);
            case "cogroup": return cogrouped(node, input);
            default:
        }
        Initializer<Object> initial = () -> Functions.initial(Specs.string(node, "initial"));
        String f = Specs.string(node, "f");
        Aggregator<Object, Object, Object> adder = (k, v, a) -> Functions.aggregate(f, k, v, a);
        Reducer<Object> reducer = (a, b) -> Functions.reduce(f, a, b);
        Named named = Specs.named(node);
        if (input instanceof KGroupedStream) {
            KGroupedStream<Object, Object> grouped = (KGroupedStream) input;
            Materialized stored = Specs.materialized(node, "kv", null);
            switch (op) {
                case "count": return stored == null ? grouped.count(named) : grouped.count(named, stored);
                case "reduce": return stored == null ? grouped.reduce(reducer) : grouped.reduce(reducer, named, stored);
                default: return stored == null ? grouped.aggregate(initial, adder) : grouped.aggregate(initial, adder, named, stored);
            }
        }
        if (input instanceof KGroupedTable) {
            return ofTable(node, op, (KGroupedTable) input, initial, adder, reducer);
        }
        if (input instanceof CogroupedKStream) {
            CogroupedKStream<Object, Object> cogrouped = (CogroupedKStream) input;
            Materialized stored = Specs.materialized(node, "kv", null);
            return stored == null ? cogrouped.aggregate(initial, named) : cogrouped.aggregate(initial, named, stored);
        }
        Merger<Object, Object> merger = (k, a, b) -> Functions.merge(Specs.string(node, "merge_f"), k, a, b);
        if (input instanceof SessionWindowedKStream) {
            SessionWindowedKStream<Object, Object> windowed = emitting(node, (SessionWindowedKStream) input);
            Materialized stored = Specs.materialized(node, "session", null);
            switch (op) {
                case "count": return stored == null ? windowed.count(named) : windowed.count(named, stored);
                case "reduce": return stored == null ? windowed.reduce(reducer, named) : windowed.reduce(reducer, named, stored);
                default:
                    return stored == null
                        ? windowed.aggregate(initial, adder, merger, named)
                        : windowed.aggregate(initial, adder, merger, named, stored);
            }
        }
        if (input instanceof SessionWindowedCogroupedKStream) {
            SessionWindowedCogroupedKStream<Object, Object> windowed = (SessionWindowedCogroupedKStream) input;
            Materialized stored = Specs.materialized(node, "session", null);
            return stored == null ? windowed.aggregate(initial, merger, named) : windowed.aggregate(initial, merger, named, stored);
        }
        Materialized stored = Specs.materialized(node, "window", sizes.get(input));
        if (input instanceof TimeWindowedCogroupedKStream) {
            TimeWindowedCogroupedKStream<Object, Object> windowed = (TimeWindowedCogroupedKStream) input;
            return stored == null ? windowed.aggregate(initial, named) : windowed.aggregate(initial, named, stored);
        }
        TimeWindowedKStream<Object, Object> windowed = (TimeWindowedKStream) input;
        if (Specs.is(node, "on_close")) {
            windowed = windowed.emitStrategy(EmitStrategy.onWindowClose());
        }
        switch (op) {
            case "count": return stored == null ? windowed.count(named) : windowed.count(named, stored);
            case "reduce": return stored == null ? windowed.reduce(reducer, named) : windowed.reduce(reducer, named, stored);
            default: return stored == null ? windowed.aggregate(initial, adder, named) : windowed.aggregate(initial, adder, named, stored);
        }
    }

    private static SessionWindowedKStream<Object, Object> emitting(JsonNode node, SessionWindowedKStream<Object, Object> windowed) {
        return Specs.is(node, "on_close") ? windowed.emitStrategy(EmitStrategy.onWindowClose()) : windowed;
    }

    private static Object ofTable(
        JsonNode node,
        String op,
        KGroupedTable<Object, Object> grouped,
        Initializer<Object> initial,
        Aggregator<Object, Object, Object> adder,
        Reducer<Object> reducer) {
        String subtract = Specs.string(node, "subtract_f");
        Materialized stored = Specs.materialized(node, "kv", null);
        Named named = Specs.named(node);
        switch (op) {
            case "count": return stored == null ? grouped.count(named) : grouped.count(named, stored);
            case "reduce":
                Reducer<Object> less = (a, b) -> Functions.reduce(subtract, a, b);
                return stored == null ? grouped.reduce(reducer, less) : grouped.reduce(reducer, less, named, stored);
            default:
                Aggregator<Object, Object, Object> subtractor = (k, v, a) -> Functions.aggregate(subtract, k, v, a);
                return stored == null
                    ? grouped.aggregate(initial, adder, subtractor, named)
                    : grouped.aggregate(initial, adder, subtractor, named, stored);
        }
    }

    private Object cogrouped(JsonNode node, Object input) {
        String f = Specs.string(node, "f");
        Aggregator<Object, Object, Object> aggregator = (k, v, a) -> Functions.aggregate(f, k, v, a);
        if (input instanceof CogroupedKStream) {
            KGroupedStream<Object, Object> other = (KGroupedStream) made.get(Specs.string(node, "other"));
            return ((CogroupedKStream) input).cogroup(other, aggregator);
        }
        return ((KGroupedStream) input).cogroup(aggregator);
    }

    private Object windowed(JsonNode node, Object input) {
        Duration grace = Specs.millis(node, "grace");
        Duration size = Specs.millis(node, "size");
        Object result;
        switch (Specs.string(node, "kind")) {
            case "session":
                SessionWindows sessions = SessionWindows.ofInactivityGapAndGrace(size, grace);
                return input instanceof KGroupedStream
                    ? ((KGroupedStream) input).windowedBy(sessions)
                    : ((CogroupedKStream) input).windowedBy(sessions);
            case "sliding":
                SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(size, grace);
                result = input instanceof KGroupedStream
                    ? ((KGroupedStream) input).windowedBy(sliding)
                    : ((CogroupedKStream) input).windowedBy(sliding);
                break;
            case "unlimited":
                UnlimitedWindows all = UnlimitedWindows.of().startOn(java.time.Instant.ofEpochMilli(node.get("start").asLong()));
                result = input instanceof KGroupedStream
                    ? ((KGroupedStream) input).windowedBy(all)
                    : ((CogroupedKStream) input).windowedBy(all);
                break;
            default:
                TimeWindows windows = TimeWindows.ofSizeAndGrace(size, grace);
                if (node.hasNonNull("advance")) {
                    windows = windows.advanceBy(Specs.millis(node, "advance"));
                }
                result = input instanceof KGroupedStream
                    ? ((KGroupedStream) input).windowedBy(windows)
                    : ((CogroupedKStream) input).windowedBy(windows);
        }
        sizes.put(result, size);
        return result;
    }
}
