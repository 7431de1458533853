"""Position validation, rule by rule."""

from typing import Any

import pytest
from headrace.clients.consumer.fetch_state import PartitionState
from headrace.clients.consumer.validation import MAX_EPOCHS, ReadEpochs
from headrace.protocol.model import NO_EPOCH, TopicPartition


def state_of(position: int, *epochs: tuple[int, int]) -> PartitionState:
    """A partition whose records were read with these epochs, from these offsets on."""
    state = PartitionState(TopicPartition("t", 0))
    state.move(position, None)
    for epoch, start in epochs:
        state.validation.epochs.note(epoch, start)
    return state


class Leader:
    """Responds by the (epoch, start offset) entries of its log and its end offset."""

    def __init__(self, end_offset: int, *epochs: tuple[int, int]) -> None:
        self.epochs, self.end_offset = epochs, end_offset

    def validate(self, state: PartitionState, leader_epoch: int) -> Any:
        """Send requests until none is left; the divergence."""
        for _ in range(100):
            asked = state.validation.epoch_to_request(leader_epoch)
            if asked == NO_EPOCH:
                return state.validation.divergence
            ends = [*(start for _, start in self.epochs[1:]), self.end_offset]
            known = [
                (epoch, end) for (epoch, _), end in zip(self.epochs, ends, strict=True) if epoch <= asked
            ]
            end = known[-1] if known else (asked, self.epochs[0][1])
            state.on_epoch_end(leader_epoch, *end)
        raise AssertionError("it never ends")


def test_log_without_truncation_is_valid() -> None:
    """Validated once per leader epoch."""
    state = state_of(15, (3, 0), (5, 10))
    assert Leader(40, (3, 0), (5, 10), (6, 20)).validate(state, 6) is None
    assert state.validation.leader_epoch == 6
    assert state.validation.epoch_to_request(6) == NO_EPOCH
    assert state.validation.epoch_to_request(7) == 5


def test_epoch_end_before_the_position_is_a_truncation() -> None:
    """Epoch 5 ends at 12; the position is 15."""
    state = state_of(15, (3, 0), (5, 10))
    assert Leader(40, (3, 0), (5, 10), (6, 12)).validate(state, 6).offset == 12


def test_older_epoch_that_ends_after_the_position_is_a_truncation() -> None:
    """Epoch 4 ends at 20, but the records from 10 on were read with epoch 5."""
    state = state_of(15, (3, 0), (5, 10))
    assert Leader(40, (3, 0), (4, 10), (6, 20)).validate(state, 6).offset == 10


def test_validation_repeats_until_both_logs_agree() -> None:
    """Epoch 4 begins at 8 in the leader's log: the records before 8 are left."""
    state = state_of(15, (3, 0), (5, 10))
    assert Leader(40, (3, 0), (4, 8), (6, 20)).validate(state, 6).offset == 8
    state = state_of(30, (1, 0), (3, 10), (5, 20))
    assert Leader(40, (1, 0), (2, 5), (6, 20)).validate(state, 6).offset == 5


def test_new_leader_restarts_the_validation() -> None:
    """Its log may have records that the previous leader's log had lost."""
    state = state_of(15, (3, 0), (5, 10))
    assert Leader(40, (3, 0), (6, 12)).validate(state, 6).offset == 10
    assert Leader(40, (3, 0), (5, 10), (7, 20)).validate(state, 7) is None
    assert state.validation.leader_epoch == 7


def test_response_without_an_epoch_leaves_the_offset_unknown() -> None:
    """The leader has no epoch up to the requested one."""
    state = state_of(15, (5, 10))
    state.on_epoch_end(6, -1, -1)
    assert state.validation.divergence is not None
    assert state.validation.divergence.offset == -1


def test_oldest_epochs_are_merged() -> None:
    """The oldest start offset stays."""
    epochs = ReadEpochs()
    for number in range(MAX_EPOCHS + 10):
        epochs.note(number, number * 10)
    assert epochs.common_end(5, 10_000) == 0
    assert epochs.last() == MAX_EPOCHS + 9


@pytest.mark.parametrize("offset", [0, 10, 11])
def test_move_back_drops_later_epochs(offset: int) -> None:
    """The epoch of the record before the position stays."""
    state = state_of(15, (3, 0), (5, 10))
    state.move_back(offset, None)
    assert state.validation.epochs.last() == {0: NO_EPOCH, 10: 3, 11: 5}[offset]


def test_epoch_of_a_lookup_is_replaced_by_that_of_the_records() -> None:
    """Leader epoch 7 gives the log end, and records of epoch 3 follow there."""
    state = state_of(10, (7, 10), (3, 10), (7, 14))
    assert state.validation.epochs.common_end(3, 100) == 14
    assert state.validation.epochs.last_before(14, 7) == 3
