"""A producer without a cluster, for the CPU time of a task: it makes batches of records and drops these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.clients.producer.delivery_io import Delivery, RecordFuture
from headrace.clients.producer.lanes import new_lanes
from headrace.clients.producer.partitioner import murmur2_sticky
from headrace.protocol.records.codec import active_codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.clients.producer.lanes import Lane, Slot

PARTITIONS = 4
BATCH_BYTES = 16_384  # batch.size
MOST_BYTES = 1 << 20  # max.request.size


class _Topic:
    """The slots of a topic, and the deliveries of their open batches."""

    def __init__(self, lane: Lane) -> None:
        self.slots: list[Slot] = [lane.add_slot() for _ in range(PARTITIONS)]
        self.batches: list[tuple[Any, Delivery] | None] = [None] * PARTITIONS
        lane.set_count(PARTITIONS)


class DroppingProducer:
    """What a stream thread sends with. A batch is dropped, and acknowledged, when it is full or flushed."""

    def __init__(self) -> None:
        self._codec = active_codec()
        self._lanes = new_lanes(self._codec, MOST_BYTES, ignore_keys=False)
        self._topics: dict[str, _Topic] = {}
        self.send = self._lanes.bind(self._send)
        self.append_run = getattr(self._lanes, "append_run", None)
        self.batches = self.records = 0

    def producer(self, _config: Mapping[str, Any]) -> Any:
        """The producer of an `Output`."""
        return self

    def _send(
        self, topic: str, value: bytes, *, key: bytes, partition: int | None, timestamp: int, headers: Any
    ) -> RecordFuture:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic(self._lanes.add_lane(topic))
        number = murmur2_sticky(topic, key, PARTITIONS) if partition is None else partition
        assert number is not None
        self._end(found, number)
        builder = self._codec.builder(max_bytes=MOST_BYTES)
        builder.append(timestamp, key, value, headers)
        delivery = Delivery(topic, number, None)
        found.batches[number] = builder, delivery
        found.slots[number].open(builder, delivery, BATCH_BYTES)
        return RecordFuture(delivery, 0, timestamp, -1, -1)

    def _end(self, topic: _Topic, number: int) -> None:
        batch = topic.batches[number]
        if batch is not None:
            topic.slots[number].close()
            self.batches, self.records = self.batches + 1, self.records + batch[0].count
            batch[0].finish()
            batch[1].resolve(0, -1, None)
            topic.batches[number] = None

    def flush(self) -> None:
        """Acknowledge everything."""
        for topic in self._topics.values():
            for number in range(PARTITIONS):
                self._end(topic, number)
