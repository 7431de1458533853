import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.state.StoreBuilder;

/** Nodes of Topology.add...: their names are their ids. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class ProcessorApi {
    private ProcessorApi() {}

    static void add(Topology topology, JsonNode node, List<String> effects) {
        switch (Specs.string(node, "op")) {
            case "add_source": source(topology, node); break;
            case "add_processor": processor(topology, node, effects); break;
            case "add_sink": sink(topology, node); break;
            default: filledStore(topology, node);
        }
    }

    private static void source(Topology topology, JsonNode node) {
        String name = Specs.string(node, "id");
        TimestampExtractor extractor = Building.extractor(node);
        AutoOffsetReset reset = node.hasNonNull("reset") ? AutoOffsetReset.earliest() : null;
        if (node.hasNonNull("pattern")) {
            Pattern pattern = Pattern.compile(Specs.string(node, "pattern"));
            topology.addSource(reset, name, extractor, deserializer(node, "key"), deserializer(node, "value"), pattern);
        } else {
            topology.addSource(reset, name, extractor, deserializer(node, "key"), deserializer(node, "value"), texts(node, "topics"));
        }
    }

    private static void processor(Topology topology, JsonNode node, List<String> effects) {
        String name = Specs.string(node, "id");
        topology.addProcessor(name, Behaviour.supplier(node, effects), texts(node, "parents"));
        String how = Specs.string(node, "adds");
        if (how == null && node.hasNonNull("uses")) {
            topology.connectProcessorAndStateStores(name, Specs.string(node.get("uses"), "name"));
        } else if (how != null && how.equals("connected")) {
            topology.addStateStore(Specs.builder(node.get("uses")));
            topology.connectProcessorAndStateStores(name, Specs.string(node.get("uses"), "name"));
        } else if (how != null && !how.equals("provided")) {
            topology.addStateStore(Specs.builder(node.get("uses")), name);
        }
        if (Specs.is(node, "connects")) {
            topology.connectProcessorAndStateStores(name, Specs.string(node, "looks_up"));
        }
    }

    private static void sink(Topology topology, JsonNode node) {
        String name = Specs.string(node, "id");
        if (node.hasNonNull("topic")) {
            topology.addSink(name, Specs.string(node, "topic"), serializer(node, "key"), serializer(node, "value"), Building.partitioner(node), texts(node, "parents"));
        } else {
            topology.addSink(name, Building.byParity(node), serializer(node, "key"), serializer(node, "value"), texts(node, "parents"));
        }
    }

    private static void filledStore(Topology topology, JsonNode node) {
        String name = Specs.string(node, "id");
        String topic = Specs.string(node, "topic");
        TimestampExtractor extractor = Building.extractor(node);
        StoreBuilder store = Specs.builder(node.get("uses"));
        ProcessorSupplier<Object, Object, Void, Void> update = Behaviour.keeper(node);
        if (Specs.string(node, "op").equals("add_global_store")) {
            topology.addGlobalStore(store, name + "-source", extractor, deserializer(node, "key"), deserializer(node, "value"), topic, name, update);
        } else {
            topology.addReadOnlyStateStore(store, name + "-source", extractor, deserializer(node, "key"), deserializer(node, "value"), topic, name, update);
        }
    }

    private static Deserializer<Object> deserializer(JsonNode node, String field) {
        Serde<Object> serde = Specs.serde(node, field);
        return serde == null ? null : serde.deserializer();
    }

    private static Serializer<Object> serializer(JsonNode node, String field) {
        Serde<Object> serde = Specs.serde(node, field);
        return serde == null ? null : serde.serializer();
    }

    private static String[] texts(JsonNode node, String field) {
        List<String> texts = new ArrayList<>();
        node.get(field).forEach(each -> texts.add(each.asText()));
        return texts.toArray(new String[0]);
    }
}
