"""The decision about a batch: its record, names that cannot collide, and what counts as open."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.clients.admin.group_types import TransactionDescription, TransactionState
from headrace.clients.pipeline.commits import (
    Decision,
    Gate,
    check_all_live,
    checked_batch,
    decoded,
    driver_id,
    encoded,
    task_id,
)
from headrace.clients.pipeline.written import PreparedWrite, WriteReport, Written
from headrace.protocol.errors import (
    ConfigError,
    CorruptMessageError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionalIdNotFoundError,
)
from headrace.protocol.model import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.text(min_size=1, max_size=6)
REPORT = WriteReport(9, ((TopicPartition("t", 2), Written(9, 3, 40)),))


def write(task: str = "3", query: str = "q", epoch: int = 5) -> PreparedWrite:
    return PreparedWrite(task, task_id(query, task), 77, epoch, REPORT)


def described(state: str = "Ongoing", producer: int = 77, epoch: int = 5) -> TransactionDescription:
    return TransactionDescription("x", TransactionState(state), 1, producer, epoch, 60_000, None, ())


@given(NAMES, st.lists(NAMES, max_size=4, unique=True), st.integers(0, 2**63), st.booleans())
def test_a_decision_is_read_as_it_was_written(
    query: str, tasks: list[str], batch: int, is_done: bool
) -> None:
    """For any names of queries and tasks."""
    decision = Decision(batch, is_done, tuple(write(task, query) for task in tasks))
    assert decoded(query, encoded(decision)) == decision


@given(NAMES, NAMES, NAMES, NAMES)
def test_names_do_not_run_into_each_other(query: str, task: str, other_query: str, other_task: str) -> None:
    """Two tasks have one transactional id only if they are the same; a driver has none of a task's."""
    same = (query, task) == (other_query, other_task)
    assert (task_id(query, task) == task_id(other_query, other_task)) == same
    assert driver_id(query) != task_id(other_query, other_task)


def test_empty_names_are_refused() -> None:
    """They would be everybody's."""
    assert task_id("q", 0) == task_id("q", "0")
    with pytest.raises(ConfigError, match="query"):
        task_id("", 0)
    with pytest.raises(ConfigError, match="task"):
        task_id("q", "")


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"[]", b"\xff", b'{"form":2,"batch":1,"done":true,"writes":[]}', b'{"form":1,"batch":1}',
     b'{"form":1,"batch":1,"done":true,"writes":[[1]]}'],
)  # fmt: skip
def test_what_is_no_decision(value: bytes) -> None:
    """One error, with what was found."""
    with pytest.raises(CorruptMessageError, match="decision"):
        decoded("q", value)


def test_all_transactions_must_be_open_as_they_were_prepared() -> None:
    """The same producer at the same epoch; every fault is named, with the task."""
    good = write()
    check_all_live([good], {good.transactional_id: described()})
    for now in (
        described("CompleteAbort", epoch=7),
        described("Ongoing", epoch=6),
        described("Ongoing", producer=78),
        described("Empty"),
        TransactionalIdNotFoundError("nobody knows it"),
    ):
        with pytest.raises(InvalidTxnStateError, match="task 3"):
            check_all_live([good], {good.transactional_id: now})
    many = [write(str(number)) for number in range(8)]
    with pytest.raises(InvalidTxnStateError, match=r"task 4: .*; and 3 more"):
        check_all_live(many, {each.transactional_id: described("Empty") for each in many})


def test_reports_add_up() -> None:
    """Rows are counted, offsets spanned, partitions sorted."""
    one, other = TopicPartition("t", 1), TopicPartition("t", 0)
    report = WriteReport.of([(one, Written(3, 10, 12)), (other, Written(1, 0, 0)), (one, Written(2, 4, 6))])
    assert report == WriteReport(6, ((other, Written(1, 0, 0)), (one, Written(5, 4, 12))))
    assert WriteReport.of([]) == WriteReport()


@pytest.mark.parametrize("batch", ["0", None, True, -1, 1.0])
def test_what_is_no_number_of_a_batch(batch: Any) -> None:
    """It would be kept, and compare with nothing."""
    with pytest.raises(ConfigError, match="a batch has a number"):
        checked_batch(batch)
    assert checked_batch(5) == 5


def test_a_gate_is_open_as_long_as_its_driver_stands_where_it_stood() -> None:
    """One that nobody had to open is shut by whoever uses the id."""
    Gate("d", (7, 3)).check((7, 3))
    Gate("d").check(None)
    for gate, now in ((Gate("d", (7, 3)), (7, 4)), (Gate("d", (7, 3)), (8, 3)), (Gate("d", (7, 3)), None)):
        with pytest.raises(ProducerFencedError, match="came too late"):
            gate.check(now)
    with pytest.raises(ProducerFencedError, match="came too late"):
        Gate("d").check((7, 0))
