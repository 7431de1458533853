"""Error handlers, and the dead letters of records that failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from headrace.clients.serdes import json, utf8
from headrace.stream import Builder
from headrace.stream.errors import ProcessingError, StreamsError
from headrace.stream.records import TaskId
from headrace.stream.task.handlers import (
    Decision,
    ErrorContext,
    LogAndContinue,
    LogAndFail,
    Response,
    dead_letters,
)
from headrace.stream.task.settings import TaskSettings

from tests.fakes.stream_run import Run

SETTINGS = TaskSettings(key_serde=utf8, value_serde=json)


def run_with(**handlers: Any) -> Run:
    """Divides 1 by the value, and sends it on as well."""
    builder = Builder()
    stream = builder.stream("in")
    stream.map_values(lambda v: 1 / v, name="division").to("out")
    stream.to("copy")
    return Run(builder, replace(SETTINGS, **handlers))


def headers_of(run: Run) -> dict[str, bytes | None]:
    (letter,) = run.driver.producer_records("letters")
    return dict(letter.headers)


def test_processing_errors_can_be_skipped() -> None:
    """The other children still get the record."""
    run = run_with(processing_handler=LogAndContinue()).send("in", ("a", 0, 5), ("b", 2, 6))
    assert run.read() == [("b", 0.5, 6)]
    assert run.read("copy") == [("a", 0, 5), ("b", 2, 6)]
    assert run.driver.dropped_records == {"processing failed": 1}


def test_a_dead_letter_has_the_bytes_and_position_of_the_input_record() -> None:
    """With the header names of Kafka; its own headers come first."""
    run = run_with(processing_handler=LogAndContinue("letters"))
    run.driver.input_topic("in").pipe_input("a", 0, 5, {"h": b"1"})
    (letter,) = run.driver.producer_records("letters")
    assert (letter.key, letter.value, letter.timestamp) == (b"a", b"0", 5)
    assert [name for name, _ in letter.headers] == [
        "h", "__streams.errors.exception", "__streams.errors.message", "__streams.errors.stacktrace",
        "__streams.errors.topic", "__streams.errors.partition", "__streams.errors.offset",
    ]  # fmt: skip
    found = headers_of(run)
    assert found["__streams.errors.exception"] == b"ZeroDivisionError"
    assert (found["__streams.errors.topic"], found["__streams.errors.offset"]) == (b"in", b"0")


def test_failing_with_a_dead_letter_stops_the_task_all_the_same() -> None:
    """The dead letter is sent, and the error names the processor."""
    run = run_with(processing_handler=LogAndFail("letters"))
    with pytest.raises(ProcessingError, match="processor division"):
        run.send("in", ("a", 0, 5))
    run.send("in", ("b", 1, 6))
    assert headers_of(run)["__streams.errors.offset"] == b"0"


def test_a_handler_sees_the_record_and_the_processor() -> None:
    """An exception of the handler itself stops the task."""
    seen: list[Any] = []

    class Handler:
        def handle(self, context: ErrorContext, record: Any, error: Exception) -> Response:
            seen.append((context.processor, context.topic, context.offset, record.value, type(error)))
            if len(seen) == 2:
                raise KeyError("broken handler")
            return Response(Decision.CONTINUE)

    run = run_with(processing_handler=Handler()).send("in", ("a", 0, 5))
    assert seen == [("division", "in", 0, 0, ZeroDivisionError)]
    with pytest.raises(ProcessingError) as found:
        run.send("in", ("a", 0, 6))
    assert isinstance(found.value.__cause__, KeyError)


def test_unreadable_records_can_be_skipped() -> None:
    """A poisoned record stops the task by default, and the error names its position."""
    run = run_with(deserialization_handler=LogAndContinue("letters"))
    run.driver.pipe_bytes("in", b"a", b"{no json", 5)
    run.send("in", ("b", 1, 6))
    assert run.read() == [("b", 1.0, 6)]
    assert headers_of(run)["__streams.errors.offset"] == b"0"
    with pytest.raises(StreamsError, match="task 0_0 cannot read offset 0 of in-0"):
        run_with().driver.pipe_bytes("in", b"a", b"{no json", 5)


def test_records_that_cannot_be_serialized_can_be_skipped() -> None:
    """By the production handler."""

    class Handler(LogAndContinue):
        def handle_serialization(
            self, context: ErrorContext, record: Any, error: Exception, field: str
        ) -> Response:
            assert (context.topic, record.topic, record.value, field) == ("in", "out", {1}, "value")
            return super().handle_serialization(context, record, error, field)

    builder = Builder()
    builder.stream("in").map_values(lambda v: {1} if v == 0 else v).to("out", value=utf8)
    run = Run(builder, replace(SETTINGS, production_handler=Handler("letters")))
    run.send("in", ("a", 0, 5), ("b", "fine", 6))
    assert [record.value for record in run.driver.producer_records("out")] == [b"fine"]
    assert len(run.driver.producer_records("letters")) == 1


@pytest.mark.parametrize(("timestamp", "expected"), [(-1, None), (0, 0)])
def test_a_dead_letter_outside_of_a_record_has_the_time_of_sending(
    timestamp: int, expected: int | None
) -> None:
    """No record may be sent with a negative timestamp."""
    context = ErrorContext(None, -1, -1, (), "sink", TaskId(0, 0), timestamp, None, None)
    (letter,) = dead_letters("letters", context, ValueError("too large"))
    assert letter.timestamp == expected
