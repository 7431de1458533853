"""The decision on one request to a group of a new protocol: its records, and the group with these records
applied. Pure.

Each record is applied to a copy at once, so that later steps of the same decision see it; the group itself
changes when the records are replayed. Without records nothing is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import Enum
    from typing import Self

    from ..runtime.ports import Record


class DraftedGroup(Protocol):
    """A group whose state comes from records alone."""

    def copy(self) -> Self:
        """A copy with containers of its own."""

    def apply(self, record: Record) -> None:
        """Apply a record of this group."""

    @property
    def state(self) -> Enum:
        """The current state."""


G = TypeVar("G", bound=DraftedGroup)


class Draft(Generic[G]):
    """`group` is the group with all records so far applied."""

    def __init__(
        self,
        group: G,
        transitions: Mapping[Any, Mapping[Any, str]],
        records: list[Record] | None = None,
    ) -> None:
        """`transitions`: the allowed changes of the group's state, with their causes. `records`:
        written before those of the group."""
        self.group = group
        self.records: list[Record] = records or []
        self._transitions = transitions
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
