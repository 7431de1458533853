"""protocol/model.py: topic names that could leave the log dir or collide are refused."""

import pytest
from headrace.protocol.model import TopicPartition, effective_min_isr, topic_metric_name, topic_name_fault


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "_"])
def test_legal_names(name: str) -> None:
    """Kafka's legal names, up to 249 characters."""
    assert topic_name_fault(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "x" * 250, "a/b", "../etc", "a\x00b", "a b", "töpic", "a\n", "a\\b", "a:b"]
)
def test_illegal_names(name: str) -> None:
    """A name that is no folder name of its own never reaches the disk."""
    assert topic_name_fault(name) is not None


def test_colliding_names_share_a_metric_name() -> None:
    """Kafka's rule: '.' and '_' are one in metrics."""
    assert topic_metric_name("a.b") == topic_metric_name("a_b")


def test_a_partition_prints_as_its_folder() -> None:
    """`orders-3` in logs, messages and on disk."""
    assert str(TopicPartition("orders", 3)) == "orders-3"


@pytest.mark.parametrize(("configured", "replicas", "expected"), [(2, 1, 1), (2, 2, 2), (2, 3, 2), (1, 3, 1)])
def test_no_more_than_all_replicas_must_be_in_sync(configured: int, replicas: int, expected: int) -> None:
    """A topic of one replica takes acks=all also where min.insync.replicas is 2."""
    assert effective_min_isr(configured, replicas) == expected
