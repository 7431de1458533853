"""Errors of tasks, parsed from PySpark's messages."""

import pytest
from headrace.clients.spark.task_errors import error_of
from headrace.protocol.errors import DataLossError, MessageTooLargeError

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "headrace/clients/pipeline/reading_io.py", line 110, in _read
headrace.protocol.client_errors.LogTruncationError: the log has lost it

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "headrace/clients/spark/reading_io.py", line 70, in fetched
    yield from fetch_arrow(ranges[number])
{}
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "headrace.protocol.client_errors.DataLossError: t-0: 3 offsets are lost: gone",
            DataLossError("t-0: 3 offsets are lost: gone"),
        ),
        ("headrace.protocol.errors.MessageTooLargeError: 9000 bytes", MessageTooLargeError("9000 bytes")),
        ("ValueError: column 'topic' has a null", ValueError("column 'topic' has a null")),
        ("TypeError: no", TypeError("no")),
        ("headrace.protocol.client_errors.DataLossError: one\ntwo\n", DataLossError("one\ntwo")),
        ("headrace.protocol.client_errors.DataLossError: ", DataLossError("")),
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times: " + "{}"
        "\n\tat org.apache.spark.api.BasePythonRunner.x(PythonRunner.scala:572)\n\nDriver stacktrace:\n"
        "\tat org.apache.spark.scheduler.DAGScheduler.y(DAGScheduler.scala:1)\nCaused by: java.lang.Z: z",
    ],
    ids=["python", "java"],
)
def test_task_error_has_its_class_and_text(line: str, expected: Exception, around: str) -> None:
    """The last one of a chain, with or without a Java stack trace."""
    found = error_of(around.replace("{}", WORKER.replace("{}", line)))
    assert type(found) is type(expected)
    assert str(found) == str(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Job was cancelled",
        "Traceback\nZeroDivisionError: division by zero",
        "headrace.protocol.errors.No: x",
    ],
)
def test_foreign_errors_are_not_converted(text: str) -> None:
    """Spark's error stays."""
    assert error_of(text) is None
