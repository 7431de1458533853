import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.state.StoreBuilder;

/** A topology from the nodes of a case, in their order. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Building {
    private final StreamsBuilder builder;
    private final Map<String, Object> made = new HashMap<>();
    private final List<String> effects;
    private final Windowing windowing = new Windowing(made);
    private final Properties config;
    private final String folder;

    Building(Properties config, List<String> effects, String folder) {
        this.config = config;
        this.effects = effects;
        this.folder = folder;
        builder = config.containsKey(StreamsConfig.ENSURE_EXPLICIT_INTERNAL_RESOURCE_NAMING_CONFIG)
            ? new StreamsBuilder(new TopologyConfig(new StreamsConfig(config)))
            : new StreamsBuilder();
    }

    /** The nodes of the Processor API come when the others are complete. */
    Topology build(JsonNode nodes) {
        List<JsonNode> later = new ArrayList<>();
        for (JsonNode node : nodes) {
            if (Specs.string(node, "op").startsWith("add_")) {
                later.add(node);
                continue;
            }
            Object result = result(node);
            if (result != null) {
                made.put(Specs.string(node, "id"), result);
            }
        }
        Topology topology = builder.build(config);
        later.forEach(node -> ProcessorApi.add(topology, node, effects));
        return topology;
    }

    static String printed(String folder, JsonNode node) {
        return folder + "-" + Specs.string(node, "id");
    }

    private Object result(JsonNode node) {
        String op = Specs.string(node, "op");
        switch (op) {
            case "stream": return stream(node);
            case "table":
                Materialized stored = Specs.materialized(node, "kv", null);
                String topic = Specs.string(node, "topic");
                return stored == null ? builder.table(topic, consumed(node)) : builder.table(topic, consumed(node), stored);
            case "global_table":
                Materialized global = Specs.materialized(node, "kv", null);
                return global == null
                    ? builder.globalTable(Specs.string(node, "topic"), consumed(node))
                    : builder.globalTable(Specs.string(node, "topic"), consumed(node), global);
            case "global_store":
                return builder.addGlobalStore((StoreBuilder) Specs.builder(node.get("uses")), Specs.string(node, "topic"), consumed(node), Behaviour.keeper(node)) == null ? null : null;
            default:
        }
        Object input = made.get(Specs.string(node, "input"));
        if (input == null) {
            throw new IllegalArgumentException("no input: " + node);
        }
        if (op.endsWith("join")) {
            return new Joins(made).join(node, input);
        }
        if (input instanceof KStream) {
            return ofStream(node, op, (KStream) input);
        }
        if (input instanceof KTable) {
            return new Tables(builder).ofTable(node, op, (KTable) input);
        }
        return windowing.aggregated(node, op, input);
    }

    private Consumed<Object, Object> consumed(JsonNode node) {
        Consumed<Object, Object> consumed = Consumed.with(Specs.serde(node, "key"), Specs.serde(node, "value"));
        if (node.hasNonNull("name")) {
            consumed = consumed.withName(Specs.string(node, "name"));
        }
        if (node.hasNonNull("reset")) {
            consumed = consumed.withOffsetResetPolicy(Specs.string(node, "reset").equals("earliest") ? AutoOffsetReset.earliest() : AutoOffsetReset.latest());
        }
        TimestampExtractor extractor = extractor(node);
        return extractor == null ? consumed : consumed.withTimestampExtractor(extractor);
    }

    static TimestampExtractor extractor(JsonNode node) {
        if (!node.hasNonNull("shift")) {
            return null;
        }
        long shift = node.get("shift").asLong();
        return (record, partitionTime) -> record.timestamp() + shift;
    }

    private Object stream(JsonNode node) {
        if (node.hasNonNull("pattern")) {
            return builder.stream(Pattern.compile(Specs.string(node, "pattern")), consumed(node));
        }
        List<String> topics = new ArrayList<>();
        node.get("topics").forEach(each -> topics.add(each.asText()));
        return builder.stream(topics, consumed(node));
    }

    private Object ofStream(JsonNode node, String op, KStream<Object, Object> input) {
        Named named = op.equals("to") || op.equals("print") || op.equals("repartition") || op.startsWith("group") ? null : Specs.named(node);
        String f = Specs.string(node, "f");
        String keyF = Specs.string(node, "key_f");
        String valueF = Specs.string(node, "value_f");
        String count = Specs.string(node, "count");
        boolean withKey = Specs.is(node, "with_key");
        switch (op) {
            case "filter": return input.filter((k, v) -> Functions.test(f, k, v), named);
            case "filter_not": return input.filterNot((k, v) -> Functions.test(f, k, v), named);
            case "map": return input.map((k, v) -> KeyValue.pair(Functions.key(keyF, k, v), Functions.value(valueF, k, v)), named);
            case "flat_map": return input.flatMap((k, v) -> Functions.pairs(keyF, valueF, count, k, v), named);
            case "select_key": return input.selectKey((k, v) -> Functions.key(keyF, k, v), named);
            case "map_values":
                return withKey
                    ? input.mapValues((k, v) -> Functions.value(valueF, k, v), named)
                    : input.mapValues(v -> Functions.value(valueF, null, v), named);
            case "flat_map_values":
                return withKey
                    ? input.flatMapValues((k, v) -> Functions.values(valueF, count, k, v), named)
                    : input.flatMapValues(v -> Functions.values(valueF, count, null, v), named);
            case "peek": return input.peek((k, v) -> effect(node, k, v), named);
            case "foreach":
                input.foreach((k, v) -> effect(node, k, v), named);
                return null;
            case "print":
                Printed<Object, Object> printed = Printed.<Object, Object>toFile(printed(folder, node))
                    .withKeyValueMapper((k, v) -> Functions.text(Functions.value(valueF, k, v)));
                if (node.hasNonNull("label")) {
                    printed = printed.withLabel(Specs.string(node, "label"));
                }
                input.print(node.hasNonNull("name") ? printed.withName(Specs.string(node, "name")) : printed);
                return null;
            case "merge": return input.merge((KStream) made.get(Specs.string(node, "other")), named);
            case "split": return split(node, input);
            case "repartition":
                Repartitioned<Object, Object> again = Repartitioned.with(Specs.serde(node, "key"), Specs.serde(node, "value"));
                if (node.hasNonNull("name")) {
                    again = again.withName(Specs.string(node, "name"));
                }
                if (node.hasNonNull("partitions")) {
                    again = again.withNumberOfPartitions(node.get("partitions").asInt());
                }
                return input.repartition(node.hasNonNull("keeps") ? again.withStreamPartitioner(partitioner(node)) : again);
            case "to": return to(node, input);
            case "to_table":
                Materialized stored = Specs.materialized(node, "kv", null);
                return stored == null ? input.toTable(named) : input.toTable(named, stored);
            case "group_by_key": return isGrouped(node) ? input.groupByKey(grouped(node)) : input.groupByKey();
            case "group_by":
                KeyValueMapper<Object, Object, Object> selector = (k, v) -> Functions.key(keyF, k, v);
                return isGrouped(node) ? input.groupBy(selector, grouped(node)) : input.groupBy(selector);
            case "process":
                return node.hasNonNull("name")
                    ? input.process(Behaviour.supplier(node, effects), named, uses(node))
                    : input.process(Behaviour.supplier(node, effects), uses(node));
            case "process_values":
                return node.hasNonNull("name")
                    ? input.processValues(Behaviour.fixedKeySupplier(node, effects), named, uses(node))
                    : input.processValues(Behaviour.fixedKeySupplier(node, effects), uses(node));
            default: throw new IllegalArgumentException(op);
        }
    }

    private void effect(JsonNode node, Object key, Object value) {
        effects.add(Specs.string(node, "id") + ": " + Functions.text(key) + "=" + Functions.text(value));
    }

    /** A Grouped hides the serdes that are known from before. */
    static boolean isGrouped(JsonNode node) {
        return node.hasNonNull("name") || node.hasNonNull("key") || node.hasNonNull("value");
    }

    static Grouped<Object, Object> grouped(JsonNode node) {
        return Grouped.with(Specs.string(node, "name"), Specs.serde(node, "key"), Specs.serde(node, "value"));
    }

    /** The names of the stores that a processor is connected with; adds one that the processor does not bring. */
    private String[] uses(JsonNode node) {
        if (Specs.is(node, "connects")) {
            return new String[] {Specs.string(node, "looks_up")};
        }
        if (!node.hasNonNull("uses") || Specs.is(node, "provides")) {
            return new String[0];
        }
        builder.addStateStore(Specs.builder(node.get("uses")));
        return new String[] {Specs.string(node.get("uses"), "name")};
    }

    private Object split(JsonNode node, KStream<Object, Object> input) {
        BranchedKStream<Object, Object> split = node.hasNonNull("name") ? input.split(Named.as(Specs.string(node, "name"))) : input.split();
        
        int index = 0;
        for (JsonNode branch : node.get("branches")) {
            String id = Specs.string(node, "id") + "." + index++;
            String f = Specs.string(branch, "f");
            Branched<Object, Object> to = Branched.withConsumer(stream -> made.put(id, stream));
            if (branch.hasNonNull("name")) {
                to = Branched.withConsumer(stream -> made.put(id, stream), Specs.string(branch, "name"));
            }
            split = split.branch((k, v) -> Functions.test(f, k, v), to);
        }
        if (Specs.is(node, "default")) {
            String id = Specs.string(node, "id") + "." + index;
            split.defaultBranch(Branched.withConsumer(stream -> made.put(id, stream)));
        } else {
            split.noDefaultBranch();
        }
        return null;
    }

    private Object to(JsonNode node, KStream<Object, Object> input) {
        Serde<Object> key = Specs.serde(node, "key");
        Produced<Object, Object> produced = Produced.with(key, Specs.serde(node, "value"));
        if (node.hasNonNull("name")) {
            produced = produced.withName(Specs.string(node, "name"));
        }
        if (node.hasNonNull("keeps")) {
            produced = produced.withStreamPartitioner(partitioner(node));
        }
        if (node.hasNonNull("topic")) {
            input.to(Specs.string(node, "topic"), produced);
            return null;
        }
        input.to(byParity(node), produced);
        return null;
    }

    /** Drops records that it does not keep; null without "keeps". */
    static StreamPartitioner<Object, Object> partitioner(JsonNode node) {
        String keeps = Specs.string(node, "keeps");
        return keeps == null ? null : (topic, k, v, count) -> Optional.of(Functions.test(keeps, k, v) ? Set.of(0) : Set.of());
    }

    static TopicNameExtractor<Object, Object> byParity(JsonNode node) {
        return (k, v, context) -> node.get("topics").get((int) Math.floorMod(Functions.number(v), 2L)).asText();
    }
}
