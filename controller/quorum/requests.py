"""The requests in flight to other controllers: one of a kind to each, with timeout and backoff. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .events import Send

if TYPE_CHECKING:
    from .events import Effect


class Sent(NamedTuple):
    """A request in flight."""

    target: int
    body: Any
    deadline_ms: int


class Requests:
    """Makes the Send effects.

    Invariant: at most one request of a kind to a target is in flight.
    Bound: targets are the voters, the bootstrap servers and the leader.
    """

    def __init__(self, effects: list[Effect], timeout_ms: int, backoff_ms: int) -> None:
        self._effects = effects
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._next_id = 1
        self._in_flight: dict[int, Sent] = {}  # by correlation id
        self._not_before: dict[tuple[int, type], int] = {}  # by (target, kind): the next one

    def is_free(self, target: int, kind: type, now_ms: int) -> bool:
        """Whether a request of this kind may be sent to the target now."""
        return self._not_before.get((target, kind), now_ms) <= now_ms

    def in_flight(self) -> list[tuple[int, Sent]]:
        """(correlation id, request) of those in flight."""
        return list(self._in_flight.items())

    def send(self, target: int, body: Any, now_ms: int, timeout_ms: int | None = None) -> None:
        """Send a request unless one of the kind is in flight to the target, or backs off after a failure."""
        if not self.is_free(target, type(body), now_ms):
            return
        deadline_ms = now_ms + (self._timeout_ms if timeout_ms is None else timeout_ms)
        correlation_id = self._next_id
        self._next_id += 1
        self._in_flight[correlation_id] = Sent(target, body, deadline_ms)
        self._not_before[target, type(body)] = deadline_ms
        self._effects.append(Send(target, correlation_id, body))

    def take(self, correlation_id: int) -> Sent | None:
        """A request got its response; None if it was abandoned before."""
        sent = self._in_flight.pop(correlation_id, None)
        if sent is not None:
            del self._not_before[sent.target, type(sent.body)]
        return sent

    def fail(self, correlation_id: int, now_ms: int) -> Sent | None:
        """A request gets no response: back off. The request, as by `take`."""
        sent = self.take(correlation_id)
        if sent is not None:
            self.back_off(sent, now_ms)
        return sent

    def back_off(self, sent: Sent, now_ms: int) -> None:
        """Send none of the kind to the target until the backoff has passed."""
        self._not_before[sent.target, type(sent.body)] = now_ms + self._backoff_ms

    def expire(self, now_ms: int) -> None:
        """Abandon requests whose timeout has passed; they may be sent again at once."""
        for correlation_id in [c for c, sent in self._in_flight.items() if sent.deadline_ms <= now_ms]:
            self.take(correlation_id)

    def forget(self) -> None:
        """Abandon all requests: the role or the epoch changed."""
        self._in_flight.clear()
        self._not_before.clear()

    def deadline_ms(self, now_ms: int) -> int | None:
        """When the next kind may be sent again."""
        return min((at for at in self._not_before.values() if at > now_ms), default=None)
