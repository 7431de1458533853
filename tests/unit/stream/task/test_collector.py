"""The record collector: partitioners, and errors of serdes and of the producer."""

from __future__ import annotations

from typing import Any

import pytest
from headrace.protocol.errors import (
    DeliveryTimeoutError,
    InvalidTopicError,
    MessageTooLargeError,
    NotEnoughReplicasError,
)
from headrace.stream.errors import ProcessorFailedError, StreamsError, TaskRetryError
from headrace.stream.records import TaskId
from headrace.stream.task.collector import RecordCollector
from headrace.stream.task.current_record import CurrentRecord
from headrace.stream.task.handlers import (
    Decision,
    ErrorContext,
    LogAndContinue,
    ProducedRecord,
    Response,
    RetryOrFail,
)
from headrace.stream.testing.topics import StoredRecord


def plain(_topic: str, value: Any, _headers: Any) -> bytes | None:
    return None if value is None else value.encode()  # type: ignore[no-any-return]


class Collected:
    """A collector while offset 7 of in-2 is processed."""

    def __init__(self, handler: Any = None, partitions: int = 4) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.dropped: list[str] = []
        self.current = CurrentRecord()
        self.current.start(StoredRecord("in", 2, 7, 5, b"k", b"v"), 5)
        self.collector = RecordCollector(
            TaskId(0, 2), self.current, lambda *record: self.sent.append(record), lambda _topic: partitions,
            handler or RetryOrFail(), self.dropped.append,
        )  # fmt: skip

    def send(self, key: Any, value: Any, partitioner: Any = None) -> None:
        self.collector.send("sink", "out", key, value, 5, (), plain, plain, partitioner)


def test_without_partitioner_the_producer_decides() -> None:
    """Null keys and values stay null."""
    collected = Collected()
    collected.send(None, "v")
    assert collected.sent == [("out", None, None, b"v", 5, ())]


def test_a_partitioner_chooses_one_or_several_partitions() -> None:
    """None leaves it to the producer, none at all drops the record."""
    for chosen, expected in ((1, [1]), ((0, 3), [0, 3]), (None, [None]), ((), [])):
        collected = Collected()
        collected.send("k", "v", lambda topic, key, value, count, chosen=chosen: chosen)
        assert [record[1] for record in collected.sent] == expected
        assert collected.dropped == ([] if expected else ["no partition"])


@pytest.mark.parametrize("chosen", [4, -1, (0, 4)])
def test_a_partition_that_does_not_exist_stops_the_task(chosen: Any) -> None:
    """The partitioner got their number. It is no error that a retry can end."""
    with pytest.raises(ValueError, match="the partitioner of topic out, with 4 partitions, chose"):
        Collected().send("k", "v", lambda *_: chosen)


def test_a_partitioner_needs_the_metadata_of_the_topic() -> None:
    """The topic does not exist."""
    with pytest.raises(StreamsError, match="no metadata of output topic out"):
        Collected(partitions=0).send("k", "v", lambda *_: 0)


def test_a_record_that_cannot_be_serialized_stops_the_task() -> None:
    """The error names the topic and the field."""
    with pytest.raises(StreamsError, match="cannot serialize the value of a record for topic out"):
        Collected().send("k", 5)
    collected = Collected(LogAndContinue())
    collected.send("k", 5)
    assert (collected.sent, collected.dropped) == ([], ["not serialized"])


def test_an_error_of_the_producer_is_raised_by_the_next_call() -> None:
    """Once; a handler may decide to go on."""
    collected = Collected()
    collected.collector.on_send_error("sink", ProducedRecord("out", b"k", b"v"), OSError("too large"))
    with pytest.raises(StreamsError, match="cannot send a record to topic out: too large"):
        collected.send("k", "v")
    collected.send("k", "v")
    tolerant = Collected(LogAndContinue("letters"))
    tolerant.collector.on_send_error("sink", ProducedRecord("out", b"k", b"v"), OSError("too large"))
    tolerant.collector.check()
    assert [record[0] for record in tolerant.sent] == ["letters"]


def test_a_dead_letter_has_the_bytes_of_the_input_record() -> None:
    """After a record was sent for it too; not for an error of the producer, which may come later."""
    letters: list[ErrorContext] = []

    class Noting(LogAndContinue):
        def handle(self, context: ErrorContext, record: Any, error: Exception) -> Any:
            letters.append(context)
            return super().handle(context, record, error)

    collected = Collected(Noting())
    collected.send("k", "v")
    context = collected.collector.error_context("p")
    assert (context.topic, context.offset, context.raw_value) == ("in", 7, b"v")
    collected.collector.on_send_error("sink", ProducedRecord("out", b"k", b"v"), OSError("too large"))
    assert [(letter.offset, letter.raw_value) for letter in letters] == [(7, None)]


def test_an_exception_of_a_handler_is_fatal() -> None:
    """It is the cause, and says which error was handled."""

    class Broken(RetryOrFail):
        def handle_serialization(self, *_: Any) -> Any:
            raise KeyError("oops")

    with pytest.raises(ProcessorFailedError) as found:
        Collected(Broken()).send("k", 5)
    assert "AttributeError" in found.value.__cause__.__notes__[0]  # type: ignore[union-attr]


def test_handler_result_retry_raises_a_retriable_error() -> None:
    """Timeouts are retriable, too. RETRY for any other error is FAIL."""
    record = ProducedRecord("out", b"k", b"v")
    for error in (DeliveryTimeoutError("late"), NotEnoughReplicasError("one replica")):
        collected = Collected()
        collected.collector.on_send_error("sink", record, error)
        with pytest.raises(TaskRetryError, match="could not send a record to topic out") as found:
            collected.collector.check()
        assert (found.value.task_id, found.value.__cause__) == (TaskId(0, 2), error)

    class AlwaysRetry(RetryOrFail):
        def handle(self, context: Any, record: Any, error: Exception) -> Response:
            return Response(Decision.RETRY)

    stubborn = Collected(AlwaysRetry())
    stubborn.collector.on_send_error("sink", record, MessageTooLargeError("too large"))
    with pytest.raises(StreamsError, match="cannot send a record"):
        stubborn.collector.check()


def test_errors_that_no_record_causes_are_not_for_the_handler() -> None:
    """Nor is a dead letter that cannot be sent: its dead letter could not be sent either."""
    invalid = Collected(LogAndContinue("letters"))
    invalid.collector.on_send_error("sink", ProducedRecord("out", b"k", b"v"), InvalidTopicError("a b"))
    with pytest.raises(StreamsError, match="cannot send a record to topic out"):
        invalid.collector.check()
    assert invalid.sent == []
    collected = Collected(LogAndContinue("letters"))
    too_large = MessageTooLargeError("too large")
    collected.collector.on_send_error("sink", ProducedRecord("out", b"k", b"v"), too_large)
    collected.collector.check()
    collected.collector.on_send_error("letters", ProducedRecord("letters", b"k", b"v"), too_large)
    with pytest.raises(StreamsError, match="cannot send a record to topic letters"):
        collected.collector.check()
    assert len(collected.sent) == 1


def test_the_first_error_that_stops_the_task_decides() -> None:
    """The handler is not asked about those that follow from it."""
    collected = Collected(RetryOrFail("letters"))
    for text in ("first", "second"):
        record = ProducedRecord("out", b"k", b"v")
        collected.collector.on_send_error("sink", record, MessageTooLargeError(text))
    assert len(collected.sent) == 1
    with pytest.raises(StreamsError, match="first"):
        collected.collector.check()
