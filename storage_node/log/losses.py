"""How the process before this one ended, and what the logs have lost since it ended in order. Pure.

An orderly end leaves each log dir with a clean-shutdown marker and with recovery points that say where every
log ended. What is found at the next start must be exactly that: a log that ends elsewhere, has a gap, is not
listed or is not there any more was cut, removed or exchanged while nobody ran, and the controller must not
count on it (KIP-966). A dir whose checkpoints cannot be read does not say what was in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...protocol.model import TopicPartition
    from .log import Log
    from .log_dir import LogDir

MAX_LOST = 1_000  # Bound: of one registration; who lost more has not ended in order as a whole
NOT_IN_ORDER = -1


@dataclass(frozen=True, slots=True)
class PreviousEnd:
    """The broker epoch under which the process before ended in order, -1 if it did not; and which logs lost
    something since."""

    broker_epoch: int = NOT_IN_ORDER
    lost: tuple[TopicPartition, ...] = ()

    @property
    def epoch_to_hand_on(self) -> int:
        """What a process may write into its own marker that was never registered, so that nobody heard of
        losses: after its end they do not show any more."""
        return NOT_IN_ORDER if self.lost else self.broker_epoch


def previous_end(dirs: Iterable[LogDir], lost: Iterable[TopicPartition]) -> PreviousEnd:
    """All dirs together: they must agree, and all of them must work."""
    epochs = {each.clean_broker_epoch if each.was_clean and each.is_online else NOT_IN_ORDER for each in dirs}
    found = tuple(sorted(lost))
    if len(epochs) != 1 or len(found) > MAX_LOST:
        return PreviousEnd()
    return PreviousEnd(epochs.pop(), found)


def losses_in(log_dir: LogDir, logs: Mapping[TopicPartition, Log | None]) -> Iterator[TopicPartition]:
    """Which partitions lost something since an orderly end of this dir. `logs` are those found in it, None
    for one that could not be opened."""
    if not log_dir.was_clean:
        return
    for name in log_dir.recovery_points.keys() | logs.keys():
        log = logs.get(name)
        end_offset = 0 if log is None else log.log_end_offset
        has_loss = log is not None and log.recovery.has_loss
        is_ours = name.topic != names.METADATA_TOPIC
        if is_ours and (has_loss or end_offset != log_dir.recovery_points.get(name)):
            yield name
