"""The errors that follow from the statuses of a streams group."""

from __future__ import annotations

import pytest
from headrace.protocol.messages.streams_groups import Status, StatusCode
from headrace.stream.errors import InternalTopicError, MissingSourceTopicError
from headrace.stream.worker.group_status import GRACE_MS, GroupStatus, requests_shutdown

MISSING = Status(StatusCode.MISSING_SOURCE_TOPICS.value, "Source topics a, b are missing.")
INTERNAL = Status(StatusCode.MISSING_INTERNAL_TOPICS.value, "Internal topics are missing: x")


def test_missing_source_topics_are_an_error_once_they_stay_missing() -> None:
    """Both: a later response repeats the status, and the time has passed in which nodes learn of topics."""
    status = GroupStatus()
    assert status.problem((MISSING,), 1, 0) is None
    assert status.problem((MISSING,), 1, 10 * GRACE_MS) is None, "no later response"
    assert status.problem((MISSING,), 2, GRACE_MS - 1) is None
    error = status.problem((MISSING,), 2, GRACE_MS)
    assert isinstance(error, MissingSourceTopicError)
    assert "Source topics a, b are missing: they were deleted" in str(error)


def test_time_begins_again_when_the_status_ends() -> None:
    status = GroupStatus()
    assert status.problem((MISSING,), 1, 0) is None
    assert status.problem((), 2, GRACE_MS) is None
    assert status.problem((MISSING,), 3, GRACE_MS) is None
    assert status.problem((MISSING,), 4, GRACE_MS) is None


@pytest.mark.parametrize(
    ("code", "detail", "is_error"),
    [
        (StatusCode.INCORRECTLY_PARTITIONED_TOPICS, "{a=1, b=2}", True),
        (StatusCode.MISSING_INTERNAL_TOPICS, f"{INTERNAL.status_detail}; Creation failed: no", True),
        (
            StatusCode.MISSING_INTERNAL_TOPICS,
            f"{INTERNAL.status_detail}; Unauthorized to CREATE on topics x",
            True,
        ),
        (StatusCode.MISSING_INTERNAL_TOPICS, INTERNAL.status_detail, False),
        (StatusCode.ASSIGNMENT_DELAYED, "", False),
        (StatusCode.STALE_TOPOLOGY, "", False),
        (StatusCode.SHUTDOWN_APPLICATION, "", False),
    ],
)
def test_statuses_that_are_errors(code: StatusCode, detail: str, is_error: bool) -> None:
    """Internal topics are missing for a moment at each first start."""
    status, said = GroupStatus(), (Status(code.value, detail),)
    assert status.problem(said, 1, 0) is None
    error = status.problem(said, 2, GRACE_MS)
    assert (error is not None) == is_error
    assert error is None or (isinstance(error, InternalTopicError) and detail in str(error))


def test_shutdown_is_requested() -> None:
    assert requests_shutdown((MISSING, Status(StatusCode.SHUTDOWN_APPLICATION.value, "m failed")))
    assert not requests_shutdown((MISSING,))
