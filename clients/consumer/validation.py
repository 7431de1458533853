"""Position validation: whether the log still has the records that were read (KIP-320). Pure.

A position is validated once under each leader epoch, before the first fetch under it: the leader gives the
end offset, in its log, of the epoch of the last record before the position. Within one leader epoch a log
only grows, and every fetch names the epoch under which its position was validated.

Kafka asks the leader once. The response may name an older epoch that ends after the position although the
logs diverge before it. So the start offsets of the epochs that were read are kept, and the leader is asked
until both agree, as followers do. Source: Kafka OffsetsForLeaderEpochUtils,
SubscriptionState.maybeCompleteValidation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from ...protocol.model import NO_EPOCH, NO_OFFSET

# Bound: older epochs are merged; a divergence among them is treated as one at the oldest start offset.
MAX_EPOCHS = 32


class ReadEpochs:
    """The leader epochs of the records before a position, as (epoch, first offset read of it), ascending."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []

    def note(self, epoch: int, offset: int) -> None:
        """A batch of `epoch` was read from `offset` on, or a ListOffsets lookup gave both.

        The lookup of the log end gives the leader's epoch, although the next batch may have an older one.
        """
        entries = self._entries
        while entries and entries[-1][0] > epoch:
            entries.pop()
        if epoch > (entries[-1][0] if entries else NO_EPOCH):
            entries.append((epoch, offset))
            if len(entries) > MAX_EPOCHS:
                entries[:2] = [(entries[1][0], entries[0][1])]

    def clear(self) -> None:
        """Forget the epochs of the records before the position."""
        self._entries.clear()

    def truncate(self, offset: int) -> None:
        """The position moved back to `offset`."""
        self._entries = [entry for entry in self._entries if entry[1] < offset]

    def last(self) -> int:
        """The epoch of the record before the position, NO_EPOCH if unknown."""
        return self._entries[-1][0] if self._entries else NO_EPOCH

    def last_before(self, offset: int, at_most: int) -> int:
        """The largest epoch, up to `at_most`, of the records before `offset`; NO_EPOCH if unknown."""
        epochs = [epoch for epoch, start in self._entries if start < offset and epoch <= at_most]
        return epochs[-1] if epochs else NO_EPOCH

    def common_end(self, epoch: int, end_offset: int) -> int:
        """The end of the records that may also be in a log whose `epoch`, the largest epoch that both may
        share, ends at `end_offset`."""
        return min([end_offset, *(start for mine, start in self._entries if mine > epoch)])

    def check(self) -> None:
        """Assert that epochs and offsets ascend, within the bound."""
        assert len(self._entries) <= MAX_EPOCHS
        for (epoch, start), (next_epoch, next_start) in pairwise(self._entries):
            assert epoch < next_epoch, f"epoch {epoch} before {next_epoch}"
            assert start <= next_start, f"offset {start} before {next_start}"


class Divergence(NamedTuple):
    """Under `leader_epoch` the log has the records that were read up to `offset` at most (-1: unknown), and
    those have at most `epoch`. It `is_certain` once the leader agreed, or no older epoch is left to ask
    about.
    """

    leader_epoch: int
    offset: int
    epoch: int
    is_certain: bool = False


@dataclass(slots=True, eq=False)
class PositionValidation:
    """The validation of one partition's position.

    Invariant: `epochs` are the leader epochs of the records before the fetch offset; the log of the leader of
    epoch `leader_epoch` has these records.
    """

    epochs: ReadEpochs = field(default_factory=ReadEpochs)
    leader_epoch: int | None = None  # under which the position is valid; None: not validated
    divergence: Divergence | None = None  # found by the validation that is under way

    def is_at_divergence(self, offset: int | None) -> bool:
        """Whether a LogTruncationError named this offset: the epochs of the records before it are known."""
        return offset is not None and self.divergence is not None and offset == self.divergence.offset

    @property
    def has_diverged(self) -> bool:
        """Whether the log has certainly lost records that were read."""
        return self.divergence is not None and self.divergence.is_certain

    def epoch_to_request(self, leader_epoch: int) -> int:
        """The epoch whose end offset the leader must give before the next fetch; NO_EPOCH if none."""
        divergence = self.divergence
        if divergence is not None and divergence.leader_epoch != leader_epoch:
            divergence = self.divergence = None  # another leader may have another log
        if self.leader_epoch == leader_epoch or self.has_diverged:
            return NO_EPOCH
        if divergence is None:
            return self.epochs.last()
        return self.epochs.last_before(divergence.offset, divergence.epoch)

    def on_epoch_end(self, leader_epoch: int, epoch: int, end_offset: int, fetch_offset: int) -> None:
        """The leader's largest epoch up to the requested one is `epoch`, and ends at `end_offset`."""
        divergence = self.divergence
        if epoch == NO_EPOCH or end_offset == NO_OFFSET:
            self.divergence = Divergence(leader_epoch, NO_OFFSET, NO_EPOCH, is_certain=True)
            return
        read_end = fetch_offset if divergence is None else divergence.offset
        offset = self.epochs.common_end(epoch, end_offset)
        if offset < read_end:
            left = self.epochs.last_before(offset, epoch)
            # The records of `epoch` itself that are left are in the leader's log, which has more of them.
            self.divergence = Divergence(leader_epoch, offset, epoch, is_certain=left in (NO_EPOCH, epoch))
        elif divergence is not None:
            self.divergence = divergence._replace(is_certain=True)
        else:
            self.leader_epoch = leader_epoch

    def truncate(self, offset: int) -> None:
        """The position moved back to `offset`, and must be validated again."""
        self.epochs.truncate(offset)
        self.leader_epoch = self.divergence = None
