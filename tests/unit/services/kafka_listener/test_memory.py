"""Which connections may be read, and which requests may start, at the limit of request memory."""

from dataclasses import dataclass

from headrace.services.kafka_listener.memory import PEAK_ELEMENT_BYTES, HeldRequests, RequestMemory

LIMIT = 1_000


@dataclass(eq=False)
class Connection:
    """Fulfils Holder."""

    has_partial_frame: bool = False
    is_idle: bool = True

    def resume_reading(self) -> None:
        raise AssertionError("no connection is called from here")


def memory() -> RequestMemory:
    return RequestMemory(LIMIT)


def test_above_the_limit_one_connection_may_finish_its_frame() -> None:
    """The first with a partial frame; the next one when it has finished."""
    held, whole, first, second = memory(), Connection(), Connection(True), Connection(True)
    assert held.count(first, LIMIT + 1, 0), "reading changes for all other connections"
    assert not held.may_read(whole)
    assert held.may_read(first)
    assert not held.may_read(second)
    assert list(held.waiting) == [whole, second]
    assert held.is_awaited(first)
    first.has_partial_frame = False
    assert not held.count(first, 0, 0)
    assert held.may_read(second)
    held.count(first, -1, 0)
    assert held.may_read(whole)
    assert not held.waiting


def test_partial_frames_get_half_of_the_memory() -> None:
    """Requests that arrive whole are served beside them."""
    held, slow, other, quick = memory(), Connection(True), Connection(True), Connection()
    assert not held.count(slow, LIMIT // 2, LIMIT // 2)
    assert held.may_read(other)
    assert held.count(slow, 1, 1)
    assert held.may_read(slow), "one of the slow connections may finish"
    assert not held.may_read(other)
    assert held.may_read(quick)
    held.count(slow, -1, -1)
    assert held.may_read(other)


def test_a_request_starts_when_there_is_memory_for_its_objects() -> None:
    """One request at a time may exceed the limit until it is answered."""
    held, first, second = memory(), Connection(), Connection()
    held.count(Connection(), 900, 0)
    assert held.may_start(first, 100)
    assert held.may_start(first, 101)
    first.is_idle = False
    held.count(first, 101, 0)
    assert not held.may_start(second, 1)
    assert list(held.waiting) == [second]
    first.is_idle = True
    held.count(first, -101, 0)
    assert held.may_start(second, 101)
    assert not held.waiting


def test_a_closed_connection_lets_the_next_one_exceed_the_limit() -> None:
    """No connection waits for a closed one."""
    held, first, second = memory(), Connection(True), Connection(True)
    held.count(Connection(), 2 * LIMIT, 0)
    assert held.may_read(first)
    assert held.may_start(first, 1)
    assert not held.may_read(second)
    assert held.release(first)
    assert held.may_start(second, 1)
    assert held.may_read(second)
    assert not held.release(Connection())


def test_one_request_takes_at_most_half_of_the_limit() -> None:
    """At its peak, as measured."""
    assert RequestMemory(20 * PEAK_ELEMENT_BYTES).max_elements == 10


def test_held_requests_report_growth_and_the_last_move() -> None:
    """Waiting alone is no move: a connection that holds memory for long is closed by that time."""
    held = HeldRequests()
    assert held.count(0, 0, 0, 5) == (0, 0)
    assert held.since_ms == 0
    held.moves += 1
    assert held.count(30, 100, 0, 7) == (100, 30)
    assert (held.since_ms, held.counted_bytes) == (7, 100)
    assert held.count(0, 40, 0, 9) == (-60, -30)
    assert held.since_ms == 7
    assert held.count(0, 40, 1, 11) == (0, 0)
    assert held.since_ms == 11, "a further partial frame was begun"
