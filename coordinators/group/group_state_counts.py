"""The number of groups of a shard by type and state, and the number of their members. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .group import Group, GroupType

MAX_CHANGED = 1_000  # Bound: groups that are counted again for one response; a large group takes some time


@dataclass(slots=True)
class Counts:
    """`groups` by type and name of the state."""

    groups: Counter[tuple[GroupType, str]]
    members: int = 0


class _Counted(NamedTuple):
    """The type, state and member count with which a group is included in the counts."""

    kind: tuple[GroupType, str]
    members: int


class GroupStateCounts:
    """Counts `groups` lazily: `changed` marks a group, and `counts` counts the marked groups again. A group
    is counted once for many records, and before that only when MAX_CHANGED groups are marked.

    Bound: one entry for each group of the shard.
    """

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self._groups = groups
        self._changed: dict[str, None] = {}
        self._counted: dict[str, _Counted] = {}
        self._counts = Counts(Counter())

    def changed(self, group_id: str) -> None:
        """Mark a group that was created, deleted, or changed its state or its members."""
        if group_id not in self._groups:
            self._changed.pop(group_id, None)
            self._forget(group_id)
        elif group_id not in self._changed:
            if len(self._changed) >= MAX_CHANGED:
                self._recount_one()
            self._changed[group_id] = None

    def counts(self) -> Counts:
        """The current counts. The caller must not change them."""
        while self._changed:
            self._recount_one()
        return self._counts

    def _recount_one(self) -> None:
        """Count the group that was marked last: a group that changes all the time stays last, and is not
        counted again each time that the bound is reached."""
        group_id, _ = self._changed.popitem()
        group = self._groups[group_id]
        self._forget(group_id)
        counted = _Counted((group.group_type, group.state_name), group.member_count)
        self._counted[group_id] = counted
        self._counts.groups[counted.kind] += 1
        self._counts.members += counted.members

    def _forget(self, group_id: str) -> None:
        known = self._counted.pop(group_id, None)
        if known is not None:
            self._counts.groups[known.kind] -= 1
            self._counts.members -= known.members
