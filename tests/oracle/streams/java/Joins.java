import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.kafka.streams.kstream.*;

/** join, left_join, outer_join and foreign_join, left_foreign_join: which one is decided by the two inputs. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Joins {
    private final Map<String, Object> made;

    Joins(Map<String, Object> made) {
        this.made = made;
    }

    Object join(JsonNode node, Object left) {
        Object right = made.get(Specs.string(node, "other"));
        if (left instanceof KTable) {
            return Specs.string(node, "op").contains("foreign")
                ? foreign(node, (KTable) left, (KTable) right)
                : tables(node, (KTable) left, (KTable) right);
        }
        if (right instanceof KStream) {
            return streams(node, (KStream) left, (KStream) right);
        }
        return right instanceof KTable
            ? withTable(node, (KStream) left, (KTable) right)
            : withGlobal(node, (KStream) left, (GlobalKTable) right);
    }

    private static ValueJoiner<Object, Object, Object> joiner(JsonNode node) {
        String f = Specs.string(node, "f");
        return (left, right) -> Functions.join(f, null, left, right);
    }

    private static ValueJoinerWithKey<Object, Object, Object, Object> withKey(JsonNode node) {
        String f = Specs.string(node, "f");
        return (key, left, right) -> Functions.join(f, key, left, right);
    }

    private static Object streams(JsonNode node, KStream<Object, Object> left, KStream<Object, Object> right) {
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, Specs.millis(node, "grace"))
            .after(Specs.millis(node, "after")).before(Specs.millis(node, "before"));
        StreamJoined<Object, Object, Object> joined =
            StreamJoined.with(Specs.serde(node, "key"), Specs.serde(node, "value"), Specs.serde(node, "other_value"));
        if (node.hasNonNull("name")) {
            joined = joined.withName(Specs.string(node, "name"));
        }
        if (node.hasNonNull("store_name")) {
            joined = joined.withStoreName(Specs.string(node, "store_name"));
        }
        if (node.hasNonNull("logged")) {
            joined = Specs.is(node, "logged") ? joined.withLoggingEnabled(new HashMap<>()) : joined.withLoggingDisabled();
        }
        if (node.hasNonNull("type")) {
            joined = joined.withDslStoreSuppliers(Specs.suppliers(Specs.string(node, "type")));
        }
        if (node.hasNonNull("left_store")) {
            Duration size = Specs.millis(node, "before").plus(Specs.millis(node, "after"));
            joined = joined.withThisStoreSupplier(Specs.windowSupplier(node.get("left_store"), size, true))
                .withOtherStoreSupplier(Specs.windowSupplier(node.get("right_store"), size, true));
        }
        boolean keyed = Specs.is(node, "with_key");
        switch (Specs.string(node, "op")) {
            case "join": return keyed ? left.join(right, withKey(node), windows, joined) : left.join(right, joiner(node), windows, joined);
            case "left_join":
                return keyed ? left.leftJoin(right, withKey(node), windows, joined) : left.leftJoin(right, joiner(node), windows, joined);
            default:
                return keyed ? left.outerJoin(right, withKey(node), windows, joined) : left.outerJoin(right, joiner(node), windows, joined);
        }
    }

    private static Object withTable(JsonNode node, KStream<Object, Object> left, KTable<Object, Object> right) {
        Joined<Object, Object, Object> joined =
            Joined.with(Specs.serde(node, "key"), Specs.serde(node, "value"), Specs.serde(node, "other_value"));
        if (node.hasNonNull("name")) {
            joined = joined.withName(Specs.string(node, "name"));
        }
        if (node.hasNonNull("grace")) {
            joined = joined.withGracePeriod(Specs.millis(node, "grace"));
        }
        boolean keyed = Specs.is(node, "with_key");
        if (Specs.string(node, "op").equals("join")) {
            return keyed ? left.join(right, withKey(node), joined) : left.join(right, joiner(node), joined);
        }
        return keyed ? left.leftJoin(right, withKey(node), joined) : left.leftJoin(right, joiner(node), joined);
    }

    private static Object withGlobal(JsonNode node, KStream<Object, Object> left, GlobalKTable<Object, Object> right) {
        String keyF = Specs.string(node, "key_f");
        KeyValueMapper<Object, Object, Object> selector = (k, v) -> Functions.key(keyF, k, v);
        boolean keyed = Specs.is(node, "with_key");
        Named named = Specs.named(node);
        if (Specs.string(node, "op").equals("join")) {
            return keyed ? left.join(right, selector, withKey(node), named) : left.join(right, selector, joiner(node), named);
        }
        return keyed ? left.leftJoin(right, selector, withKey(node), named) : left.leftJoin(right, selector, joiner(node), named);
    }

    private static Object tables(JsonNode node, KTable<Object, Object> left, KTable<Object, Object> right) {
        Named named = Specs.named(node);
        Materialized stored = Specs.materialized(node, "kv", null);
        switch (Specs.string(node, "op")) {
            case "join": return stored == null ? left.join(right, joiner(node), named) : left.join(right, joiner(node), named, stored);
            case "left_join":
                return stored == null ? left.leftJoin(right, joiner(node), named) : left.leftJoin(right, joiner(node), named, stored);
            default:
                return stored == null ? left.outerJoin(right, joiner(node), named) : left.outerJoin(right, joiner(node), named, stored);
        }
    }

    private static Object foreign(JsonNode node, KTable<Object, Object> left, KTable<Object, Object> right) {
        String keyF = Specs.string(node, "key_f");
        Function<Object, Object> ofValue = v -> Functions.key(keyF, null, v);
        BiFunction<Object, Object, Object> ofBoth = (k, v) -> Functions.key(keyF, k, v);
        TableJoined<Object, Object> joined = TableJoined.as(Specs.string(node, "name"));
        Materialized stored = Specs.materialized(node, "kv", null);
        boolean keyed = Specs.is(node, "with_key");
        if (Specs.string(node, "op").startsWith("left")) {
            if (stored == null) {
                return keyed ? left.leftJoin(right, ofBoth, joiner(node), joined) : left.leftJoin(right, ofValue, joiner(node), joined);
            }
            return keyed ? left.leftJoin(right, ofBoth, joiner(node), joined, stored) : left.leftJoin(right, ofValue, joiner(node), joined, stored);
        }
        if (stored == null) {
            return keyed ? left.join(right, ofBoth, joiner(node), joined) : left.join(right, ofValue, joiner(node), joined);
        }
        return keyed ? left.join(right, ofBoth, joiner(node), joined, stored) : left.join(right, ofValue, joiner(node), joined, stored);
    }
}
