"""Requests wait under keys and are answered exactly once."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from headrace.protocol.errors import ThrottlingQuotaExceededError
from headrace.runtime.purgatory import Purgatory
from headrace.runtime.timing_wheel import TimingWheel


@dataclass
class Waiting:
    """A request that completes once `is_ready`; `log` holds how it was answered. Not hashable, on purpose."""

    name: str
    log: list[str]
    is_ready: bool = False
    tries: int = 0
    during: Callable[[], object] = field(default=lambda: None)

    def try_complete(self, _now_ms: int) -> bool:
        self.tries += 1
        if self.is_ready:
            self.during()
            self.log.append(f"{self.name} completed")
        return self.is_ready

    def on_expire(self, _now_ms: int) -> None:
        self.during()
        self.log.append(f"{self.name} expired")


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def purgatory() -> Purgatory:
    return Purgatory(TimingWheel(), limit=10)


def test_ready_request_is_not_parked(purgatory: Purgatory, log: list[str]) -> None:
    assert purgatory.park(Waiting("a", log, is_ready=True), ("k",), 100, 0)
    assert log == ["a completed"]
    assert len(purgatory) == 0
    assert purgatory.watched_keys == 0


def test_event_completes_requests_of_its_key_oldest_first(purgatory: Purgatory, log: list[str]) -> None:
    """Requests under other keys stay."""
    first, second, other = (Waiting(name, log) for name in ("first", "second", "other"))
    for request, key in ((first, "k"), (other, "j"), (second, "k")):
        assert not purgatory.park(request, (key,), 100, 0)
        request.is_ready = True
    assert purgatory.check("k", 0) == 2
    assert log == ["first completed", "second completed"]
    assert other.tries == 1
    assert len(purgatory) == 1


def test_completed_request_leaves_all_its_keys(purgatory: Purgatory, log: list[str]) -> None:
    """And its timer."""
    request = Waiting("a", log)
    purgatory.park(request, ("k", "j", "k"), 100, 0)
    request.is_ready = True
    assert purgatory.check("j", 0) == 1
    assert purgatory.check("k", 0) == 0
    assert purgatory.watched_keys == 0
    assert purgatory.expire(1000) == 0
    assert log == ["a completed"]
    assert purgatory.next_deadline_ms() is None


def test_request_stays_until_it_can_complete(purgatory: Purgatory, log: list[str]) -> None:
    """Not enough bytes yet."""
    request = Waiting("a", log)
    purgatory.park(request, ("k",), 100, 0)
    assert purgatory.check("k", 0) == 0
    request.is_ready = True
    assert purgatory.check("k", 0) == 1


def test_requests_expire_at_their_deadline(purgatory: Purgatory, log: list[str]) -> None:
    """Each is answered once."""
    purgatory.park(Waiting("late", log), ("k",), 200, 0)
    purgatory.park(Waiting("soon", log), ("k",), 100, 0)
    assert purgatory.expire(99) == 0
    assert purgatory.expire(100) == 1
    assert purgatory.expire(300) == 1
    assert log == ["soon expired", "late expired"]
    assert purgatory.check("k", 0) == 0
    assert len(purgatory) == 0


def test_cancelled_request_is_never_answered(purgatory: Purgatory, log: list[str]) -> None:
    """Neither an event nor the deadline reaches it."""
    request = Waiting("a", log)
    purgatory.park(request, ("k",), 100, 0)
    assert purgatory.cancel(request)
    assert not purgatory.cancel(request)
    request.is_ready = True
    assert purgatory.check("k", 0) == purgatory.expire(500) == 0
    assert log == []


def test_full_purgatory_refuses_requests_that_would_wait(log: list[str]) -> None:
    """A request that is ready is answered."""
    purgatory = Purgatory(TimingWheel(), limit=2)
    for name in "ab":
        purgatory.park(Waiting(name, log), ("k",), 100, 0)
    with pytest.raises(ThrottlingQuotaExceededError):
        purgatory.park(Waiting("c", log), ("k",), 100, 0)
    assert purgatory.park(Waiting("d", log, is_ready=True), ("k",), 100, 0)
    assert len(purgatory) == 2
    assert purgatory.expire(100) == 2
    assert not purgatory.park(Waiting("e", log), ("k",), 200, 0)


def test_event_raised_by_a_completion_is_handled(purgatory: Purgatory, log: list[str]) -> None:
    """Completing a produce completes a fetch: each is answered once."""
    produce, fetch = Waiting("produce", log), Waiting("fetch", log)
    purgatory.park(produce, ("p",), 100, 0)
    purgatory.park(fetch, ("p", "f"), 100, 0)
    produce.is_ready = fetch.is_ready = True
    produce.during = lambda: (purgatory.check("p", 0), purgatory.check("f", 0))
    assert purgatory.check("p", 0) == 1
    assert log == ["fetch completed", "produce completed"]
    assert produce.tries == 2
    assert fetch.tries == 2
    assert len(purgatory) == 0


def test_expiry_may_cancel_another_due_request(purgatory: Purgatory, log: list[str]) -> None:
    """The second one is not answered."""
    first, second = Waiting("first", log), Waiting("second", log)
    first.during = lambda: purgatory.cancel(second)
    purgatory.park(first, ("k",), 100, 0)
    purgatory.park(second, ("k",), 100, 0)
    assert purgatory.expire(100) == 1
    assert log == ["first expired"]


def test_request_may_be_parked_again(purgatory: Purgatory, log: list[str]) -> None:
    """The timer of its first ticket does not end it."""
    request = Waiting("a", log)
    purgatory.park(request, ("k",), 100, 0)
    purgatory.cancel(request)
    purgatory.park(request, ("k",), 300, 0)
    assert purgatory.expire(200) == 0
    assert purgatory.expire(300) == 1
