"""Whether what was read of a partition is still in its log: KIP-320. Pure.

A position is validated once under each leader epoch, before anything is fetched under it: the leader says
where the epoch of the last record before the position ends in its log. Within one leader epoch a log only
grows, and every fetch names the epoch that it was validated under, so what is read is always of one log.

Kafka asks once. The answer may name an older epoch that ends behind the position although the logs part
before it; so the starts of the epochs that were read are remembered, and the leader is asked again until both
agree, as followers do. Source: Kafka OffsetsForLeaderEpochUtils, SubscriptionState.maybeCompleteValidation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.model import NO_EPOCH, NO_OFFSET

if TYPE_CHECKING:
    from .fetch_state import PartitionState

# Bound: older epochs are merged, so that a divergence among them is taken for one at the oldest start.
MAX_EPOCHS = 32


class ReadEpochs:
    """The leader epochs of the records before a position, as (epoch, first offset read of it), ascending."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []

    def note(self, epoch: int, offset: int) -> None:
        """A batch of `epoch` was read, from `offset` on, or a lookup led there.

        A lookup of the end names the leader's epoch: if the next batch is older, that was not the log's.
        """
        entries = self._entries
        while entries and entries[-1][0] > epoch:
            entries.pop()
        if epoch > (entries[-1][0] if entries else NO_EPOCH):
            entries.append((epoch, offset))
            if len(entries) > MAX_EPOCHS:
                entries[:2] = [(entries[1][0], entries[0][1])]

    def clear(self) -> None:
        """Nothing is known of the records before the position."""
        self._entries.clear()

    def cut(self, offset: int) -> None:
        """The position went back to `offset`."""
        self._entries = [entry for entry in self._entries if entry[1] < offset]

    def last(self) -> int:
        """The epoch of the record before the position, NO_EPOCH when it is not known."""
        return self._entries[-1][0] if self._entries else NO_EPOCH

    def last_before(self, offset: int, at_most: int) -> int:
        """The epoch of the record before `offset`, of those that are not above `at_most`."""
        found = [epoch for epoch, start in self._entries if start < offset and epoch <= at_most]
        return found[-1] if found else NO_EPOCH

    def common_end(self, epoch: int, end_offset: int) -> int:
        """Up to where records that were read may be in a log whose `epoch`, the largest that both may share,
        ends at `end_offset`."""
        return min([end_offset, *(start for mine, start in self._entries if mine > epoch)])


class Divergence(NamedTuple):
    """Under `leader_epoch` the log agrees with what was read at most up to `offset` (-1: not known), where
    records have at most `epoch`. It `is_certain` once the leader agreed with that, or nothing is left to
    ask."""

    leader_epoch: int
    offset: int
    epoch: int
    is_certain: bool = False


def epoch_to_ask(state: PartitionState, leader_epoch: int) -> int:
    """The epoch whose end the leader must tell before anything is fetched; NO_EPOCH: nothing to ask."""
    found = state.divergence
    if found is not None and found.leader_epoch != leader_epoch:
        found = state.divergence = None  # another leader may have another log
    if state.validated_epoch == leader_epoch or (found is not None and found.is_certain):
        return NO_EPOCH
    return state.epochs.last() if found is None else state.epochs.last_before(found.offset, found.epoch)


def compare(state: PartitionState, leader_epoch: int, epoch: int, end_offset: int) -> None:
    """Take in where the leader's largest epoch that is not above the asked one ends."""
    found = state.divergence
    if epoch == NO_EPOCH or end_offset == NO_OFFSET:
        state.divergence = Divergence(leader_epoch, NO_OFFSET, NO_EPOCH, is_certain=True)
        return
    read_to = state.fetch_offset if found is None else found.offset
    offset = state.epochs.common_end(epoch, end_offset)
    if offset < read_to:
        left = state.epochs.last_before(offset, epoch)
        # What is left of `epoch` itself is in the leader's log: it has more of that.
        state.divergence = Divergence(leader_epoch, offset, epoch, is_certain=left in (NO_EPOCH, epoch))
    elif found is not None:
        state.divergence = found._replace(is_certain=True)
    else:
        state.validated_epoch = leader_epoch
