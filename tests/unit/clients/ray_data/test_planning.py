"""Placement of ranges, filters from Ray's expressions, and the start offsets of streams."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from headrace.clients.group.group_metadata import OffsetAndMetadata
from headrace.clients.pipeline.filters import Filters
from headrace.clients.pipeline.ranges import OffsetRange
from headrace.clients.ray_data.checkpoints import Checkpoint, clipped
from headrace.clients.ray_data.placement import beside, ray_nodes
from headrace.clients.ray_data.predicates import filters_of
from headrace.protocol.model import TopicPartition


def test_ranges_are_placed_on_the_machines_of_their_leaders() -> None:
    """By address or host name; without Ray there, on a replica's machine; its nodes share the ranges."""
    nodes = ray_nodes(
        [
            {"NodeID": "a", "Alive": True, "NodeManagerAddress": "10.0.0.1", "NodeManagerHostname": "one"},
            {"NodeID": "b", "Alive": True, "NodeManagerAddress": "10.0.0.2", "NodeManagerHostname": "two"},
            {"NodeID": "c", "Alive": True, "NodeManagerAddress": "10.0.0.2", "NodeManagerHostname": "two"},
            {"NodeID": "d", "Alive": False, "NodeManagerAddress": "10.0.0.4", "NodeManagerHostname": "four"},
        ]
    )
    hosts = [("one",), ("10.0.0.2",), ("two",), ("10.0.0.4", "10.0.0.1"), ("elsewhere",), ()]
    ranges = [OffsetRange("t", number, 0, 5, hosts=each) for number, each in enumerate(hosts)]
    found = {node: [each.partition for each in some] for node, some in beside(ranges, nodes)}
    assert found == {"a": [0, 3], "c": [1], "b": [2], None: [4, 5]}


class Operation(Enum):
    GE, LT, EQ, IN, AND, OR, ADD = "ge", "lt", "eq", "in", "and", "or", "add"


@dataclass
class ColumnExpr:
    name: str


@dataclass
class LiteralExpr:
    value: Any


@dataclass
class BinaryExpr:
    op: Operation
    left: Any
    right: Any


def compared(column: str, op: Operation, value: Any) -> BinaryExpr:
    return BinaryExpr(op, ColumnExpr(column), LiteralExpr(value))


def test_comparisons_become_filters() -> None:
    """With the value on either side, joined by `and`."""
    offset, partition = compared("offset", Operation.GE, 5), compared("partition", Operation.IN, [0, 2])
    turned = BinaryExpr(Operation.LT, LiteralExpr(9), ColumnExpr("offset"))
    both = BinaryExpr(Operation.AND, BinaryExpr(Operation.AND, offset, partition), turned)
    assert filters_of(both) == Filters.of([("offset", ">", 9), ("partition", "in", [0, 2])])
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert filters_of(compared("timestamp", Operation.LT, moment)) == Filters.of([("timestamp", "<", moment)])


@pytest.mark.parametrize(
    "other",
    [
        compared("value", Operation.EQ, b"x"),
        compared("offset", Operation.GE, 1.5),
        compared("timestamp", Operation.GE, 1700000000000),  # of which unit, Ray would not say
        compared("offset", Operation.ADD, 5),
        BinaryExpr(Operation.OR, compared("offset", Operation.GE, 5), compared("offset", Operation.LT, 3)),
        BinaryExpr(Operation.EQ, ColumnExpr("offset"), ColumnExpr("partition")),
        BinaryExpr(Operation.IN, LiteralExpr(1), ColumnExpr("offset")),
        ColumnExpr("offset"),
    ],
    ids=str,
)
def test_other_expressions_are_left_to_ray(other: Any) -> None:
    """Alone or as a part of an expression."""
    assert filters_of(other) is None
    assert filters_of(BinaryExpr(Operation.AND, compared("offset", Operation.GE, 5), other)) is None


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_stream_starts_at_the_committed_offsets() -> None:
    """A new topic begins at the given start, an added partition at its first record; partitions that are
    not read any more are left out."""
    committed = {A0: OffsetAndMetadata(5, "topic id ab"), B0: None, TopicPartition("gone", 0): _at(9)}
    found = Checkpoint.of(committed)
    assert found.topic_ids == {"a": "ab"}
    assert found.beginning({A0: 70, A1: 80, B0: 90}) == {A0: 5, B0: 90}


def test_recreated_topic_has_no_committed_offsets() -> None:
    """It has another id under the same name."""
    found = Checkpoint({A0: 5, B0: 6}, {"a": "ab"})
    assert found.renewed({"a": "ab", "b": "cd"}) == []
    assert found.renewed({"b": "cd"}) == []  # not there now
    assert found.renewed({"a": "other"}) == ["a"]
    assert found.without(["a"]) == Checkpoint({B0: 6}, {})


def test_committed_offsets_round_trip() -> None:
    """With the topic's id, where it is known."""
    found = Checkpoint({A0: 5, B0: 6}, {"a": "ab"})
    assert Checkpoint.of(found.notes()) == found


def test_ends_up_to_a_target_offset() -> None:
    """Partitions added after it are not read."""
    assert clipped({A0: 5, A1: 9, B0: 3}, {A0: 7, A1: 8}) == {A0: 5, A1: 8}
    assert clipped({A0: 5}, None) == {A0: 5}


def _at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)
