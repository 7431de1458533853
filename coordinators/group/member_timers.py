"""Sessions and revocation deadlines of the members of groups that reconcile assignments. Pure.

The timers of the consumer protocol and of streams groups: a member that sends no heartbeat for its session
timeout, or that does not revoke in its rebalance timeout, is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...storage_node.embedded.contract import Now
    from ..runtime.ports import Outcome, Timers

# Lower bound of the rebalance timeout: members may ask for almost none, and the removal would be retried at
# once while it cannot be written.
MIN_REVOCATION_MS = 1_000


class MemberTimers:
    """The timers of one shard's members."""

    def __init__(self, timers: Timers, expired: Callable[[str, str, Now, bool], Outcome]) -> None:
        """`expired` decides on the removal of a member: group id, member id, time, and whether the member
        missed its revocation deadline instead of its session; it checks that the member still has to."""
        self._timers = timers
        self._expired = expired

    def begin_session(self, group_id: str, member_id: str, timeout_ms: int, now: Now) -> None:
        """Renew the member's session."""
        self._timers.set(
            ("session", group_id, member_id),
            now.ms + timeout_ms,
            lambda then: self._expired(group_id, member_id, then, False),
        )

    def shorten_session(self, group_id: str, member_id: str, timeout_ms: int, now: Now) -> None:
        """Let the member's session end after `timeout_ms`, unless it ends earlier."""
        deadline_ms = self._timers.deadline_of(("session", group_id, member_id))
        if deadline_ms is not None:
            self.begin_session(group_id, member_id, min(timeout_ms, deadline_ms - now.ms), now)

    def expect_revocation(
        self, group_id: str, member_id: str, timeout_ms: int, now: Now, *, is_due: bool, has_changed: bool
    ) -> None:
        """Start the deadline if the member has to revoke (`is_due`); it restarts when what it has to revoke
        changed."""
        key = ("rebalance", group_id, member_id)
        if not is_due:
            self._timers.cancel(key)
        elif has_changed or self._timers.deadline_of(key) is None:
            self._timers.set(
                key,
                now.ms + max(timeout_ms, MIN_REVOCATION_MS),
                lambda then: self._expired(group_id, member_id, then, True),
            )

    def forget(self, group_id: str, member_id: str) -> None:
        """Cancel the member's timers."""
        self._timers.cancel(("session", group_id, member_id))
        self._timers.cancel(("rebalance", group_id, member_id))
