"""ReadControl: when a connection is read, muted and closed; on a clock that the test moves."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from headrace.services.kafka_listener.gone_io import POLL_MS
from headrace.services.kafka_listener.memory import RequestMemory
from headrace.services.kafka_listener.reading_io import MUTE_STEP_MS, ReadControl


class Connection:
    """Fulfils ReadOwner, ReadHost and the socket, and records calls."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.descriptor = self.write_end  # reports a hang-up once the read end is closed
        self.memory = RequestMemory(1_000)
        self.is_ending = self.has_partial_frame = False
        self.is_idle = self.awaits_response = True
        self.time_ms = 1_000
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.is_read = True
        self.calls: list[str] = []
        itself: Any = self
        self.reading = ReadControl(itself, itself, itself)

    def now_ms(self) -> int:
        return self.time_ms

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.timers.append((self.time_ms + delay_ms, action))

    def set_reading(self, is_polled: bool) -> None:
        self.is_read = is_polled

    def resume_reading(self) -> None:
        raise AssertionError("called by the listener alone")

    def end_turn(self) -> None:
        self.calls.append("end turn")
        self.reading.update(False)

    def abort(self) -> None:
        self.calls.append("abort")

    def advance(self, ms: int) -> None:
        """Move the clock and fire the timers that are due, in order."""
        self.time_ms += ms
        due = sorted((each for each in self.timers if each[0] <= self.time_ms), key=lambda each: each[0])
        self.timers = [each for each in self.timers if each not in due]
        for _, action in due:
            action()


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = Connection()
    yield made
    for descriptor in (made.read_end, made.write_end):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_reading_pauses_while_requests_wait(connection: Connection) -> None:
    """And resumes with the update after them."""
    connection.reading.update(True)
    assert (connection.is_read, connection.reading.is_paused) == (False, True)
    connection.reading.update(False)
    assert (connection.is_read, connection.reading.is_paused) == (True, False)


def test_a_muted_connection_resumes_after_the_longest_time(connection: Connection) -> None:
    """A shorter mute does not end a longer one; long ones are waited for in steps."""
    connection.reading.mute(MUTE_STEP_MS + 500)
    connection.reading.mute(10)
    connection.reading.update(False)
    assert not connection.is_read
    connection.advance(MUTE_STEP_MS)
    assert not connection.is_read
    connection.advance(500)
    assert connection.is_read
    assert connection.calls == ["end turn"]


def test_a_connection_above_its_rate_is_closed_after_the_mute(connection: Connection) -> None:
    """It is never read."""
    connection.reading.mute(100, must_close=True)
    connection.reading.update(False)
    connection.advance(100)
    assert (connection.is_read, connection.calls) == (False, ["abort"])


def test_paused_connection_of_a_closed_client_is_aborted(connection: Connection) -> None:
    """Only while its first request waits for a response: a Produce is completed all the same."""
    connection.reading.update(True)
    connection.advance(POLL_MS)
    assert connection.calls == []
    os.close(connection.read_end)
    connection.awaits_response = False
    connection.advance(POLL_MS)
    assert connection.calls == []
    connection.awaits_response = True
    connection.advance(POLL_MS)
    assert connection.calls == ["abort"]


def test_a_closed_connection_is_left_alone(connection: Connection) -> None:
    """Timers that are still due do nothing."""
    connection.reading.mute(100)
    connection.reading.update(True)
    connection.reading.close()
    connection.advance(10 * POLL_MS)
    connection.reading.update(False)
    assert (connection.calls, connection.is_read) == ([], False)
