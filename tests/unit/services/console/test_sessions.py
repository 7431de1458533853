"""Sessions of the console end by time and number; wrong passwords are bounded; tokens are of one session."""

import pytest
from headrace.services.console.sessions import (
    FAILURES_S,
    IDLE_S,
    LONGEST_S,
    MOST_FAILURES,
    MOST_SESSIONS,
    Sessions,
)
from headrace.services.console.visit import local_path
from headrace.services.web.credentials import Credentials
from headrace.services.web.problems import Problem

ANN = Credentials("ann", "secret")


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.sessions = Sessions(lambda: self.now_s)


@pytest.fixture
def time() -> Time:
    return Time()


def test_idle_sessions_end(time: Time) -> None:
    session = time.sessions.begin(ANN)
    time.now_s += IDLE_S
    assert time.sessions.credentials(session) == ANN
    time.now_s += IDLE_S + 1
    assert time.sessions.credentials(session) is None


def test_busy_sessions_end_after_their_lifetime(time: Time) -> None:
    session = time.sessions.begin(ANN)
    ends_at = time.now_s + LONGEST_S
    while time.now_s + IDLE_S / 2 < ends_at:
        time.now_s += IDLE_S / 2
        assert time.sessions.credentials(session) == ANN
    time.now_s = ends_at + 1
    assert time.sessions.credentials(session) is None


def test_least_recently_used_session_is_replaced(time: Time) -> None:
    first, second = time.sessions.begin(ANN), time.sessions.begin(ANN)
    time.sessions.credentials(first)
    for _ in range(MOST_SESSIONS - 1):
        time.sessions.begin(ANN)
    assert time.sessions.credentials(second) is None
    assert time.sessions.credentials(first) == ANN


def test_token_is_of_one_session(time: Time) -> None:
    first, second = time.sessions.begin(ANN), time.sessions.begin(ANN)
    assert time.sessions.is_token(first, time.sessions.token(first))
    assert not time.sessions.is_token(first, time.sessions.token(second))
    assert not time.sessions.is_token(first, "é" * 64)
    assert not Sessions().is_token(first, time.sessions.token(first))


def test_wrong_passwords_block_one_user_for_a_while(time: Time) -> None:
    for _ in range(MOST_FAILURES):
        time.sessions.check_attempt("ann")
        time.sessions.failed("ann")
    with pytest.raises(Problem) as refused:
        time.sessions.check_attempt("ann")
    assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "60")
    time.sessions.check_attempt("bob")
    time.now_s += FAILURES_S + 1
    time.sessions.check_attempt("ann")


def test_credentials_are_not_printed(time: Time) -> None:
    time.sessions.begin(ANN)
    assert "secret" not in repr(vars(time.sessions))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/topics?q=a", "/topics?q=a"),
        ("//evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("", "/"),
    ],
)
def test_pages_after_signing_in_are_local(text: str, path: str) -> None:
    assert local_path(text) == path
