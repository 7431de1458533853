"""Which leader epoch wrote which offsets: the epoch cache behind truncation by epoch.

Invariant: entries rise strictly in epoch and never fall in start offset; an epoch ends where the next one
starts. Source: Kafka LeaderEpochFileCache.java; KIP-101, KIP-279.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from ...protocol.model import NO_EPOCH, NO_OFFSET


class EpochEntry(NamedTuple):
    """`start_offset` is the first offset written in `epoch`, or the log end offset when it began."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("_entries",)

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self._entries: list[EpochEntry] = []
        for entry in entries or []:
            self.assign(*entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch, NO_EPOCH when there is none."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin `epoch` at `start_offset`; False if it is the latest epoch already.

        Entries that contradict it go: an epoch that wrote nothing before the next began has no offset of its
        own, and leaving it would make a follower truncate without end (KAFKA-10706). Newer epochs than this
        one cannot be true; an entry of this very epoch stays as it is.
        """
        entries = self._entries
        if entries and entries[-1].epoch == epoch:
            return False
        while entries and (
            entries[-1].epoch > epoch
            or (entries[-1].epoch < epoch and entries[-1].start_offset >= start_offset)
        ):
            entries.pop()
        if not entries or entries[-1].epoch != epoch:
            entries.append(EpochEntry(epoch, start_offset))
        return True

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`, NO_EPOCH if it lies before the first entry."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[number].epoch if number >= 0 else NO_EPOCH

    def span_of(self, offset: int) -> tuple[int, int | None]:
        """(the epoch that wrote `offset`, the exclusive end of what it wrote or None for the newest)."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        epoch = self._entries[number - 1].epoch if number else NO_EPOCH
        return epoch, (self._entries[number].start_offset if number < len(self._entries) else None)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, exclusive end offset) of the largest epoch at or below the asked one.

        (NO_EPOCH, NO_OFFSET) if the asked epoch is newer than any here. An epoch older than the first one
        ends where the first one starts.
        """
        if epoch == NO_EPOCH or epoch > self.latest_epoch:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        number = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[number].start_offset
        return (self._entries[number - 1].epoch if number else epoch), end_offset

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that start at or after `end_offset`; whether there were any."""
        count = len(self._entries)
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
        return len(self._entries) != count

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs that end at or before `start_offset`, cutting the one around it; whether any did."""
        number = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if number < 0 or (number == 0 and self._entries[0].start_offset == start_offset):
            return False
        self._entries[: number + 1] = [EpochEntry(self._entries[number].epoch, start_offset)]
        return True
