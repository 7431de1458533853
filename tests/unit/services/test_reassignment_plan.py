"""Reassignment plans: Kafka's JSON, and the generator."""

import json
from collections import Counter

import pytest
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition
from headrace.services.reassignment_plan import generate, plan_of, text_of_plan
from hypothesis import given
from hypothesis import strategies as st

PLAN = {TopicPartition("a", 0): (1, 2), TopicPartition("a", 1): (3,)}


def test_plan_json_round_trip() -> None:
    """As kafka-reassign-partitions.sh has it."""
    text = text_of_plan(PLAN)
    assert json.loads(text)["version"] == 1
    assert json.loads(text)["partitions"][0] == {"topic": "a", "partition": 0, "replicas": [1, 2]}
    assert plan_of(text) == PLAN


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"partitions": []}',
        '{"partitions": [{"topic": "a", "partition": 0}]}',
        '{"partitions": [{"topic": "a", "partition": -1, "replicas": [1]}]}',
        '{"partitions": [{"topic": 5, "partition": 0, "replicas": [1]}]}',
        '{"partitions": [{"topic": "a", "partition": 0, "replicas": "12"}]}',
        '{"partitions": [{"topic": "a", "partition": 0, "replicas": [true]}]}',
        '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1]},'
        ' {"topic": "a", "partition": 0, "replicas": [2]}]}',
    ],
)
def test_invalid_plans_are_errors(text: str) -> None:
    """One line names the mistake."""
    with pytest.raises(ConfigError, match="plan"):
        plan_of(text)


def test_plan_moves_as_few_replicas_as_possible() -> None:
    """A balanced topic is not moved; only replicas of a removed node move."""
    current = {TopicPartition("t", n): ((1, 2, 3)[n], (2, 3, 1)[n]) for n in range(3)}
    assert generate(current, dict.fromkeys((1, 2, 3)), None) == current
    moved = generate(current, dict.fromkeys((1, 2, 4)), None)
    assert [set(moved[place]) for place in sorted(moved)] == [{1, 2}, {2, 4}, {4, 1}]
    with pytest.raises(ConfigError, match="3 replicas need 3 nodes"):
        generate(current, dict.fromkeys((1, 2)), 3)


def test_racks_come_before_loads() -> None:
    """The second replica is in another rack."""
    current = {TopicPartition("t", n): (1,) for n in range(4)}
    plan = generate(current, {1: "a", 2: "a", 3: "b"}, 2)
    racks = {1: "a", 2: "a", 3: "b"}
    assert all({racks[node_id] for node_id in nodes} == {"a", "b"} for nodes in plan.values())


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=30),
    st.sets(st.integers(1, 8), min_size=3),
    st.one_of(st.none(), st.integers(1, 3)),
)
def test_plans_are_valid_and_balanced(replicas: list[list[int]], nodes: set[int], factor: int | None) -> None:
    """The requested number of replicas, each on another of the given nodes, none far from its share."""
    current = {TopicPartition("t", number): tuple(each) for number, each in enumerate(replicas)}
    plan = generate(current, dict.fromkeys(sorted(nodes)), factor)
    assert plan.keys() == current.keys()
    load: Counter[int] = Counter()
    for place, chosen in plan.items():
        assert len(chosen) == len(set(chosen)) == (factor or len(current[place]))
        assert set(chosen) <= nodes
        load.update(chosen)
    assert max(load.values()) <= -(-load.total() // len(nodes)) + 2
