"""Leader epochs: which epoch wrote which offsets, and where each one ends (KIP-101, KIP-279, KAFKA-10706)."""

from headrace.storage_node.log.leader_epochs import EpochEntry, LeaderEpochs


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochEntry(*entry) for entry in entries])


def test_epoch_ends_where_the_next_starts() -> None:
    """The latest epoch ends at the log end; an unknown epoch ends with the largest one below it."""
    epochs = epochs_of((2, 0), (5, 10), (7, 30))
    assert epochs.end_offset_for(7, 44) == (7, 44)
    assert epochs.end_offset_for(5, 44) == (5, 30)
    assert epochs.end_offset_for(6, 44) == (5, 30)
    assert epochs.end_offset_for(2, 44) == (2, 10)
    assert epochs.end_offset_for(1, 44) == (1, 0)
    assert epochs.end_offset_for(8, 44) == (-1, -1)
    assert epochs.end_offset_for(-1, 44) == (-1, -1)
    assert epochs_of().end_offset_for(0, 44) == (-1, -1)


def test_epochs_without_batches_leave_no_entry() -> None:
    """Consecutive empty epochs must not leave contradicting entries (KAFKA-10706)."""
    epochs = epochs_of((1, 0))
    for epoch in (2, 3, 4):
        assert epochs.assign(epoch, 10)
    assert epochs.entries == ((1, 0), (4, 10))
    assert not epochs.assign(4, 20)
    assert epochs.latest_epoch == 4


def test_older_epoch_removes_newer_entries() -> None:
    """After a truncation an older epoch may write again."""
    epochs = epochs_of((1, 0), (5, 10))
    epochs.assign(3, 20)
    assert epochs.entries == ((1, 0), (3, 20))
    assert epochs.assign(1, 30)
    assert epochs.entries == ((1, 0),)


def test_epoch_of_an_offset() -> None:
    """Offsets before the first entry have no epoch."""
    epochs = epochs_of((2, 5), (4, 10))
    assert [epochs.epoch_of(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 2, 2, 4, 4]
    assert epochs_of().epoch_of(0) == epochs_of().latest_epoch == -1


def test_truncation_from_both_ends() -> None:
    """From the end whole epochs are removed; the epoch of the new start offset starts there."""
    epochs = epochs_of((1, 0), (2, 10), (3, 20))
    for truncate, offset, left in (
        (epochs.truncate_from_end, 20, ((1, 0), (2, 10))),
        (epochs.truncate_from_start, 15, ((2, 15),)),
    ):
        for is_change in (True, False):
            epochs.is_unsaved = False
            truncate(offset)
            assert epochs.entries == left
            assert epochs.is_unsaved == is_change
    epochs.truncate_from_start(3)
    assert not epochs.is_unsaved
