"""The decision about a batch: its record, names that cannot collide, and what counts as open."""

from typing import Any

import pytest
from headrace.clients.pipeline.commits import (
    Decision,
    Gate,
    check_all_prepared,
    checked_batch,
    decoded,
    driver_id,
    encoded,
    task_id,
)
from headrace.clients.pipeline.written import PreparedWrite, WriteReport, Written
from headrace.protocol.errors import (
    ApiTimeoutError,
    ConfigError,
    CorruptMessageError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    UnsupportedVersionError,
)
from headrace.protocol.model import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.text(min_size=1, max_size=6)
REPORT = WriteReport(9, ((TopicPartition("t", 2), Written(9, 3, 40)),))


def write(task: str = "3", query: str = "q", epoch: int = 5) -> PreparedWrite:
    return PreparedWrite(task, task_id(query, task), 77, epoch, REPORT)


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


def test_all_transactions_must_be_prepared() -> None:
    """Every fault is named, with the task; who is too old for it is told apart."""
    good = write()
    check_all_prepared([good], {})
    for error, says in (
        (ProducerFencedError("epoch 5 is over"), "a later attempt has started, or .*epoch 5 is over"),
        (InvalidTxnStateError("it is Empty"), "a later attempt has started, or .*it is Empty"),
        (InvalidProducerIdMappingError("not the id's"), "a later attempt has started, or"),
        (ApiTimeoutError("nobody answers"), "nobody answers"),
    ):
        with pytest.raises(InvalidTxnStateError, match=f"the batch is not committed: task 3: .*{says}"):
            check_all_prepared([write("2"), good], {good.transactional_id: error})
    many = [write(str(number)) for number in range(8)]
    fenced = dict.fromkeys((each.transactional_id for each in many), ProducerFencedError("over"))
    with pytest.raises(InvalidTxnStateError, match=r"task 4: .*; and 3 more"):
        check_all_prepared(many, fenced)
    old = {**fenced, many[7].transactional_id: UnsupportedVersionError("no PrepareTxn")}
    with pytest.raises(UnsupportedVersionError, match="upgrade nodes before drivers"):
        check_all_prepared(many, old)


def test_reports_add_up() -> None:
    """Rows are counted, offsets spanned, partitions sorted."""
    one, other = TopicPartition("t", 1), TopicPartition("t", 0)
    report = WriteReport.of([(one, Written(3, 10, 12)), (other, Written(1, 0, 0)), (one, Written(2, 4, 6))])
    assert report == WriteReport(6, ((other, Written(1, 0, 0)), (one, Written(5, 4, 12))))
    assert WriteReport.of([]) == WriteReport()


@pytest.mark.parametrize("batch", ["0", None, True, -1, 1.0])
def test_what_is_no_number_of_a_batch(batch: Any) -> None:
    """It would be kept, and compare with nothing."""
    with pytest.raises(ConfigError, match="the batch number must be"):
        checked_batch(batch)
    assert checked_batch(5) == 5


def test_a_gate_is_open_as_long_as_its_driver_stands_where_it_stood() -> None:
    """One that nobody had to open is shut by whoever uses the id."""
    Gate("d", (7, 3)).check((7, 3))
    Gate("d").check(None)
    for gate, now in ((Gate("d", (7, 3)), (7, 4)), (Gate("d", (7, 3)), (8, 3)), (Gate("d", (7, 3)), None)):
        with pytest.raises(ProducerFencedError, match="is too late"):
            gate.check(now)
    with pytest.raises(ProducerFencedError, match="is too late"):
        Gate("d").check((7, 0))
