"""How many groups a shard has of each type and state, and members. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .group import Group, GroupType

MAX_LOOKS = 10_000  # Bound: of groups that are looked at for one answer; the rest counts as it was before


@dataclass(slots=True)
class Counts:
    """`groups` by type and name of the state."""

    groups: Counter[tuple[GroupType, str]]
    members: int = 0


class _Counted(NamedTuple):
    """What a group has been counted as."""

    kind: tuple[GroupType, str]
    members: int


class Census:
    """Counts `groups`: whoever changes one says so, and it is looked at when somebody asks for the counts.

    Bound: remembers the groups that there are, and no other.
    """

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self._groups = groups
        self._changed: dict[str, None] = {}
        self._counted: dict[str, _Counted] = {}
        self._found = Counts(Counter())

    def changed(self, group_id: str) -> None:
        """The group is new, gone, or may be in another state or have other members."""
        if group_id in self._groups:
            self._changed[group_id] = None
        else:
            self._changed.pop(group_id, None)
            self._forget(group_id)

    def counts(self) -> Counts:
        """Not to be changed."""
        for _ in range(min(len(self._changed), MAX_LOOKS)):
            group_id, _ = self._changed.popitem()
            group = self._groups[group_id]
            self._forget(group_id)
            found = self._counted[group_id] = _Counted(
                (group.group_type, group.state_name), group.member_count
            )
            self._found.groups[found.kind] += 1
            self._found.members += found.members
        return self._found

    def _forget(self, group_id: str) -> None:
        known = self._counted.pop(group_id, None)
        if known is not None:
            self._found.groups[known.kind] -= 1
            self._found.members -= known.members
