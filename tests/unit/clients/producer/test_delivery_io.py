"""Outcomes of batches, and the futures that read them."""

import os
import signal
import threading

import pytest
from headrace.clients.producer import delivery_io
from headrace.clients.producer.delivery_io import BatchResult, Delivery, FailedFuture, RecordFuture, Run
from headrace.clients.records import RecordMetadata
from headrace.protocol.errors import ApiTimeoutError, HeadraceError, InvalidRecordError


def test_a_future_reads_its_record_from_the_batch() -> None:
    """The third record of a batch with base offset 100."""
    delivery = Delivery("t", 1, None)
    future = RecordFuture(delivery, 2, 77, 3, 4)
    assert not future.done()
    assert future.running()
    assert repr(future) == "<RecordFuture t-1 pending>"
    delivery.resolve(100, -1, None)
    assert future.result() == RecordMetadata("t", 1, 102, 77, 3, 4)
    assert future.exception() is None
    assert repr(future) == "<RecordFuture t-1 at 102>"


def test_log_append_time_replaces_the_timestamp() -> None:
    """Consumers see the same."""
    delivery = Delivery("t", 0, None)
    delivery.resolve(5, 999, None)
    assert RecordFuture(delivery, 0, 77, -1, 1).result().timestamp == 999


def test_a_failure_is_raised_and_returned() -> None:
    """As by concurrent.futures."""
    delivery = Delivery("t", 0, None)
    error = InvalidRecordError("bad")
    delivery.resolve(-1, -1, error)
    future = RecordFuture(delivery, 0, 77, -1, 1)
    assert future.exception() is error
    assert not future.cancel()
    assert not future.cancelled()
    with pytest.raises(InvalidRecordError):
        future.result()
    assert future.outcome()[0].offset == -1


def test_waiting_ends_with_the_outcome_or_the_timeout() -> None:
    """Another thread resolves; before that a short wait times out as a TimeoutError."""
    delivery = Delivery("t", 0, None)
    future = RecordFuture(delivery, 0, 0, -1, 1)
    with pytest.raises(TimeoutError):
        future.result(0)
    with pytest.raises(ApiTimeoutError):
        future.exception(0)
    thread = threading.Thread(target=delivery.resolve, args=(1, -1, None))
    thread.start()
    assert future.result(60).offset == 1
    thread.join()


def test_waiting_on_the_io_thread_raises() -> None:
    """It would never end; futures that are done may be read there."""
    delivery = Delivery("t", 0, threading.get_ident())
    future = RecordFuture(delivery, 0, 0, -1, 1)
    with pytest.raises(HeadraceError, match="add_done_callback"):
        future.result(1)
    delivery.resolve(1, -1, None)
    assert future.result().offset == 1


def test_callbacks_are_called_once() -> None:
    """Callbacks added before and after the outcome; an exception of one is logged, and the rest still run."""
    delivery = Delivery("t", 0, None)
    future = RecordFuture(delivery, 0, 0, -1, 1)
    seen: list[RecordFuture] = []

    def broken(_: RecordFuture) -> None:
        raise RuntimeError("user code")

    future.add_done_callback(broken)
    future.add_done_callback(seen.append)
    delivery.resolve(1, -1, None)
    future.add_done_callback(seen.append)
    assert seen == [future, future]


def test_only_the_first_outcome_counts() -> None:
    """The user has seen it: callbacks are called once, and the offset stays."""
    delivery = Delivery("t", 0, None)
    reported: list[int] = []
    delivery.add_callback(lambda: reported.append(1))
    delivery.resolve(-1, -1, InvalidRecordError("first"))
    delivery.resolve(7, -1, None)
    assert reported == [1]
    assert isinstance(delivery.error, InvalidRecordError)


def test_error_that_was_read_is_reported_for_the_parts_too() -> None:
    """The error of a part of a split batch, once read from a future, is no loss at close."""
    whole, part = Delivery("t", 0, None), Delivery("t", 0, None)
    whole.split([(0, part)])
    part.resolve(-1, -1, InvalidRecordError())
    assert not part.is_reported
    assert RecordFuture(whole, 0, -1, -1, -1).exception(0) is part.error
    assert part.is_reported


def test_split_batch_has_the_outcomes_of_its_parts() -> None:
    """Records 0-2 are in one part, 3-4 in another, which is split again."""
    whole, left, right = Delivery("t", 0, None), Delivery("t", 0, None), Delivery("t", 0, None)
    futures = [RecordFuture(whole, index, 0, -1, 1) for index in range(5)]
    whole.split([(0, left), (3, right)])
    inner = [Delivery("t", 0, None), Delivery("t", 0, None)]
    right.split([(0, inner[0]), (1, inner[1])])
    left.resolve(10, -1, None)
    inner[1].resolve(30, -1, None)
    assert not whole.is_done
    inner[0].resolve(-1, -1, InvalidRecordError("one"))
    assert whole.is_done
    assert [future.outcome()[0].offset for future in futures] == [10, 11, 12, -1, 30]
    assert isinstance(futures[3].exception(), InvalidRecordError)
    assert not whole.has_succeeded()


def test_a_batch_result_is_a_sequence_of_outcomes() -> None:
    """A run of three, a failed record, a single one."""
    first, second = Delivery("t", 0, None), Delivery("t", 1, None)
    error = InvalidRecordError("bad")
    result = BatchResult(
        [Run(first, 5, 9, [1, 2, 3]), FailedFuture("t", -1, error), RecordFuture(second, 0, 8, 1, 1)]
    )
    assert len(result) == 5
    assert not result.done()
    assert not result.wait(0)
    with pytest.raises(ApiTimeoutError):
        result.errors(0)
    first.resolve(100, -1, None)
    second.resolve(7, -1, None)
    assert result.wait(0)
    assert result.errors() == {3: error}
    assert [result[index].outcome()[0].offset for index in (0, 1, 2, 4, -1)] == [105, 106, 107, 7, 7]
    assert [future.outcome()[0].serialized_value_size for future in result] == [1, 2, 3, -1, 1]
    with pytest.raises(ExceptionGroup, match="1 of 5 records"):
        result.results()
    with pytest.raises(IndexError):
        result[5]
    assert repr(result) == "<BatchResult 5 of 5 done>"


def test_results_of_a_successful_batch() -> None:
    """Metadata of every record; also of an empty result."""
    delivery = Delivery("t", 0, None)
    result = BatchResult([Run(delivery, 0, 9, [1, 2])])
    delivery.resolve(3, -1, None)
    assert [metadata.offset for metadata in result.results()] == [3, 4]
    assert BatchResult([]).results() == []
    assert BatchResult([]).done()


def test_fork_while_the_lock_is_held() -> None:
    """Another thread holds the lock of all deliveries: the child's deliveries work."""
    with delivery_io._lock:
        child = os.fork()
        if child == 0:
            outcome = 1
            try:
                signal.alarm(20)  # ends a child that waits for ever
                delivery = Delivery("t", 0, None)
                called: list[bool] = []
                delivery.add_callback(lambda: called.append(True))
                delivery.resolve(1, -1, None)
                outcome = 0 if called else 1
            finally:
                os._exit(outcome)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
