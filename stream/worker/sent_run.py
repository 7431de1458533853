"""Records that joined batches of the producer in one call, until these batches are acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..task.handlers import ProducedRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...clients.producer.delivery_io import Delivery
    from ..task.collector import RecordCollector


class SentRun:
    """`records`: keys, values and timestamps, of which those from `start` on joined batches. `numbers` has
    the position of the delivery of each, `firsts` the index of the first record in each delivery."""

    __slots__ = (
        "_deliveries", "_firsts", "_numbers", "_partition", "_records", "_start", "_topic", "collector",
        "count",
    )  # fmt: skip

    def __init__(
        self,
        collector: RecordCollector | None,
        topic: str,
        partition: int | None,
        records: tuple[Sequence[bytes | None], Sequence[bytes | None], Sequence[int]],
        start: int,
        deliveries: list[Any],
        firsts: Sequence[int],
        numbers: Sequence[int],
    ) -> None:
        self.collector = collector
        self.count = len(numbers)
        self._topic = topic
        self._partition = partition
        self._records = records
        self._start = start
        self._deliveries: list[Delivery] = deliveries
        self._firsts = firsts
        self._numbers = numbers

    @property
    def is_done(self) -> bool:
        """Whether each record has its outcome."""
        return all(delivery.is_done for delivery in self._deliveries)

    def errors(self) -> Iterator[tuple[ProducedRecord, BaseException]]:
        """The records that were not acknowledged, with their errors, in order. Call it when they are done."""
        if all(delivery.has_succeeded() for delivery in self._deliveries):
            return
        keys, values, timestamps = self._records
        for place, (delivery, index) in enumerate(self._places(), self._start):
            error = delivery.outcome(index)[2]
            if error is not None:
                delivery.report()
                yield (
                    ProducedRecord(
                        self._topic, keys[place], values[place], timestamps[place], (), self._partition
                    ),
                    error,
                )

    def end(self) -> int | None:
        """The offset behind the last record; None if it was not acknowledged."""
        *_, (delivery, index) = self._places()
        offset, _, error = delivery.outcome(index)
        return None if error is not None else offset + 1

    def _places(self) -> Iterator[tuple[Delivery, int]]:
        """The delivery of each record, and its index there."""
        following = list(self._firsts)
        for number in self._numbers:
            yield self._deliveries[number], following[number]
            following[number] += 1
