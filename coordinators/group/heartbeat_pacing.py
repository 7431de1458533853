"""The heartbeat interval of consumer group members after their group's epoch changed. Pure.

Members learn of revoked and assigned partitions from heartbeat responses only. With a constant interval a
rebalance takes two of them: one until the old owner revokes, one until the new owner learns of it. So for
one interval after an epoch change the members of the group heartbeat more often.

All groups of a shard together cause at most 100 extra heartbeats per second: the interval grows with the
number of members of all groups whose epoch changed recently.
"""

from __future__ import annotations

SOON_MS, SOON_MS_PER_MEMBER = 100, 10


class HeartbeatPacing:
    """The groups of a shard whose epoch changed recently. Soft state: a new coordinator starts with none."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        # Group id -> (end of its short intervals in ms, members), in the order of the epoch changes.
        self._moving: dict[str, tuple[int, int]] = {}
        self._members = 0  # of all groups in `_moving`

    def interval_ms(
        self, group_id: str, *, before: int, epoch: int, members: int, longest_ms: int, now_ms: int
    ) -> int:
        """The time until the member's next heartbeat in ms, at most `longest_ms`. `before` and `epoch` are
        the group's epochs before and after the heartbeat that is answered."""
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
        """Drop a deleted group."""
        self._epochs.pop(group_id, None)
        self._stop(group_id)

    def _stop(self, group_id: str) -> None:
        _, members = self._moving.pop(group_id, (0, 0))
        self._members -= members
