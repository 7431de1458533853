"""The order of answers when time jumps, and what waiting leaves behind."""

from headrace.runtime.purgatory import Purgatory
from headrace.runtime.timing_wheel import TimingWheel


class Ready:
    """A request that completes when it is asked for the second time."""

    def __init__(self) -> None:
        self.tries = 0

    def try_complete(self, _now_ms: int) -> bool:
        self.tries += 1
        return self.tries > 1

    def on_expire(self, _now_ms: int) -> None:
        raise AssertionError("it was answered before")


def test_time_jump_keeps_the_order_of_deadlines() -> None:
    """45 and 41 are in one bucket of the second wheel, 45 first; time jumps to 60: 41 is due first."""
    wheel: TimingWheel[str] = TimingWheel()
    wheel.add("later", 45)
    wheel.add("sooner", 41)
    wheel.add("equal, but added after", 41)
    assert wheel.advance(60) == ["sooner", "equal, but added after", "later"]


def test_clock_that_goes_back_changes_nothing() -> None:
    wheel: TimingWheel[str] = TimingWheel()
    wheel.add("a", 50)
    assert wheel.advance(40) == []
    assert wheel.advance(10) == []
    wheel.add("b", 30)  # overdue by the wheel's own time
    assert wheel.next_deadline_ms() == 40
    assert wheel.advance(10) == ["b"]
    assert wheel.advance(50) == ["a"]


def test_completed_request_leaves_no_timer() -> None:
    """A thousand fetches complete long before their deadlines."""
    wheel: TimingWheel[object] = TimingWheel()
    purgatory = Purgatory(wheel, limit=10)
    for _ in range(1000):
        purgatory.park(Ready(), ("key",), 30_000, 0)
        assert purgatory.check("key", 0) == 1
    assert len(wheel) == 0
    assert purgatory.next_deadline_ms() is None
