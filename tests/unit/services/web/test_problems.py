"""Errors of the cluster as problem documents with Confluent's error codes."""

import pytest
from headrace.protocol import errors
from headrace.services.web.problems import Problem, problem_of, status_of


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.SaslAuthenticationFailedError(), 401, 40101),
        (errors.TopicAuthorizationFailedError(), 403, 40301),
        (errors.UnknownTopicOrPartitionError(), 404, 40403),
        (errors.TopicAlreadyExistsError(), 400, 40002),
        (errors.ConfigError("key"), 400, 40002),
        (errors.MessageTooLargeError(), 413, 41301),
        (errors.ThrottlingQuotaExceededError(), 429, 42901),
        (errors.NoClusterError("none"), 503, 50301),
        (errors.ApiTimeoutError("late"), 503, 50301),
        (errors.NotEnoughReplicasError(), 503, 50003),
        (errors.UnknownServerError(), 500, 50002),
    ],
)
def test_status_of_an_error(error: errors.HeadraceError, status: int, code: int) -> None:
    """NoClusterError is a ConfigError, and is not the client's fault."""
    assert status_of(error) == (status, code)
    problem = problem_of(error)
    assert problem is not None
    body = problem.body()
    assert (body.status, body.error_code, body.message) == (status, code, body.detail)
    assert ("retry-after" in problem.headers) == (status in (429, 503))


def test_first_error_of_several() -> None:
    """As `Results.raise_for_errors` raises them."""
    group = ExceptionGroup("2 of 3", [errors.TopicAlreadyExistsError(), errors.ConfigError("x")])
    problem = problem_of(group)
    assert problem is not None
    assert problem.error_code == 40002


def test_defect_of_the_server() -> None:
    """It is no response for the client: the guard logs it."""
    assert problem_of(KeyError("x")) is None
    assert problem_of(Problem(418, "x")) is not None
