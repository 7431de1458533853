"""What the handling of one event causes: effects for the shell, and partitions whose requests may complete.

Handlers add to it instead of calling back; the node core empties it after each event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..effects import Note

if TYPE_CHECKING:
    from ..effects import Effect
    from .partition import PartitionKey


class StepOutput:
    """`changed`: partitions whose waiting requests must be tried again: leadership, high watermark, log start
    or availability may be others. `appended`: partitions that only have more records for their followers."""

    __slots__ = ("appended", "changed", "effects")

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.changed: list[PartitionKey] = []
        self.appended: list[PartitionKey] = []

    def note(self, level: int, text: str) -> None:
        """A line for the operator's log; `level` is logging's."""
        self.effects.append(Note(level, text))
