"""Random cases, a pure function of the seed, which chooses a pair of operators; more is added around it."""

from __future__ import annotations

import random

from .cases import Case, Node, inputs
from .generator import Generator
from .inputs import events
from .operators import OPERATORS, PAIRS

# spreads neighbouring seeds over all pairs; coprime to their number
STRIDE = 7_919
CACHE = "statestore.cache.max.bytes"
OPTIMIZATIONS = (
    *("none",) * 4,
    *("all",) * 3,
    "single.store.self.join",
    "merge.repartition.topics",
    "reuse.ktable.source.topics,merge.repartition.topics",
)
NAMED = "ensure.explicit.internal.resource.naming"
HEADERS = "dsl.store.format"
# for about two entries
SMALL = "300"
IN_MEMORY = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"


def _config(rng: random.Random, *, hostile: bool, is_named: bool) -> dict[str, str]:
    config = {
        "topology.optimization": rng.choice(OPTIMIZATIONS),
        CACHE: rng.choice(("0", "10485760", "10485760", SMALL)),
    }
    if rng.random() < 0.35:
        config["dsl.store.suppliers.class"] = IN_MEMORY
    if rng.random() < 0.12:
        config[HEADERS] = "headers"
    if rng.random() < (0.8 if is_named else 0.02):
        config[NAMED] = "true"
    # with transactions Kafka's test driver loses dead letters
    if rng.random() < 0.1 and not hostile:
        config["processing.guarantee"] = "exactly_once_v2"
    if hostile:
        errors = "org.apache.kafka.streams.errors."
        if rng.random() < 0.6:
            config["deserialization.exception.handler"] = errors + "LogAndContinueExceptionHandler"
        if rng.random() < 0.6:
            config["processing.exception.handler"] = errors + "LogAndContinueProcessingExceptionHandler"
        if rng.random() < 0.4:
            config["processing.exception.handler.global.enabled"] = "true"
        if rng.random() < 0.4:
            config["errors.dead.letter.queue.topic.name"] = "dlq"
    return config


def _evicts_otherwise(nodes: list[Node], *, with_headers: bool) -> bool:
    """Whether Kafka's small caches evict other entries than ours: [[avoided]] in differences.toml."""
    sources: dict[str, set[str]] = {}
    for node in nodes:
        read = [source.partition(".")[0] for source in inputs(node)]
        of_each = [sources[source] for source in read]
        if "join" in node["op"] and "before" not in node and of_each[0] & of_each[1]:
            return True
        sources[node["id"]] = {node["id"]}.union(*of_each)
    return any(
        node.get("kind") == "sliding"
        or (with_headers and node.get("on_close"))
        or (node.get("processor") == "windows" and node["uses"].get("cached"))
        for node in nodes
    )


def pair_of(seed: int) -> tuple[str, str]:
    """The operators that the case of a seed has at least."""
    return PAIRS[seed * STRIDE % len(PAIRS)]


def generate(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    hostile = rng.random() < 0.06
    is_named = rng.random() < 0.06
    pair = pair_of(seed)
    generator = Generator(rng, hostile=hostile, is_named=is_named)
    first = generator.source(rng.choice(("stream", "stream", "table")))
    handle = OPERATORS[pair[0]](generator, first)
    handle = OPERATORS[pair[1]](generator, handle)
    # Bound: 8 operators, those in between not counted
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 5))):
        name = rng.choice(sorted(OPERATORS))
        start = rng.choice([each for each in generator.handles if each.kind != "global_table"])
        OPERATORS[name](generator, start if rng.random() < 0.5 else handle)
    generator.finish()
    config = _config(rng, hostile=hostile, is_named=is_named)
    if config[CACHE] == SMALL and _evicts_otherwise(generator.nodes, with_headers=HEADERS in config):
        config[CACHE] = "0"
    return {
        "seed": seed,
        "hostile": hostile,
        "pair": list(pair),
        "config": config,
        "nodes": generator.nodes,
        "events": events(rng, generator.topics, hostile=hostile),
    }
