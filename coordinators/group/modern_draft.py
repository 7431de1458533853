"""The decision on one request to a modern group: its records, and the group with these records
applied. Pure.

Each record is applied to a copy at once, so that later steps of the same decision see it; the group itself
changes when the records are replayed. Without records nothing is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .modern_group import ModernGroup
from .modern_member import ModernMember

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..runtime.ports import Record

G = TypeVar("G", bound=ModernGroup[Any, Any])
M = TypeVar("M", bound=ModernMember)


class ModernDraft(Generic[G, M]):
    """`group` is the group with all records so far applied."""

    def __init__(
        self,
        group: G,
        transitions: Mapping[Any, Mapping[Any, str]],
        member_transitions: Mapping[Any, Mapping[Any, str]],
        records: list[Record] | None = None,
    ) -> None:
        """`transitions`, `member_transitions`: the allowed changes of the states of the group and of its
        members, with their causes. `records`: written before those of the group."""
        self.group = group
        self.records: list[Record] = records or []
        self._transitions = transitions
        self._member_transitions = member_transitions
        self._before = group
        self._is_copy = False

    def write(self, record: Record) -> None:
        """Append a record and apply it to the copy."""
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.records.append(record)
        self.group.apply(record)

    def decided(self) -> list[Record]:
        """The records of the finished decision; checks the change of the group's state."""
        before, after = self._before.state, self.group.state
        assert after is before or after in self._transitions[before], f"{after} does not follow {before}"
        return self.records

    # --- members --------------------------------------------------------------------------------------------

    def write_assignment(self, after: M) -> None:
        """Write the member's current assignment if it changed; checks the change of its state."""
        before = self.group.members[after.member_id]
        assert after.state is before.state or after.state in self._member_transitions[before.state]
        if before != after:
            self.write(self.group.current_record(after.member_id, after))

    def _rejoin(self, before: M, after: M) -> None:
        """A static member rejoined under another member id: transfer its metadata, target and assignment."""
        group = self.group
        target = group.targets.get(before.member_id)
        self.forget(before.member_id)
        self.write(group.member_metadata_record(after.member_id, after.metadata))
        if target is not None:
            self.write(group.target_record(after.member_id, target))
        self.write(group.current_record(after.member_id, after))

    def forget(self, member_id: str) -> None:
        """Delete the member."""
        group = self.group
        self.write(group.current_record(member_id, None))
        self.write(group.target_record(member_id, None))
        self.write(group.member_metadata_record(member_id, None))
