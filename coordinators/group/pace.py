"""How soon members of the new protocol are to be heard again: sooner for an interval after their group moved.

A member hears only by its heartbeats what it is to give back, and who waits for that hears by its own that it
has it. All are heard within an interval of the move; nobody waits for another interval after them.

It costs a shard a hundred heartbeats a second at most, however many of its groups move at once: the more
members those have, the rarer they come. Pure.
"""

from __future__ import annotations

SOON_MS, SOON_MS_PER_MEMBER = 100, 10


class Pace:
    """Of the groups of one shard. Soft: whoever takes the shard over has seen no group move."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        # Group -> until when it counts as moving, and its members then. In the order of their moves.
        self._moving: dict[str, tuple[int, int]] = {}
        self._members = 0  # of all groups that move

    def interval_ms(
        self, group_id: str, *, before: int, epoch: int, members: int, longest_ms: int, now_ms: int
    ) -> int:
        """Until the next heartbeat of a member, `longest_ms` at most. `before` and `epoch` are the group's
        epochs before and after the heartbeat that is answered."""
        if self._epochs.get(group_id, before) != epoch:
            self._stop(group_id)
            self._moving[group_id] = (now_ms + longest_ms, members)
            self._members += members
        self._epochs[group_id] = epoch
        while self._moving:
            other, (ends_ms, _) = next(iter(self._moving.items()))
            if ends_ms > now_ms:
                break
            self._stop(other)
        if group_id not in self._moving:
            return longest_ms
        return min(longest_ms, max(SOON_MS, SOON_MS_PER_MEMBER * self._members))

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._epochs.pop(group_id, None)
        self._stop(group_id)

    def _stop(self, group_id: str) -> None:
        _, members = self._moving.pop(group_id, (0, 0))
        self._members -= members
