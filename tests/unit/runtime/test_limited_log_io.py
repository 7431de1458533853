"""A limited log: what appears in the operator's log of messages that a peer triggers."""

import logging

import pytest
from headrace.runtime.limited_log_io import LimitedLog
from headrace.runtime.repeats import INTERVAL_MS


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limited(clock: Clock, caplog: pytest.LogCaptureFixture) -> LimitedLog:
    caplog.set_level(logging.INFO)
    return LimitedLog(logging.getLogger("headrace.test"), clock)


def test_flood_becomes_two_lines(limited: LimitedLog, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """The first message is logged, and after the interval the next one with the number of skipped ones."""
    for port in range(500):
        limited.warning("dropped", "connection of port %d dropped", port)
    clock.now_ms += INTERVAL_MS
    limited.warning("dropped", "connection of port %d dropped", 500)
    assert caplog.messages == [
        "connection of port 0 dropped",
        "connection of port 500 dropped (repeated 499 times in the last 10 s)",
    ]


def test_end_of_a_flood_is_logged_with_the_next_message(
    limited: LimitedLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    limited.warning("a", "first")
    limited.warning("a", "second")
    clock.now_ms += INTERVAL_MS
    limited.log(logging.INFO, "b", "other")
    assert caplog.messages == ["first", "a: repeated 1 times in the last 10 s", "other"]


def test_percent_signs_are_not_formats(
    limited: LimitedLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A client id may contain %s."""
    for _ in range(2):
        limited.warning("a", "name 100%s")
        limited.warning("a", "name 100%s")
        clock.now_ms += INTERVAL_MS
    assert caplog.messages == ["name 100%s", "name 100%s (repeated 1 times in the last 10 s)"]


def test_owners_are_limited_separately(
    limited: LimitedLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Each server and client has its own limit."""
    limited.warning("a", "one")
    LimitedLog(logging.getLogger("headrace.test"), clock).warning("a", "two")
    assert caplog.messages == ["one", "two"]
