"""Pauses and resumes the reading of one connection: for requests that wait, responses that the client does
not read, memory of requests, and quotas (Kafka mutes the channel)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .gone_io import POLL_MS, is_gone
from .memory import Holder

if TYPE_CHECKING:
    from collections.abc import Callable

    from .memory import RequestMemory
    from .sockets_io import PolledSocket

# Bound: how long the timer of a muted connection keeps it in memory after it was closed.
MUTE_STEP_MS = 10_000


class ReadOwner(Holder, Protocol):
    """The connection."""

    is_ending: bool

    @property
    def awaits_response(self) -> bool:
        """Whether its first request only makes a response."""

    def end_turn(self) -> None:
        """Start what waits, and update reading."""

    def abort(self) -> None:
        """Close it now."""


class ReadHost(Protocol):
    """The listener."""

    memory: RequestMemory

    def now_ms(self) -> int:
        """The monotonic clock."""

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Call after `delay_ms`."""


class ReadControl:
    """Invariant: the socket is polled for reading unless `is_paused`."""

    __slots__ = (
        "_connection",
        "_is_mute_scheduled",
        "_is_poll_scheduled",
        "_listener",
        "_must_close",
        "_socket",
        "is_paused",
        "muted_until_ms",
    )

    def __init__(self, connection: ReadOwner, listener: ReadHost, socket: PolledSocket) -> None:
        self._connection: ReadOwner | None = connection
        self._listener, self._socket = listener, socket
        self._is_mute_scheduled = self._is_poll_scheduled = self._must_close = self.is_paused = False
        self.muted_until_ms = 0  # 0: not muted

    def close(self) -> None:
        """Forget the connection, so that both are freed without the garbage collector."""
        self._connection = None

    def pause(self) -> None:
        """Read nothing more until `update`."""
        self._socket.set_reading(False)
        self.is_paused = True

    def update(self, is_held: bool) -> None:
        """Pause while `is_held`, muted or without memory; else resume."""
        connection = self._connection
        if connection is None:
            return
        must_pause = is_held or self.muted_until_ms > 0 or not self._listener.memory.may_read(connection)
        if must_pause and not self.is_paused:
            self._socket.set_reading(False)
            self._schedule_poll()
        elif self.is_paused and not must_pause:
            self._socket.set_reading(True)
        self.is_paused = must_pause

    def mute(self, for_ms: int, *, must_close: bool = False) -> None:
        """Read and start nothing for `for_ms`; then close the connection if it `must_close`."""
        self.muted_until_ms = max(self.muted_until_ms, self._listener.now_ms() + for_ms)
        self._must_close |= must_close
        if not self._is_mute_scheduled:
            self._is_mute_scheduled = True
            self._listener.later(min(for_ms, MUTE_STEP_MS), self._maybe_unmute)

    def _maybe_unmute(self) -> None:
        self._is_mute_scheduled = False
        connection = self._connection
        left_ms = self.muted_until_ms - self._listener.now_ms()
        if connection is None or connection.is_ending:
            return
        if left_ms > 0:
            self.mute(left_ms)
        elif self._must_close:
            connection.abort()
        else:
            self.muted_until_ms = 0
            connection.end_turn()

    def _schedule_poll(self) -> None:
        if not self._is_poll_scheduled:
            self._is_poll_scheduled = True
            self._listener.later(POLL_MS, self._poll_client)

    def _poll_client(self) -> None:
        """Abort the connection if its client is gone and its first request waits for a response."""
        self._is_poll_scheduled = False
        connection = self._connection
        if connection is None or connection.is_ending or not self.is_paused:
            return
        if connection.awaits_response and is_gone(self._socket.descriptor):
            connection.abort()
        else:
            self._schedule_poll()
