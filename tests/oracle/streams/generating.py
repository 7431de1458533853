"""Random cases, a pure function of the seed, which chooses a pair of operators; more is added around it."""

from __future__ import annotations

import random

from .cases import Case
from .generator import Generator
from .inputs import events
from .operators import OPERATORS, PAIRS

# spreads neighbouring seeds over all pairs; coprime to their number
STRIDE = 7_919
CACHE = "statestore.cache.max.bytes"
# for about two entries
SMALL = "300"
IN_MEMORY = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"


def _config(rng: random.Random, *, hostile: bool) -> dict[str, str]:
    config = {
        "topology.optimization": rng.choice(
            ("none", "none", "none", "all", "all", "reuse.ktable.source.topics,merge.repartition.topics")
        ),
        CACHE: rng.choice(("0", "10485760", "10485760", SMALL)),
    }
    if rng.random() < 0.35:
        config["dsl.store.suppliers.class"] = IN_MEMORY
    # with transactions Kafka's test driver loses dead letters
    if rng.random() < 0.1 and not hostile:
        config["processing.guarantee"] = "exactly_once_v2"
    if hostile:
        errors = "org.apache.kafka.streams.errors."
        if rng.random() < 0.6:
            config["deserialization.exception.handler"] = errors + "LogAndContinueExceptionHandler"
        if rng.random() < 0.6:
            config["processing.exception.handler"] = errors + "LogAndContinueProcessingExceptionHandler"
        if rng.random() < 0.3:
            config["errors.dead.letter.queue.topic.name"] = "dlq"
    return config


def generate(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    hostile = rng.random() < 0.06
    pair = PAIRS[seed * STRIDE % len(PAIRS)]
    generator = Generator(rng, hostile=hostile)
    first = generator.source(rng.choice(("stream", "stream", "table")))
    handle = OPERATORS[pair[0]](generator, first)
    handle = OPERATORS[pair[1]](generator, handle)
    # Bound: 8 operators, those in between not counted
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 5))):
        name = rng.choice(sorted(OPERATORS))
        start = rng.choice([each for each in generator.handles if each.kind != "global_table"])
        OPERATORS[name](generator, start if rng.random() < 0.5 else handle)
    generator.finish()
    config = _config(rng, hostile=hostile)
    if any(node.get("kind") == "sliding" for node in generator.nodes) and config[CACHE] == SMALL:
        # Kafka's sliding windows touch all entries of a cache before them: what it evicts next differs
        config[CACHE] = "0"
    return {
        "seed": seed,
        "hostile": hostile,
        "pair": list(pair),
        "config": config,
        "nodes": generator.nodes,
        "events": events(rng, generator.topics, hostile=hostile),
    }
