import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.Suppressed.EagerBufferConfig;
import org.apache.kafka.streams.kstream.Suppressed.StrictBufferConfig;

/** The operators of a KTable but its joins. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Tables {
    private final StreamsBuilder builder;

    Tables(StreamsBuilder builder) {
        this.builder = builder;
    }

    Object ofTable(JsonNode node, String op, KTable<Object, Object> input) {
        Named named = op.equals("group_by") || op.equals("suppress") ? null : Specs.named(node);
        String f = Specs.string(node, "f");
        String keyF = Specs.string(node, "key_f");
        String valueF = Specs.string(node, "value_f");
        Materialized stored = Specs.materialized(node, "kv", null);
        switch (op) {
            case "filter":
                return stored == null
                    ? input.filter((k, v) -> Functions.test(f, k, v), named)
                    : input.filter((k, v) -> Functions.test(f, k, v), named, stored);
            case "filter_not":
                return stored == null
                    ? input.filterNot((k, v) -> Functions.test(f, k, v), named)
                    : input.filterNot((k, v) -> Functions.test(f, k, v), named, stored);
            case "map_values":
                ValueMapperWithKey<Object, Object, Object> withKey = (k, v) -> Functions.value(valueF, k, v);
                ValueMapper<Object, Object> alone = v -> Functions.value(valueF, null, v);
                if (Specs.is(node, "with_key")) {
                    return stored == null ? input.mapValues(withKey, named) : input.mapValues(withKey, named, stored);
                }
                return stored == null ? input.mapValues(alone, named) : input.mapValues(alone, named, stored);
            case "transform_values":
                String[] uses = uses(node);
                return stored == null
                    ? input.transformValues(Behaviour.transformer(node), named, uses)
                    : input.transformValues(Behaviour.transformer(node), stored, named, uses);
            case "to_stream":
                return keyF == null ? input.toStream(named) : input.toStream((k, v) -> Functions.key(keyF, k, v), named);
            case "group_by":
                KeyValueMapper<Object, Object, KeyValue<Object, Object>> selector =
                    (k, v) -> KeyValue.pair(Functions.key(keyF, k, v), Functions.value(valueF, k, v));
                return Building.isGrouped(node) ? input.groupBy(selector, Building.grouped(node)) : input.groupBy(selector);
            case "suppress": return input.suppress(suppressed(node));
            default: throw new IllegalArgumentException(op);
        }
    }

    private String[] uses(JsonNode node) {
        if (!node.hasNonNull("uses") || Specs.is(node, "provides")) {
            return new String[0];
        }
        builder.addStateStore(Specs.builder(node.get("uses")));
        return new String[] {Specs.string(node.get("uses"), "name")};
    }

    private static Suppressed suppressed(JsonNode node) {
        BufferConfig buffer;
        if (node.hasNonNull("max_records") || node.hasNonNull("max_bytes")) {
            EagerBufferConfig eager = node.hasNonNull("max_records")
                ? BufferConfig.maxRecords(node.get("max_records").asLong())
                : BufferConfig.maxBytes(node.get("max_bytes").asLong());
            if (node.hasNonNull("max_records") && node.hasNonNull("max_bytes")) {
                eager = eager.withMaxBytes(node.get("max_bytes").asLong());
            }
            buffer = Specs.is(node, "shut_down") ? eager.shutDownWhenFull() : eager.emitEarlyWhenFull();
        } else {
            buffer = BufferConfig.unbounded();
        }
        if (node.hasNonNull("logged") && !Specs.is(node, "logged")) {
            buffer = buffer.withLoggingDisabled();
        }
        Suppressed made = node.hasNonNull("until_ms")
            ? Suppressed.untilTimeLimit(Specs.millis(node, "until_ms"), buffer)
            : Suppressed.untilWindowCloses((StrictBufferConfig) buffer);
        return node.hasNonNull("name") ? made.withName(Specs.string(node, "name")) : made;
    }
}
