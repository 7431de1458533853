"""Problem responses (RFC 9457) with the `error_code` and `message` of Confluent's REST proxy. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 1


class ProblemBody(msgspec.Struct, kw_only=True):
    """The body of every error. `error_code` is Confluent's: the status, or the status and two digits."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    error_code: int
    message: str


class Problem(Exception):
    """Ends a request with an error response."""

    def __init__(
        self, status: int, detail: str, error_code: int = 0, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.error_code = status, detail, error_code or status
        self.headers = dict(headers or {})

    def body(self) -> ProblemBody:
        """The JSON document."""
        return ProblemBody(
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            error_code=self.error_code,
            message=self.detail,
        )


# The first class that matches decides: (status, error code) of errors of the cluster and of the clients.
_STATUS: tuple[tuple[tuple[type[BaseException], ...], int, int], ...] = (
    ((errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError), 401, 40101),
    (
        (
            errors.TopicAuthorizationFailedError,
            errors.GroupAuthorizationFailedError,
            errors.ClusterAuthorizationFailedError,
            errors.TransactionalIdAuthorizationFailedError,
            errors.DelegationTokenAuthorizationFailedError,
        ),
        403,
        40301,
    ),
    ((errors.UnknownTopicOrPartitionError, errors.UnknownTopicIdError), 404, 40403),
    (
        (
            errors.GroupIdNotFoundError,
            errors.ResourceNotFoundError,
            errors.BrokerIdNotRegisteredError,
            errors.TransactionalIdNotFoundError,
            errors.NoReassignmentInProgressError,
        ),
        404,
        404,
    ),
    ((errors.MessageTooLargeError, errors.RecordBatchTooLargeError), 413, 41301),
    ((errors.ThrottlingQuotaExceededError, errors.BufferExhaustedError), 429, 42901),
    (
        (errors.NoClusterError, errors.NetworkError, errors.ApiTimeoutError, errors.DeliveryTimeoutError),
        503,
        50301,
    ),
    (
        (
            errors.TopicAlreadyExistsError,
            errors.InvalidTopicError,
            errors.InvalidPartitionsError,
            errors.InvalidReplicationFactorError,
            errors.InvalidReplicaAssignmentError,
            errors.InvalidConfigError,
            errors.InvalidRequestError,
            errors.InvalidRecordError,
            errors.InvalidTimestampError,
            errors.PolicyViolationError,
            errors.UnsupportedVersionError,
            errors.SecurityDisabledError,
            errors.ConfigError,
        ),
        400,
        40002,
    ),
)
_RETRIABLE, _OTHER = (503, 50003), (500, 50002)


def problem_of(error: BaseException) -> Problem | None:
    """The response for an error of the clients; None for an error that is a defect of the server."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, BaseExceptionGroup):
        return problem_of(error.exceptions[0])
    if not isinstance(error, errors.HeadraceError):
        return None
    status, code = status_of(error)
    headers = {"retry-after": str(RETRY_AFTER_S)} if status in (429, 503) else None
    return Problem(status, text_of_error(error), code, headers)


def status_of(error: errors.HeadraceError) -> tuple[int, int]:
    """(HTTP status, error code) of an error of the clients."""
    for kinds, status, code in _STATUS:
        if isinstance(error, kinds):
            return status, code
    return _RETRIABLE if getattr(error, "retriable", False) else _OTHER


def text_of_error(error: BaseException) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def encoded(problem: Problem) -> tuple[bytes, dict[str, Any]]:
    """(body, headers) of a problem response."""
    return msgspec.json.encode(problem.body()), {"content-type": PROBLEM_TYPE, **problem.headers}
