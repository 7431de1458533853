"""The requests that a controller has under way to others: one of a kind to each, with timeout and backoff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .events import Send

if TYPE_CHECKING:
    from .events import Effect


class Sent(NamedTuple):
    """A request under way."""

    target: int
    body: Any
    deadline_ms: int


class Requests:
    """Makes the Send effects.

    Invariant: at most one request of a kind to a target is under way.
    Bound: targets are the voters, the bootstrap servers and the leader.
    """

    def __init__(self, effects: list[Effect], timeout_ms: int, backoff_ms: int) -> None:
        self._effects = effects
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._next_id = 1
        self._under_way: dict[int, Sent] = {}  # by correlation id
        self._not_before: dict[tuple[int, type], int] = {}  # free again from then on

    def is_free(self, target: int, kind: type, now_ms: int) -> bool:
        """Whether such a request may be sent now."""
        return self._not_before.get((target, kind), now_ms) <= now_ms

    def under_way(self) -> list[tuple[int, Sent]]:
        """What is not answered yet, by correlation id."""
        return list(self._under_way.items())

    def send(self, target: int, body: Any, now_ms: int, timeout_ms: int | None = None) -> None:
        """Send it unless one of the kind is under way to the target or has just failed."""
        if not self.is_free(target, type(body), now_ms):
            return
        deadline_ms = now_ms + (self._timeout_ms if timeout_ms is None else timeout_ms)
        correlation_id = self._next_id
        self._next_id += 1
        self._under_way[correlation_id] = Sent(target, body, deadline_ms)
        self._not_before[target, type(body)] = deadline_ms
        self._effects.append(Send(target, correlation_id, body))

    def take(self, correlation_id: int) -> Sent | None:
        """What was asked; None if nobody waits for the answer any more."""
        sent = self._under_way.pop(correlation_id, None)
        if sent is not None:
            del self._not_before[sent.target, type(sent.body)]
        return sent

    def fail(self, correlation_id: int, now_ms: int) -> Sent | None:
        """There will be no answer: not again before the backoff is over. What was asked, as by `take`."""
        sent = self.take(correlation_id)
        if sent is not None:
            self.back_off(sent, now_ms)
        return sent

    def back_off(self, sent: Sent, now_ms: int) -> None:
        """The answer was of no use."""
        self._not_before[sent.target, type(sent.body)] = now_ms + self._backoff_ms

    def expire(self, now_ms: int) -> None:
        """Give up what was not answered in time; it may be asked again at once."""
        for correlation_id in [c for c, sent in self._under_way.items() if sent.deadline_ms <= now_ms]:
            self.take(correlation_id)

    def forget(self) -> None:
        """The role changed: no answer means anything any more."""
        self._under_way.clear()
        self._not_before.clear()

    def deadline_ms(self, now_ms: int) -> int | None:
        """When something may be sent that may not now."""
        return min((at for at in self._not_before.values() if at > now_ms), default=None)
