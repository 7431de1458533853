"""Reassignment plans: Kafka's JSON form, and a generator. Pure.

The generator moves as few replicas as possible: a replica stays unless its node is not a target or has more
than its share. Then the least loaded node gets it, preferably in a rack without a replica of the partition.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ConfigError
from ..protocol.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

Nodes = tuple[int, ...]
Plan = dict[TopicPartition, Nodes]

MAX_PLAN_BYTES = 64 << 20  # Bound: some hundred thousand partitions


def plan_of(text: str) -> Plan:
    """Parse a plan. Errors: ConfigError with the reason."""
    try:
        entries = json.loads(text)["partitions"]
        plan = {_place(entry): _replicas(entry) for entry in entries}
    except (ValueError, KeyError, TypeError) as error:
        cause = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ConfigError(
            'a plan is JSON like {"version": 1, "partitions": '
            f'[{{"topic": "t", "partition": 0, "replicas": [1, 2]}}]}}: {cause}'
        ) from error
    if not plan or len(plan) != len(entries):
        raise ConfigError("a plan must name at least one partition, and each only once")
    return plan


def places_of_json(text: str) -> list[TopicPartition]:
    """The partitions of Kafka's JSON for elections. Errors: ConfigError with the reason."""
    try:
        entries = json.loads(text)["partitions"]
        places = [_place(entry) for entry in entries]
    except (ValueError, KeyError, TypeError) as error:
        cause = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ConfigError(
            f'it is not JSON like {{"partitions": [{{"topic": "t", "partition": 0}}]}}: {cause}'
        ) from error
    if not places or len(set(places)) != len(places):
        raise ConfigError("the file must name at least one partition, and each only once")
    return places


def text_of_plan(plan: Mapping[TopicPartition, Nodes]) -> str:
    """Kafka's JSON of the plan, one line per partition."""
    lines = ",\n".join(
        "  " + json.dumps({"topic": place.topic, "partition": place.partition, "replicas": list(nodes)})
        for place, nodes in sorted(plan.items())
    )
    return f'{{"version": 1, "partitions": [\n{lines}\n]}}'


def generate(
    current: Mapping[TopicPartition, Nodes], racks: Mapping[int, str | None], factor: int | None
) -> Plan:
    """Spread the partitions over the nodes of `racks` (rack by node id), each with `factor` replicas or its
    current number. Errors: ConfigError if there are too few nodes."""
    counts = {place: factor or len(nodes) for place, nodes in current.items()}
    most = max(counts.values(), default=0)
    if most > len(racks):
        raise ConfigError(f"{most} replicas need {most} nodes, there are {len(racks)}")
    share = -(-sum(counts.values()) // len(racks)) if racks else 0
    load: Counter[int] = Counter()
    kept: dict[TopicPartition, list[int]] = {}
    for place in sorted(current):
        kept[place] = []
        for node_id in current[place]:
            if node_id in racks and load[node_id] < share and len(kept[place]) < counts[place]:
                kept[place].append(node_id)
                load[node_id] += 1
    leads: Counter[int] = Counter()
    plan: Plan = {}
    for place, nodes in kept.items():
        while len(nodes) < counts[place]:
            nodes.append(_next(nodes, racks, load))
            load[nodes[-1]] += 1
        first = min(nodes, key=lambda node_id: (leads[node_id], nodes.index(node_id)))
        leads[first] += 1
        plan[place] = (first, *(node_id for node_id in nodes if node_id != first))
    return plan


def _next(nodes: list[int], racks: Mapping[int, str | None], load: Counter[int]) -> int:
    used = {racks[node_id] for node_id in nodes} - {None}
    free = [node_id for node_id in racks if node_id not in nodes]
    return min(free, key=lambda node_id: (racks[node_id] in used, load[node_id], node_id))


def _place(entry: Any) -> TopicPartition:
    topic, partition = entry["topic"], entry["partition"]
    if not isinstance(topic, str) or type(partition) is not int or partition < 0:
        raise ValueError(f"no partition: {topic!r} {partition!r}")
    return TopicPartition(topic, partition)


def _replicas(entry: Any) -> Nodes:
    replicas = entry["replicas"]
    if not isinstance(replicas, list) or not all(type(each) is int and each >= 0 for each in replicas):
        raise ValueError(f"replicas are a list of node ids, not {replicas!r}")
    return tuple(replicas)
