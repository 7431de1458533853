"""Where a source partition without committed offset begins."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from ...clients.durations import duration_ms
from ...protocol.errors import NoOffsetError

if TYPE_CHECKING:
    from ...protocol.model import TopicPartition
    from ..topology.specs import OffsetReset

_BY_DURATION = "by_duration:"


class Seekable(Protocol):
    """The part of a consumer that moves its position."""

    def seek_to_beginning(self, *tps: TopicPartition) -> None: ...

    def seek_to_end(self, *tps: TopicPartition) -> None: ...

    def seek_to_time(self, timestamp: int, *tps: TopicPartition) -> None: ...


def seek_to_start(consumer: Seekable, partition: TopicPartition, reset: OffsetReset, now_ms: int) -> None:
    """Move to the position that `reset` gives. Errors: NoOffsetError for "none"."""
    if reset == "earliest":
        consumer.seek_to_beginning(partition)
    elif reset == "latest":
        consumer.seek_to_end(partition)
    elif isinstance(reset, timedelta):
        consumer.seek_to_time(now_ms - int(reset.total_seconds() * 1000), partition)
    elif reset.startswith(_BY_DURATION):
        consumer.seek_to_time(now_ms - duration_ms(reset.removeprefix(_BY_DURATION)), partition)
    else:
        raise NoOffsetError(f"{partition} has no committed offset, and its offset reset is {reset!r}")
