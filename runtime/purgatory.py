"""Delayed requests: parked under watch keys, completed by events on a key, expired by the timing wheel.

Single-threaded and pure: no locks, no reaper, no clock. An operation is answered exactly once: it leaves the
purgatory by completing, expiring or being cancelled, and is removed from all of its keys at that moment.
Source: Kafka DelayedOperationPurgatory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..protocol.errors import ThrottlingQuotaExceededError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from .timing_wheel import Timer, TimingWheel


class Delayed(Protocol):
    """A request that may have to wait."""

    def try_complete(self, now_ms: int) -> bool:
        """Respond if possible now; True if it did. Not called again after that."""

    def on_expire(self, now_ms: int) -> None:
        """Respond with the current state: the deadline has passed."""


class _Ticket:
    """A parked operation. `is_busy` while its try_complete runs, which prevents reentrance."""

    __slots__ = ("is_busy", "keys", "operation", "timer")

    def __init__(self, operation: Delayed, keys: tuple[Hashable, ...]) -> None:
        self.operation = operation
        self.keys = keys
        self.timer: Timer[Any] | None = None
        self.is_busy = False


class Purgatory:
    """The parked operations of one node.

    Bound: at most `limit` operations wait; a further one is rejected, so that a flood of long waits costs a
    fixed amount of memory.
    """

    def __init__(self, wheel: TimingWheel[Any], limit: int) -> None:
        self._wheel = wheel
        self._limit = limit
        self._tickets: dict[int, _Ticket] = {}  # by id() of the operation, which the ticket keeps alive
        self._watchers: dict[Hashable, dict[_Ticket, None]] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    @property
    def watched_keys(self) -> int:
        """The number of keys with waiting operations."""
        return len(self._watchers)

    def park(self, operation: Delayed, keys: tuple[Hashable, ...], deadline_ms: int, now_ms: int) -> bool:
        """Try `operation` once; if it has to wait, watch `keys`. True if it completed at once.

        Errors: ThrottlingQuotaExceededError if it has to wait and the purgatory is full; it is not parked.
        """
        assert keys, "an unwatched request could only ever expire"
        assert id(operation) not in self._tickets, "the operation is already parked"
        if operation.try_complete(now_ms):
            return True
        if len(self._tickets) >= self._limit:
            raise ThrottlingQuotaExceededError(f"{self._limit} requests are waiting, the limit of this node")
        ticket = _Ticket(operation, keys)
        ticket.timer = self._wheel.add(ticket, deadline_ms)
        self._tickets[id(operation)] = ticket
        for key in keys:
            self._watchers.setdefault(key, {})[ticket] = None
        return False

    def check(self, key: Hashable, now_ms: int) -> int:
        """Retry all operations that watch `key`, oldest first; returns the number of completed ones.

        Reentrant from a try_complete: an operation is skipped while its own try_complete runs.
        """
        watchers = self._watchers.get(key)
        if not watchers:
            return 0
        completed = 0
        for ticket in list(watchers):
            if not ticket.is_busy and self._is_parked(ticket) and self._try(ticket, now_ms):
                completed += 1
        return completed

    def expire(self, now_ms: int) -> int:
        """Expire all operations whose deadline has passed; returns their number."""
        # the on_expire of an earlier operation may cancel a ticket that the wheel has returned
        due = [ticket for ticket in self._wheel.advance(now_ms) if isinstance(ticket, _Ticket)]
        expired = 0
        for ticket in due:
            if self._forget(ticket):
                expired += 1
                ticket.operation.on_expire(now_ms)
        return expired

    def cancel(self, operation: Delayed) -> bool:
        """Remove an operation without a response, for example because its client disconnected; False if it is
        not parked."""
        ticket = self._tickets.get(id(operation))
        return ticket is not None and self._forget(ticket)

    def next_deadline_ms(self) -> int | None:
        """The time of the next `expire`; None while no operation waits."""
        return self._wheel.next_deadline_ms()

    def _try(self, ticket: _Ticket, now_ms: int) -> bool:
        ticket.is_busy = True
        try:
            is_done = ticket.operation.try_complete(now_ms)
        finally:
            ticket.is_busy = False
        if is_done:
            self._forget(ticket)
        return is_done

    def _is_parked(self, ticket: _Ticket) -> bool:
        return self._tickets.get(id(ticket.operation)) is ticket

    def _forget(self, ticket: _Ticket) -> bool:
        """Remove a ticket from all of its keys; False if it was removed before."""
        if not self._is_parked(ticket):
            return False
        del self._tickets[id(ticket.operation)]
        for key in ticket.keys:
            watchers = self._watchers.get(key)
            if watchers is not None:
                watchers.pop(ticket, None)
                if not watchers:
                    del self._watchers[key]
        if ticket.timer is not None:
            self._wheel.cancel(ticket.timer)
        return True
