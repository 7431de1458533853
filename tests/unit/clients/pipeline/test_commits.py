"""The commit decision of a batch: its record, transactional ids without collisions, and open gates."""

from typing import Any

import pytest
from headrace.clients.pipeline.commits import (
    Decision,
    Gate,
    attempt_name,
    check_all_prepared,
    checked_batch,
    decoded,
    driver_id,
    encoded,
    first_attempt,
    task_id,
)
from headrace.clients.pipeline.written import PreparedWrite, WriteReport, Written
from headrace.protocol import errors
from headrace.protocol.errors import ConfigError
from headrace.protocol.model import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.text(min_size=1, max_size=6)
REPORT = WriteReport(9, ((TopicPartition("t", 2), Written(9, 3, 40)),))


def write(task: str = "3", query: str = "q", epoch: int = 5) -> PreparedWrite:
    return PreparedWrite(task, task_id(query, task), 77, epoch, REPORT)


@given(NAMES, st.lists(NAMES, max_size=4, unique=True), st.integers(0, 2**63), st.booleans())
def test_commit_decision_round_trip(query: str, tasks: list[str], batch: int, is_done: bool) -> None:
    """For any names of queries and tasks."""
    decision = Decision(batch, is_done, tuple(write(task, query) for task in tasks))
    assert decoded(query, encoded(decision)) == decision


@given(NAMES, NAMES, NAMES, NAMES)
def test_transactional_ids_do_not_collide(query: str, task: str, other_query: str, other_task: str) -> None:
    """Two tasks have one id only if they are equal; a driver's id differs from each task's."""
    same = (query, task) == (other_query, other_task)
    assert (task_id(query, task) == task_id(other_query, other_task)) == same
    assert driver_id(query) != task_id(other_query, other_task)


def test_empty_names_are_errors() -> None:
    """All queries would share them."""
    assert task_id("q", 0) == task_id("q", "0")
    with pytest.raises(errors.ConfigError, match="query"):
        task_id("", 0)
    with pytest.raises(errors.ConfigError, match="task"):
        task_id("q", "")


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"[]", b"\xff", b'{"form":2,"batch":1,"done":true,"writes":[]}', b'{"form":1,"batch":1}',
     b'{"form":1,"batch":1,"done":true,"writes":[[1]]}'],
)  # fmt: skip
def test_invalid_decisions_are_errors(value: bytes) -> None:
    """The error has the record."""
    with pytest.raises(errors.CorruptMessageError, match="decision"):
        decoded("q", value)


def test_all_transactions_must_be_prepared() -> None:
    """The error names each fault with its task; nodes without PrepareTxn have an error of their own."""
    good = write()
    check_all_prepared([good], {})
    for error, says in (
        (errors.ProducerFencedError("epoch 5 is over"), "a later attempt has started, or .*epoch 5 is over"),
        (errors.InvalidTxnStateError("it is Empty"), "a later attempt has started, or .*it is Empty"),
        (errors.InvalidProducerIdMappingError("not the id's"), "a later attempt has started, or"),
        (errors.ApiTimeoutError("no response"), "no response"),
    ):
        with pytest.raises(
            errors.InvalidTxnStateError, match=f"the batch is not committed: task 3: .*{says}"
        ):
            check_all_prepared([write("2"), good], {good.transactional_id: error})
    many = [write(str(number)) for number in range(8)]
    fenced = dict.fromkeys((each.transactional_id for each in many), errors.ProducerFencedError("over"))
    with pytest.raises(errors.InvalidTxnStateError, match=r"task 4: .*; and 3 more"):
        check_all_prepared(many, fenced)
    old = {**fenced, many[7].transactional_id: errors.UnsupportedVersionError("no PrepareTxn")}
    with pytest.raises(errors.UnsupportedVersionError, match="upgrade nodes before drivers"):
        check_all_prepared(many, old)


def test_reports_add_up() -> None:
    """Rows are counted, offsets spanned, partitions sorted."""
    one, other = TopicPartition("t", 1), TopicPartition("t", 0)
    report = WriteReport.of([(one, Written(3, 10, 12)), (other, Written(1, 0, 0)), (one, Written(2, 4, 6))])
    assert report == WriteReport(6, ((other, Written(1, 0, 0)), (one, Written(5, 4, 12))))
    assert WriteReport.of([]) == WriteReport()


@pytest.mark.parametrize("batch", ["0", None, True, -1, 1.0])
def test_invalid_batch_ids_are_errors(batch: Any) -> None:
    """They would be stored, and compare with no other id."""
    with pytest.raises(errors.ConfigError, match="the batch number must be"):
        checked_batch(batch)
    assert checked_batch(5) == 5


def test_gate_is_open_until_the_epoch_of_its_driver_changes() -> None:
    """A gate without a producer id is closed by the first user of the id."""
    Gate("d", (7, 3)).check((7, 3))
    Gate("d").check(None)
    for gate, now in ((Gate("d", (7, 3)), (7, 4)), (Gate("d", (7, 3)), (8, 3)), (Gate("d", (7, 3)), None)):
        with pytest.raises(errors.ProducerFencedError, match="is too late"):
            gate.check(now)
    with pytest.raises(errors.ProducerFencedError, match="is too late"):
        Gate("d").check((7, 0))


def test_attempts_of_a_task_have_ids_of_their_own() -> None:
    """From which that of the first one is found."""
    ids = [task_id("q/1", attempt_name("run/3", attempt)) for attempt in range(12)]
    assert len(set(ids)) == 12
    assert {first_attempt(each) for each in ids} == {ids[0]} == {task_id("q/1", "run/3")}
    assert first_attempt(task_id("q", "attempt-1")) == task_id("q", "attempt-1")


@pytest.mark.parametrize("attempt", [-1, True, "1", None])
def test_attempt_must_be_a_count(attempt: Any) -> None:
    with pytest.raises(ConfigError, match="attempt must be an integer >= 0"):
        attempt_name("3", attempt)
