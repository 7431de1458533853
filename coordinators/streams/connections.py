"""The connections of the members of streams groups: a member whose connection has ended has less time. Pure.

The kernel closes the connections of a process that dies, at once, while its session lasts for the session
timeout (45 s by default). The end of a connection is no proof of death: a client also closes one to open
another. But a member that lives sends its next heartbeat within its interval, on a new connection, and then
has a full session again. A static member keeps its session: it is expected to return.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...storage_node.embedded.contract import Now
    from ..group.member_timers import MemberTimers

INTERVALS = 5
"""Heartbeat intervals without a connection, after which a member is removed. An instance without a response
of its group stops answering queries of other processes after four."""
LEAST_MS = 2_500
"""The same while intervals are short."""


class _Member(NamedTuple):
    session: int
    interval_ms: int


class MemberConnections:
    """The connection of the last heartbeat of each member. Soft state."""

    def __init__(self, timers: MemberTimers) -> None:
        self._timers = timers
        self._members: dict[tuple[str, str], _Member] = {}
        self._of: dict[int, set[tuple[str, str]]] = {}  # by connection

    def note(self, group_id: str, member_id: str, session: int, interval_ms: int) -> None:
        """A dynamic member has sent a heartbeat; `interval_ms`: until its next one."""
        key = group_id, member_id
        known = self._members.get(key)
        if known is None or known.session != session:
            self.forget(group_id, member_id)
            self._of.setdefault(session, set()).add(key)
        self._members[key] = _Member(session, interval_ms)

    def forget(self, group_id: str, member_id: str) -> None:
        """Remove the member; idempotent."""
        known = self._members.pop((group_id, member_id), None)
        if known is not None:
            keys = self._of[known.session]
            keys.discard((group_id, member_id))
            if not keys:
                del self._of[known.session]

    def closed(self, session: int, now: Now) -> None:
        """The sessions of the members of a closed connection end soon, unless they send heartbeats."""
        for group_id, member_id in sorted(self._of.pop(session, ())):
            interval_ms = self._members.pop((group_id, member_id)).interval_ms
            left_ms = max(INTERVALS * interval_ms, LEAST_MS)
            self._timers.shorten_session(group_id, member_id, left_ms, now)
