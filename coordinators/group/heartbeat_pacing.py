"""The heartbeat interval of consumer group members after their group's epoch changed. Pure.

Members learn of revoked and assigned partitions from heartbeat responses only. With a constant interval a
rebalance takes two of them: one until the old owner revokes, one until the new owner learns of it. So for
one interval after an epoch change the members of the group heartbeat more often.

All groups of a shard together cause at most 100 extra heartbeats per second: the interval grows with the
number of members of all groups whose epoch changed recently.

Where a rebalance is a pause, members of a shard with few of them always heartbeat more often, so that they
learn soon of a member that has left: every `steady_ms`, or `steady_ms_per_member` for each of the shard's
members.
"""

from __future__ import annotations

SOON_MS, SOON_MS_PER_MEMBER = 100, 10


class HeartbeatPacing:
    """The groups of a shard whose epoch changed recently. Soft state: a new coordinator starts with none."""

    def __init__(self, steady_ms: int = 0, steady_ms_per_member: int = 0) -> None:
        """`steady_ms` 0: no shorter interval between the changes of a group."""
        self._steady_ms, self._steady_ms_per_member = steady_ms, steady_ms_per_member
        self._sizes: dict[str, int] = {}
        self._all = 0  # members of all groups
        self._epochs: dict[str, int] = {}
        # Group id -> (end of its short intervals in ms, members), in the order of the epoch changes.
        self._moving: dict[str, tuple[int, int]] = {}
        self._members = 0  # of all groups in `_moving`

    def interval_ms(
        self, group_id: str, *, before: int, epoch: int, members: int, longest_ms: int, now_ms: int
    ) -> int:
        """The time until the member's next heartbeat in ms, at most `longest_ms`. `before` and `epoch` are
        the group's epochs before and after the heartbeat that is answered."""
        self._all += members - self._sizes.get(group_id, 0)
        self._sizes[group_id] = members
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
            steady_ms = max(self._steady_ms, self._steady_ms_per_member * self._all)
            return min(longest_ms, steady_ms) if self._steady_ms else longest_ms
        return min(longest_ms, max(SOON_MS, SOON_MS_PER_MEMBER * self._members))

    def forget(self, group_id: str) -> None:
        """Drop a deleted group."""
        self._epochs.pop(group_id, None)
        self._all -= self._sizes.pop(group_id, 0)
        self._stop(group_id)

    def _stop(self, group_id: str) -> None:
        _, members = self._moving.pop(group_id, (0, 0))
        self._members -= members
