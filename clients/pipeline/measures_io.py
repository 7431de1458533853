"""What the pipelines of this process read and write, for its exporters.

Spark's and Ray's tasks count rows and bytes, drivers know how far their streams are behind. Counted per
batch, not per row. Thread-safe.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...runtime.telemetry import client_table as table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...protocol.model import TopicPartition
    from ...runtime.telemetry.samples import Samples


class _Traffic:
    """Of one topic."""

    __slots__ = ("read_bytes", "read_rows", "written_bytes", "written_rows")

    def __init__(self) -> None:
        self.read_rows = self.read_bytes = self.written_rows = self.written_bytes = 0


class PipelineMeasures:
    """The pipelines of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: defaultdict[str, _Traffic] = defaultdict(_Traffic)
        # By planner: where its stream is, and where the logs end
        self._streams: WeakKeyDictionary[Any, dict[TopicPartition, int]] = WeakKeyDictionary()

    def read(self, topic: str, rows: int, size_bytes: int) -> None:
        """A task got a batch of rows."""
        with self._lock:
            traffic = self._topics[topic]
            traffic.read_rows += rows
            traffic.read_bytes += size_bytes

    def sent(self, topic: str, size_bytes: int) -> None:
        """A task sends rows with these bytes."""
        with self._lock:
            self._topics[topic].written_bytes += size_bytes

    def stored(self, topic: str, rows: int) -> None:
        """Rows of a task were acknowledged."""
        with self._lock:
            self._topics[topic].written_rows += rows

    def planned(
        self, planner: Any, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> None:
        """The stream of this planner has processed the records before `starts`; the logs end at `ends`."""
        lags = {tp: max(end - starts.get(tp, end), 0) for tp, end in ends.items()}
        with self._lock:
            self._streams[planner] = lags

    def measure(self, samples: Samples) -> None:
        """Add the values."""
        with self._lock:
            for topic, traffic in self._topics.items():
                samples.set(table.READ_RECORDS, traffic.read_rows, topic)
                samples.set(table.READ_BYTES, traffic.read_bytes, topic)
                samples.set(table.WRITTEN_RECORDS, traffic.written_rows, topic)
                samples.set(table.WRITTEN_BYTES, traffic.written_bytes, topic)
            lags: dict[TopicPartition, int] = {}
            for behind in self._streams.values():
                for tp, lag in behind.items():
                    lags[tp] = max(lag, lags.get(tp, 0))
        for tp, lag in lags.items():
            samples.set(table.READ_LAG, lag, tp.topic, str(tp.partition))


pipelines = PipelineMeasures()
