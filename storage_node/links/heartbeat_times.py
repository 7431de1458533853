"""Statistics of a node's heartbeats, for the log line of its fencing. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.metadata.records import FenceBrokerRecord, UnfenceBrokerRecord
from ...runtime.recent_maximum import RecentMaximum
from ...runtime.stalls import WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...protocol.metadata.records import MetadataRecord

OwnRecord = FenceBrokerRecord | UnfenceBrokerRecord


class HeartbeatTimes:
    """When heartbeats were sent and answered."""

    def __init__(self) -> None:
        self._sent_ms: int | None = None
        self._answered_ms: int | None = None  # send time of the newest answered heartbeat
        self._pauses = RecentMaximum(WINDOW_MS)
        self._round_trips = RecentMaximum(WINDOW_MS)

    def sent(self, now_ms: int) -> None:
        if self._sent_ms is not None:
            self._pauses.add(now_ms - self._sent_ms, now_ms)
        self._sent_ms = now_ms

    def answered(self, sent_ms: int, now_ms: int) -> None:
        """The response to the heartbeat of `sent_ms` was received."""
        self._answered_ms = sent_ms
        self._round_trips.add(now_ms - sent_ms, now_ms)

    def describe(self, now_ms: int) -> str:
        """The statistics as text, with the largest values of the last minute."""
        return (
            f"last heartbeat sent {_ago(self._sent_ms, now_ms)}, last answered heartbeat sent "
            f"{_ago(self._answered_ms, now_ms)}; in the last minute up to {self._pauses.at(now_ms)} ms "
            f"between heartbeats and {self._round_trips.at(now_ms)} ms until the response"
        )


def own_records(
    base_offset: int, records: Sequence[MetadataRecord], node_id: int, broker_epoch: int
) -> Iterator[tuple[int, OwnRecord]]:
    """The records that fence or unfence this registration, each with its offset."""
    for offset, record in enumerate(records, base_offset):
        if isinstance(record, OwnRecord) and (record.node_id, record.broker_epoch) == (node_id, broker_epoch):
            yield offset, record


def _ago(at_ms: int | None, now_ms: int) -> str:
    return "never" if at_ms is None else f"{now_ms - at_ms} ms ago"
