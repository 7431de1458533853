"""Serializes the records of sinks and changelogs and hands them to the producer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from ...clients.producer.partitioner import positive_hash
from ...protocol.errors import (
    InvalidTopicError,
    OffsetMetadataTooLargeError,
    SecurityDisabledError,
    SerializationError,
    UnknownServerError,
)
from ..errors import ProcessorFailedError, StreamsError, TaskRetryError, is_retriable
from .handlers import Decision, ProducedRecord

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..metrics.measures import TaskMeasures
    from ..records import TaskId
    from .current_record import CurrentRecord
    from .handlers import ErrorContext, ProductionHandler, Response

Produce = Callable[[str, "int | None", "bytes | None", "bytes | None", "int | None", "Headers"], None]
"""Topic, partition (None: the producer's partitioner), key, value, timestamp in ms (None: now), headers."""

ProduceRows = Callable[[str, "int | None", "list[Any]", "list[bytes | None]", "list[int]"], None]
"""Topic, partition (None: the producer's partitioner), keys, values, timestamps in ms."""

Serialize = Callable[[str, Any, "Headers"], "bytes | None"]
"""Topic, key or value, headers."""


_FATAL = (
    InvalidTopicError,
    OffsetMetadataTooLargeError,
    SecurityDisabledError,
    SerializationError,
    UnknownServerError,
)


class RecordCollector:
    """Errors of the producer are reported with `on_send_error` and raised by the next call."""

    def __init__(
        self,
        task_id: TaskId,
        current: CurrentRecord,
        produce: Produce,
        partitions_of: Callable[[str], int],
        handler: ProductionHandler,
        dropped: Callable[[str], None],
        produce_rows: ProduceRows | None = None,
    ) -> None:
        self._task_id = task_id
        self._current = current
        self._partitions_of = partitions_of
        self._handler = handler
        self._dropped = dropped
        self._error: Exception | None = None
        self._dead_letter_topics: set[str] = set()
        self.measures: TaskMeasures | None = None
        self.produce = produce
        self.produce_rows = produce_rows or self._produce_each

    def _produce_each(
        self,
        topic: str,
        partition: int | None,
        keys: list[Any],
        values: list[bytes | None],
        timestamps: list[int],
    ) -> None:
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            self.produce(topic, partition, key, value, timestamp, ())

    def send_rows(
        self, topic: str, keys: list[bytes | None], values: list[bytes | None], timestamps: list[int]
    ) -> None:
        """Send serialized records of a sink, in order."""
        if self._error is not None:
            self.check()
        self.produce_rows(topic, None, keys, values, timestamps)

    def send_windows(
        self,
        topic: str,
        keys: list[bytes],
        values: list[bytes | None],
        timestamps: list[int],
        times_bytes: int,
    ) -> None:
        """As `send_rows`; the last `times_bytes` bytes of a key do not count for its partition. Records of a
        partition are in order."""
        if self._error is not None:
            self.check()
        count = self._partition_count(topic)
        rows: dict[int, tuple[list[Any], list[bytes | None], list[int]]] = {}
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            partition = positive_hash(key[:-times_bytes]) % count
            found = rows.get(partition)
            if found is None:
                found = rows[partition] = ([], [], [])
            found[0].append(key)
            found[1].append(value)
            found[2].append(timestamp)
        for partition, columns in rows.items():
            self.produce_rows(topic, partition, *columns)

    def send(
        self,
        node: str,
        topic: str,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers,
        serialize_key: Serialize,
        serialize_value: Serialize,
        partitioner: Callable[[str, Any, Any, int], int | Collection[int] | None] | None = None,
    ) -> None:
        """Send a record of a sink. A partitioner that returns several partitions sends a copy to each."""
        if self._error is not None:
            self.check()
        if partitioner is None:
            partitions: Collection[int | None] = (None,)
        else:
            partitions = self._partitions(partitioner, topic, key, value)
            if not partitions:
                self._dropped("no partition")
        for partition in partitions:
            field = "key"
            try:
                key_bytes = serialize_key(topic, key, headers)
                field = "value"
                value_bytes = serialize_value(topic, value, headers)
            except Exception as error:  # noqa: BLE001  # of the user's serde; the handler decides
                self._not_serialized(
                    node, ProducedRecord(topic, key, value, timestamp, headers, partition), error, field
                )
                continue
            self.produce(topic, partition, key_bytes, value_bytes, timestamp, headers)
            if self.measures is not None:
                self.measures.sent(node, topic, key_bytes, value_bytes)

    def _partitions(
        self, partitioner: Callable[[str, Any, Any, int], Any], topic: str, key: Any, value: Any
    ) -> Collection[int | None]:
        count = self._partition_count(topic)
        chosen = partitioner(topic, key, value, count)
        partitions = (chosen,) if chosen is None or isinstance(chosen, int) else chosen
        if any(each is not None and not 0 <= each < count for each in partitions):
            raise ValueError(f"the partitioner of topic {topic}, with {count} partitions, chose {chosen}")
        return partitions

    def _partition_count(self, topic: str) -> int:
        count = self._partitions_of(topic)
        if count < 1:
            raise StreamsError(f"task {self._task_id} has no metadata of output topic {topic}")
        return count

    def _not_serialized(self, node: str, record: ProducedRecord, error: Exception, field: str) -> None:
        context = self.error_context(node)
        response = answer(
            node, lambda: self._handler.handle_serialization(context, record, error, field), error
        )
        self.send_dead_letters(response)
        if response.decision is not Decision.CONTINUE:
            raise StreamsError(
                f"task {self._task_id} cannot serialize the {field} of a record for topic {record.topic}"
            ) from error
        self._dropped("not serialized")

    def on_send_error(self, node: str, record: ProducedRecord, error: Exception) -> None:
        """The producer could not send a record. What the handler decides takes effect with the next call.

        The handler is not asked about errors that no record causes, about a dead letter, and after an error
        that stops the task. By then the task may process another input record: the bytes of that one are not
        given.
        """
        if self._error is not None:
            return
        if isinstance(error, _FATAL) or record.topic in self._dead_letter_topics:
            self._error = self._failure(record, error)
            return
        context = self.error_context(node)._replace(raw_key=None, raw_value=None)
        response = answer(node, lambda: self._handler.handle(context, record, error), error)
        self.send_dead_letters(response)
        if response.decision is Decision.CONTINUE:
            self._dropped("not sent")
            return
        if response.decision is Decision.RETRY and is_retriable(error):
            self._error = TaskRetryError(
                f"task {self._task_id} could not send a record to topic {record.topic}: {error}",
                self._task_id,
            )
            self._error.__cause__ = error
            return
        self._error = self._failure(record, error)

    def _failure(self, record: ProducedRecord, error: Exception) -> StreamsError:
        failure = StreamsError(f"task {self._task_id} cannot send a record to topic {record.topic}: {error}")
        failure.__cause__ = error
        return failure

    def check(self) -> None:
        """Raise the error of an earlier send, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def send_dead_letters(self, response: Response) -> None:
        for record in response.dead_letters:
            self._dead_letter_topics.add(record.topic)
            self.produce(
                record.topic, record.partition, record.key, record.value, record.timestamp, record.headers
            )

    def error_context(self, node: str) -> ErrorContext:
        """The position of the input record that is being processed."""
        return self._current.error_context(node, self._task_id)


def answer(node: str, ask: Callable[[], Response], error: Exception) -> Response:
    """The response of a handler. Errors: ProcessorFailedError if the handler raises."""
    try:
        return ask()
    except Exception as failure:
        failure.add_note(f"raised by the error handler for {type(error).__name__}: {error}")
        raise ProcessorFailedError(node) from failure
