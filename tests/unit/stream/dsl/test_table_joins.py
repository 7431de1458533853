"""Joins of tables by foreign key: the choice of partitions."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.serdes import utf8
from headrace.stream import Builder
from headrace.stream.state.formats.foreign_keys import SubscriptionResponseWrapper
from headrace.stream.topology.specs import SinkSpec


def partitioners(**options: Any) -> dict[str, Any]:
    """Of the sinks of a join by foreign key."""
    app = Builder()
    left = app.table("left", key=utf8, value=utf8)
    right = app.table("right", key=utf8, value=utf8)
    left.join(right, max, foreign_key=lambda value: value, name="fk", **options)
    sinks = (node for node in app.build("app").all_tasks().nodes if isinstance(node, SinkSpec))
    return {sink.name: sink.partitioner for sink in sinks}


def test_responses_return_to_the_partition_that_subscribed() -> None:
    """The subscription carries it; the default partitioner chooses that of the subscription."""
    found = partitioners()
    assert found["fk-subscription-registration-sink"] is None
    choose = found["fk-subscription-response-sink"]
    assert choose("t", "k", SubscriptionResponseWrapper(None, "v", 3), 8) == 3
    assert choose("t", "k", SubscriptionResponseWrapper(None, "v"), 8) is None


def test_partitioners_of_the_user_get_no_value_and_choose_one_partition() -> None:
    """One for each table."""
    seen: list[Any] = []

    def two(topic: str, key: Any, value: Any, count: int) -> list[int]:
        seen.append((topic, key, value, count))
        return [2]

    found = partitioners(partitioner=two, other_partitioner=lambda *_: [1, 2])
    assert found["fk-subscription-response-sink"]("t", "k", "v", 8) == 2
    assert seen == [("t", "k", None, 8)]
    with pytest.raises(ValueError, match="must choose one partition"):
        found["fk-subscription-registration-sink"]("t", "k", "v", 8)
