"""How the previous process ended, and which logs lost records since its clean shutdown. Pure.

A clean shutdown leaves a clean-shutdown marker in each log dir, and recovery points equal to the log end
offsets. A log that is different at the next start was truncated, removed or replaced in between, and the
controller must not count on its records (KIP-966). A dir with unreadable checkpoints gives no evidence.
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

MAX_LOST = 1_000  # Bound: of one registration; a node with more losses counts as not cleanly shut down
NOT_CLEAN = -1


@dataclass(frozen=True, slots=True)
class PreviousEnd:
    """The broker epoch of the previous clean shutdown, -1 if it was not clean; and the logs with losses
    since."""

    broker_epoch: int = NOT_CLEAN
    lost: tuple[TopicPartition, ...] = ()

    @property
    def epoch_to_hand_on(self) -> int:
        """The epoch for the marker of a process that was never registered. It has not reported the losses,
        and the next start cannot see them: so there is none after a loss."""
        return NOT_CLEAN if self.lost else self.broker_epoch


def previous_end(dirs: Iterable[LogDir], lost: Iterable[TopicPartition]) -> PreviousEnd:
    """Of all dirs: they must agree and be online."""
    epochs = {each.clean_broker_epoch if each.was_clean and each.is_online else NOT_CLEAN for each in dirs}
    found = tuple(sorted(lost))
    if len(epochs) != 1 or len(found) > MAX_LOST:
        return PreviousEnd()
    return PreviousEnd(epochs.pop(), found)


def losses_in(log_dir: LogDir, logs: Mapping[TopicPartition, Log | None]) -> Iterator[TopicPartition]:
    """Partitions that lost records since the clean shutdown of this dir. `logs` are the logs in it, None for
    one that could not be loaded."""
    if not log_dir.was_clean:
        return
    for name in log_dir.recovery_points.keys() | logs.keys():
        log = logs.get(name)
        end_offset = 0 if log is None else log.log_end_offset
        has_loss = log is not None and log.recovery.has_loss
        is_checked = name.topic != names.METADATA_TOPIC
        if is_checked and (has_loss or end_offset != log_dir.recovery_points.get(name)):
            yield name
