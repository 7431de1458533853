"""task.timeout.ms: how long a task may be tried again."""

from __future__ import annotations

import pytest
from headrace.protocol.errors import ApiTimeoutError
from headrace.stream.errors import TaskTimeoutError
from headrace.stream.records import TaskId
from headrace.stream.task.timeouts import TaskTimeouts

TASK, OTHER = TaskId(0, 1), TaskId(0, 2)
ERROR = ApiTimeoutError("no answer")


def test_a_task_is_tried_until_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    """The first error begins the time, and is logged once; the error behind it names the task, the key and
    the last error."""
    timeouts = TaskTimeouts(100)
    with caplog.at_level("INFO", "headrace.stream"):
        for now_ms in (1000, 1050, 1100):
            timeouts.failed([TASK], ERROR, now_ms, until_commit=False)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    timeouts.failed([OTHER], ERROR, 1101, until_commit=False)
    with pytest.raises(TaskTimeoutError, match=r"task 0_1 .* task.timeout.ms, 100 ms: .*no answer") as found:
        timeouts.failed([TASK], ERROR, 1101, until_commit=False)
    assert found.value.__cause__ is ERROR


@pytest.mark.parametrize("progress", ["restored", "clear"])
def test_progress_ends_the_time(progress: str) -> None:
    """The next error begins it again."""
    timeouts = TaskTimeouts(100)
    timeouts.failed([TASK], ERROR, 1000, until_commit=False)
    getattr(timeouts, progress)([TASK, OTHER])
    timeouts.failed([TASK], ERROR, 1101, until_commit=False)


def test_after_an_error_of_processing_only_a_commit_ends_the_time() -> None:
    """A task is restored before each further attempt."""
    timeouts = TaskTimeouts(100)
    timeouts.failed([TASK], ERROR, 1000, until_commit=True)
    timeouts.clear([TASK])
    timeouts.failed([TASK], ERROR, 1101, until_commit=True)
    timeouts.restored([TASK])
    with pytest.raises(TaskTimeoutError):
        timeouts.failed([TASK], ERROR, 1202, until_commit=False)


def test_without_time_the_first_error_is_raised() -> None:
    """A timeout above 0 has one more attempt, however late it is."""
    with pytest.raises(TaskTimeoutError):
        TaskTimeouts(0).failed([TASK], ERROR, 1000, until_commit=False)
