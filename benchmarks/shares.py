"""Whether the members of a group have their final shares, from what they told of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class Shares:
    """Who reads which of `partition_count` partitions. Times are nanoseconds of the monotonic clock."""

    def __init__(self, partition_count: int) -> None:
        self._all = set(range(partition_count))
        self._of: dict[int, frozenset[int]] = {}
        self._changed_ns: dict[int, int] = {}

    def told(self, member: int, partitions: Iterable[int], at_ns: int) -> None:
        """A member reads these from then on."""
        self._of[member] = frozenset(partitions)
        self._changed_ns[member] = at_ns

    def is_final(self, members: Collection[int]) -> bool:
        """Each partition is with exactly one of these members, and none has two more than another."""
        shares = [self._of.get(member, frozenset()) for member in members]
        if not shares:
            return True  # nobody is left to read them
        if sum(map(len, shares)) != len(self._all):
            return False
        sizes = [len(share) for share in shares]
        return set().union(*shares) == self._all and max(sizes) - min(sizes) <= 1

    def changed_ns(self, members: Iterable[int]) -> int:
        """When the last of these members told of a change; 0 when none did."""
        return max((self._changed_ns.get(member, 0) for member in members), default=0)
