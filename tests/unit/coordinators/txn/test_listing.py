"""What admins see of transactions."""

from typing import Any

import pytest
from headrace.protocol import errors
from headrace.protocol.messages import registry
from headrace.protocol.messages.groups import TopicNamePartitions
from headrace.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    ListedTransaction,
    ListTransactionsRequest,
)
from txn_rig import TxnRig


@pytest.fixture
def rig() -> TxnRig:
    """`app:1` is Empty, `app:2` Ongoing since a minute, `b` PrepareCommit."""
    rig = TxnRig()
    rig.begun("app:1")
    rig.write(rig.begun("app:2", timeout_ms=900_000), ("t", 2), "x", name="app:2")
    rig.pass_time(60_000)
    producer = rig.begun("b")
    rig.write(producer, ("t", 0), "x", name="b")
    rig.end(producer, name="b")
    return rig


def listed(rig: TxnRig, **filters: Any) -> list[str]:
    answer = rig.call(registry.LIST_TRANSACTIONS, ListTransactionsRequest(**filters)).answer
    assert answer.error_code == 0
    return [each.transactional_id for each in answer.transactions]


def test_describe_transactions(rig: TxnRig) -> None:
    """State, producer, times and partitions; an unknown id gets TRANSACTIONAL_ID_NOT_FOUND."""
    request = DescribeTransactionsRequest(("app:2", "absent", "", "app:1"))
    first, second, third, fourth = rig.call(registry.DESCRIBE_TRANSACTIONS, request).answer.transactions
    value = rig.known("app:2").value
    partitions = (TopicNamePartitions("t", (2,)),)
    assert first == DescribedTransaction(
        0, "app:2", "Ongoing", 900_000, value.start_ms, 1001, 0, topics=partitions
    )
    assert second.error_code == errors.TransactionalIdNotFoundError.code
    assert third.error_code == errors.InvalidRequestError.code
    assert (fourth.state, fourth.start_ms, fourth.topics) == ("Empty", -1, ())


def test_list_filters_are_combined(rig: TxnRig) -> None:
    """An id must match all of them."""
    assert listed(rig) == ["app:1", "app:2", "b"]
    assert listed(rig, states=("Ongoing", "PrepareCommit")) == ["app:2", "b"]
    assert listed(rig, producer_ids=(1000, 1002)) == ["app:1", "b"]
    assert listed(rig, states=("Ongoing",), producer_ids=(1000,)) == []
    assert listed(rig, states=("Ongoing",), duration_ms=59_999) == ["app:2"]
    assert listed(rig, states=("Ongoing",), duration_ms=60_000) == []


def test_prepared_transactions_have_their_own_state(rig: TxnRig) -> None:
    """With the time since they are prepared; their age counts from their first partition."""
    value = rig.known("app:2").value
    assert rig.prepare((1001, 0), "app:2").code == 0
    since_ms = rig.moment.wall_ms
    rig.pass_time(1_000)
    assert listed(rig, states=("Prepared",)) == listed(rig, states=("Prepared",), duration_ms=60_999)
    assert listed(rig, states=("Ongoing",)) == listed(rig, states=("Prepared",), duration_ms=61_000) == []
    (row,) = rig.call(registry.LIST_TRANSACTIONS, ListTransactionsRequest(("Prepared",))).answer.transactions
    assert row == ListedTransaction("app:2", 1001, "Prepared", since_ms)
    (found,) = rig.call(
        registry.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(("app:2",))
    ).answer.transactions
    assert (found.state, found.start_ms, found.prepared_ms) == ("Prepared", value.start_ms, since_ms)
    rig.end((1001, 0), commit=False, name="app:2")
    assert rig.known("app:2").value.prepared_ms == -1


def test_unknown_state_is_reported_and_matches_nothing(rig: TxnRig) -> None:
    request = ListTransactionsRequest(states=("Done", "Ongoing"))
    answer = rig.call(registry.LIST_TRANSACTIONS, request).answer
    assert answer.unknown_states == ("Done",)
    assert len(answer.transactions) == 1
    assert listed(rig, states=("Done",)) == []


def test_pattern_matches_whole_ids(rig: TxnRig) -> None:
    """Whatever their characters."""
    assert listed(rig, transactional_id_pattern="app.*") == ["app:1", "app:2"]
    assert listed(rig, transactional_id_pattern="app:[^1]") == ["app:2"]
    assert listed(rig, transactional_id_pattern="app") == []
    assert listed(rig, transactional_id_pattern="") == ["app:1", "app:2", "b"]


def test_invalid_or_expensive_pattern_is_refused(rig: TxnRig) -> None:
    for pattern in ("(", "a{1000}{1000}", "x" * 2_000):
        request = ListTransactionsRequest(transactional_id_pattern=pattern)
        answer = rig.call(registry.LIST_TRANSACTIONS, request).answer
        assert answer.error_code == errors.InvalidRegularExpressionError.code


def test_backtracking_patterns_take_linear_time(rig: TxnRig) -> None:
    rig.begun("a" * 2_000 + "!")
    assert listed(rig, transactional_id_pattern="(a+)+") == []
