"""What a thread makes of the statuses of its streams group. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.messages.streams_groups import StatusCode
from ..errors import InternalTopicError, MissingSourceTopicError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.messages.streams_groups import Status
    from ..errors import StreamsError

GRACE_MS = 3_000
"""A node that has not followed the metadata yet does not know topics that were just created."""

_ERRORS: dict[StatusCode, type[StreamsError]] = {
    StatusCode.MISSING_SOURCE_TOPICS: MissingSourceTopicError,
    StatusCode.INCORRECTLY_PARTITIONED_TOPICS: InternalTopicError,
    StatusCode.MISSING_INTERNAL_TOPICS: InternalTopicError,
}
_ADVICE = {
    StatusCode.MISSING_SOURCE_TOPICS: "they were deleted while the application runs",
    StatusCode.INCORRECTLY_PARTITIONED_TOPICS: (
        "a source topic or the topology has changed; stop it and run `headrace stream reset`, or give it"
        " another application.id"
    ),
    StatusCode.MISSING_INTERNAL_TOPICS: "mend what the error says, or create the topics",
}
_FAILED = ("Creation failed:", "Unauthorized to CREATE")


class GroupStatus:
    """Follows the statuses of one group."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[int, int]] = {}  # code -> first response, its time in ms

    def problem(self, statuses: Sequence[Status], responses: int, now_ms: int) -> StreamsError | None:
        """The error that ends the thread: a status about topics that a later response, GRACE_MS after the
        first one, repeats. Internal topics that are missing count only once their creation has failed,
        or is not allowed."""
        found = {status.status_code: status.status_detail for status in statuses if _is_problem(status)}
        self._since = {code: self._since.get(code, (responses, now_ms)) for code in found}
        for code, (first, since_ms) in sorted(self._since.items()):
            if responses > first and now_ms - since_ms >= GRACE_MS:
                status = StatusCode(code)
                return _ERRORS[status](f"{found[code].rstrip('.')}: {_ADVICE[status]}")
        return None


def requests_shutdown(statuses: Sequence[Status]) -> bool:
    """Whether a member has requested the end of the application."""
    return any(status.status_code == StatusCode.SHUTDOWN_APPLICATION.value for status in statuses)


def _is_problem(status: Status) -> bool:
    code = status.status_code
    if code == StatusCode.MISSING_INTERNAL_TOPICS.value:
        return any(text in status.status_detail for text in _FAILED)
    return any(code == each.value for each in _ERRORS)
