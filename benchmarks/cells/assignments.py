"""Whether the members of a group have a complete assignment, from the changes they report. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class Assignments:
    """The partitions, 0..`partition_count`-1, of each member. Times are monotonic nanoseconds."""

    def __init__(self, partition_count: int) -> None:
        self._all = set(range(partition_count))
        self._of: dict[int, frozenset[int]] = {}
        self._changed_ns: dict[int, int] = {}

    def changed(self, member: int, partitions: Iterable[int], at_ns: int) -> None:
        """A member has exactly these partitions from `at_ns` on."""
        self._of[member] = frozenset(partitions)
        self._changed_ns[member] = at_ns

    def is_complete(self, members: Collection[int]) -> bool:
        """Each partition is assigned to exactly one of `members`, and their numbers differ by 1 at most."""
        assigned = [self._of.get(member, frozenset()) for member in members]
        if not assigned:
            return True  # an empty group
        sizes = [len(partitions) for partitions in assigned]
        if sum(sizes) != len(self._all):
            return False
        return set().union(*assigned) == self._all and max(sizes) - min(sizes) <= 1

    def last_change_ns(self, members: Iterable[int]) -> int:
        """The last change of any of `members`; 0 when there was none."""
        return max((self._changed_ns.get(member, 0) for member in members), default=0)
