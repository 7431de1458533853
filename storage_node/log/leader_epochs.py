"""Which leader epoch wrote which offsets: the epoch cache behind truncation by epoch.

Source: Kafka LeaderEpochFileCache.java; KIP-101, KIP-279.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_EPOCH, NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable


class EpochEntry(NamedTuple):
    """`start_offset` is the first offset written in `epoch`, or the log end offset when the epoch began."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first; an epoch ends where the next one starts.

    Invariant: entries rise strictly in epoch and never fall in start offset.
    """

    __slots__ = ("_entries", "is_unsaved")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        self.is_unsaved = False  # the leader-epoch-checkpoint on disk says something else
        for entry in entries:
            self.assign(*entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def oldest_epoch(self) -> int:
        """NO_EPOCH without any entry."""
        return self._entries[0].epoch if self._entries else NO_EPOCH

    @property
    def latest_epoch(self) -> int:
        """NO_EPOCH without any entry."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Start `epoch` at `start_offset`; False if it is the latest epoch already, or NO_EPOCH.

        Entries that contradict the new one are removed. An epoch in which nothing was written before the next
        one started has no offset of its own; if it stayed, a follower would truncate without end
        (KAFKA-10706). An entry of a newer epoch cannot be true; an entry of this epoch stays as it is.
        """
        entries = self._entries
        if epoch < 0 or (entries and entries[-1].epoch == epoch):
            return False
        while entries and (
            entries[-1].epoch > epoch
            or (entries[-1].epoch < epoch and entries[-1].start_offset >= start_offset)
        ):
            entries.pop()
        if not entries or entries[-1].epoch != epoch:
            entries.append(EpochEntry(epoch, start_offset))
        self.is_unsaved = True
        return True

    def copy_from(self, other: LeaderEpochs) -> None:
        self._entries, self.is_unsaved = list(other.entries), True

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`, NO_EPOCH before the first entry."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[number].epoch if number >= 0 else NO_EPOCH

    def span_of(self, offset: int) -> tuple[int, int | None]:
        """(the epoch that wrote `offset`, exclusive end of the epoch or None for the latest one)."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        epoch = self._entries[number - 1].epoch if number else NO_EPOCH
        return epoch, (self._entries[number].start_offset if number < len(self._entries) else None)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, exclusive end offset) of the largest epoch at or below the requested one.

        (NO_EPOCH, NO_OFFSET) if the requested epoch is newer than the latest one. An epoch older than the
        first entry ends where the first entry starts.
        """
        if epoch == NO_EPOCH or epoch > self.latest_epoch:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        number = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[number].start_offset
        return (self._entries[number - 1].epoch if number else epoch), end_offset

    def truncate_from_end(self, end_offset: int) -> None:
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self.is_unsaved = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end at or before `start_offset`; the epoch around it starts there."""
        number = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if number < 0 or (number == 0 and self._entries[0].start_offset == start_offset):
            return
        self._entries[: number + 1] = [EpochEntry(self._entries[number].epoch, start_offset)]
        self.is_unsaved = True

    def check(self, end_offset: int) -> None:
        for first, second in pairwise(self._entries):
            assert first.epoch < second.epoch, "leader epochs do not rise"
            assert first.start_offset <= second.start_offset, "start offsets of leader epochs fall"
        assert not self._entries or self._entries[-1].start_offset <= end_offset, "an epoch past the log end"
