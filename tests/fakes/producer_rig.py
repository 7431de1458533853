"""An accumulator and a sender without a loop: the test provides time and responses."""

from random import Random
from typing import Any

from headrace.clients.cluster.backoff import Backoff
from headrace.clients.cluster.metadata import ClusterView
from headrace.clients.producer.accumulator import Accumulator, AccumulatorLimits
from headrace.clients.producer.batches import Batch, Identity, PartitionQueue
from headrace.clients.producer.effects import Resolve, SendProduce
from headrace.clients.producer.requests import frames_of
from headrace.clients.producer.sender import Sender
from headrace.clients.producer.sequences import Sequences
from headrace.clients.producer.splitting import split_batch, without_records
from headrace.protocol.messages import data
from headrace.protocol.records.codec import active_codec

TOPIC_ID = b"t" * 16


def view_of(*leaders: int, epoch: int = 0, topic: str = "t") -> ClusterView:
    """One topic whose partitions have these leaders, on nodes 0..2."""
    partitions = tuple(
        data.PartitionMetadata(number, leader, epoch, (leader,), (leader,))
        for number, leader in enumerate(leaders)
    )
    nodes = tuple(data.NodeEndpoint(number, f"h{number}", 1) for number in range(3))
    answer = data.MetadataResponse(
        "c", 0, epoch + 1, nodes, (data.TopicMetadata(0, topic, TOPIC_ID, False, partitions),)
    )
    return ClusterView().merged(answer)


class ProducerRig:
    """`put` appends, `step` polls the sender, `ok` and `refuse` answer."""

    def __init__(self, *leaders: int, **facts: Any) -> None:
        is_transactional = facts.pop("is_transactional", False)
        is_idempotent = facts.pop("is_idempotent", is_transactional)
        self.now_ms = 0
        self.view = view_of(*(leaders or (0,)))
        limits = AccumulatorLimits(
            facts.pop("linger_ms", 0),
            facts.pop("batch_bytes", 1000),
            facts.pop("max_batch_bytes", 10_000),
            facts.pop("buffer_bytes", 1 << 20),
            facts.pop("delivery_timeout_ms", 10_000),
            facts.pop("is_adaptive", True),
        )
        self.deliveries: list[str] = []
        self.record_errors: list[dict[int, BaseException]] = []  # rejected records of split batches
        self.accumulator = Accumulator(limits, self._builder, self._delivery, Random(1))
        self.topic = self.accumulator.set_topic("t", len(leaders or (0,)))
        self.sender = Sender(
            self.accumulator,
            Backoff(100, 1000, Random(2)),
            self._split,
            self._without,
            acks=facts.pop("acks", -1),
            retries=facts.pop("retries", 1000),
            max_in_flight=facts.pop("max_in_flight", 5),
            max_request_bytes=facts.pop("max_request_bytes", 100_000),
            sequences=Sequences(is_transactional=is_transactional) if is_idempotent else None,
        )
        assert not facts, facts
        if is_idempotent:
            self.sender.on_identity(Identity(7, 0), 0)
        self.resolved: list[Resolve] = []
        self.effects: list[Any] = []

    def _builder(self, max_bytes: int) -> Any:
        return active_codec().builder(max_bytes=max_bytes)

    def _delivery(self, queue: PartitionQueue) -> str:
        self.deliveries.append(f"{queue.partition}/{len(self.deliveries)}")
        return self.deliveries[-1]

    def _split(self, batch: Batch, max_bytes: int) -> list[Batch]:
        def names(_: Batch, first_indexes: list[int]) -> list[object]:
            return [self._delivery(batch.queue) for _ in first_indexes]

        return split_batch(batch, max_bytes, active_codec(), self._builder, names)

    def _without(self, batch: Batch, record_errors: dict[int, BaseException]) -> Batch:
        self.record_errors.append(record_errors)
        delivery = self._delivery(batch.queue)
        return without_records(batch, record_errors, active_codec(), self._builder, delivery)

    def put(self, value: bytes, partition: int = 0, key: bytes | None = None) -> bool:
        """Append one record; False when the buffer memory is exhausted."""
        queue = self.topic.queues[partition]
        if self.accumulator.try_append(queue, 0, key, value, ()) >= 0:
            return True
        if not self.accumulator.open_batch(queue, self.now_ms):
            return False
        assert self.accumulator.try_append(queue, 0, key, value, ()) == 0
        return True

    def put_run(self, values: list[bytes], partition: int = 0) -> int:
        """Append values as one run to the open or a new batch; returns how many were appended."""
        queue = self.topic.queues[partition]
        if queue.open is None:
            assert self.accumulator.open_batch(queue, self.now_ms)

        def join(builder: Any, position: int, stop_bytes: int) -> int:
            return int(builder.append_values(0, values, position, stop_bytes))

        return self.accumulator.append_run(queue, join, 0, len(values))[1]

    def step(self, advance_ms: int = 0) -> list[SendProduce]:
        """Advance the clock and poll; returns the requests, with their batches built."""
        self.now_ms += advance_ms
        return self._sends(self.sender.poll(self.view, self.now_ms))

    def ok(self, send: SendProduce, base_offset: int = 0) -> None:
        answers = tuple(data.ProducePartitionResponse(0, base_offset) for _ in send.batches)
        self._sends(self.sender.on_response(send.request_id, data.ProduceResponse(answers), self.now_ms))

    def refuse(self, send: SendProduce, *codes: int, **facts: Any) -> None:
        """Respond with one error code per batch of the request."""
        answers = tuple(data.ProducePartitionResponse(code, **facts) for code in codes)
        self._sends(self.sender.on_response(send.request_id, data.ProduceResponse(answers), self.now_ms))

    def lose(self, send: SendProduce, error: Any) -> None:
        self._sends(self.sender.on_failure(send.request_id, error, self.now_ms))

    def _sends(self, effects: tuple[Any, ...]) -> list[SendProduce]:
        self.accumulator.check()
        if self.sender.sequences is not None:
            self.sender.sequences.check()
        self.effects += effects
        self.resolved += [effect for effect in effects if isinstance(effect, Resolve)]
        sends = [effect for effect in effects if isinstance(effect, SendProduce)]
        for send in sends:
            frames_of(send)
        return sends


def values_of(send: SendProduce) -> list[list[bytes | None]]:
    """The values of each batch of a request."""
    return [[record.value for record in active_codec().decode(batch.data or b"")] for batch in send.batches]


def stamps_of(*sends: SendProduce) -> list[tuple[int, int, int]]:
    """(producer id, epoch, base sequence) in the bytes of each batch, which is checked."""
    headers = [active_codec().check(batch.data or b"") for send in sends for batch in send.batches]
    return [(header.producer_id, header.producer_epoch, header.base_sequence) for header in headers]
