"""Error handlers: what happens with a record that cannot be read, processed or sent, and its dead letter.

Headers of dead letters are those of KIP-1034.
"""

from __future__ import annotations

import logging
import traceback
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..errors import is_retriable

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..records import Record, TaskId

log = logging.getLogger("headrace.stream")


class Decision(Enum):
    """RETRY is for production errors that are retriable: the task is processed again from its last commit.
    Elsewhere it is FAIL."""

    FAIL = "fail"
    CONTINUE = "continue"
    RETRY = "retry"


class ProducedRecord(NamedTuple):
    """A record to send. `partition` None: the producer's partitioner decides."""

    topic: str
    key: Any
    value: Any
    timestamp: int | None = None
    headers: Headers = ()
    partition: int | None = None


class Response(NamedTuple):
    """The answer of a handler."""

    decision: Decision
    dead_letters: tuple[ProducedRecord, ...] = ()


class ErrorContext(NamedTuple):
    """Where an error happened. Topic, partition and offset are those of the input record, None and -1 outside
    of one (a punctuator). `raw_key` and `raw_value`: its bytes, None for an error of the producer as well."""

    topic: str | None
    partition: int
    offset: int
    headers: Headers
    processor: str
    task_id: TaskId
    timestamp: int
    raw_key: bytes | None
    raw_value: bytes | None


class DeserializationHandler(Protocol):
    """Decides on input records that cannot be read."""

    def handle(self, context: ErrorContext, record: Any, error: Exception) -> Response: ...


class ProcessingHandler(Protocol):
    """Decides on records for which a processor or punctuator raised. `record` is the input of the processor,
    None in a punctuator."""

    def handle(
        self, context: ErrorContext, record: Record[Any, Any] | None, error: Exception
    ) -> Response: ...


class ProductionHandler(Protocol):
    """Decides on records that cannot be sent."""

    def handle(self, context: ErrorContext, record: ProducedRecord, error: Exception) -> Response: ...

    def handle_serialization(
        self, context: ErrorContext, record: ProducedRecord, error: Exception, field: str
    ) -> Response:
        """`field` is "key" or "value"; those of `record` are not serialized."""


class LogAndFail:
    """Stops the task (default), with a dead letter if `dead_letter_topic` is set."""

    decision = Decision.FAIL

    def __init__(self, dead_letter_topic: str | None = None) -> None:
        self.dead_letter_topic = dead_letter_topic

    def handle(self, context: ErrorContext, record: Any, error: Exception) -> Response:
        log.log(
            logging.ERROR if self.decision is Decision.FAIL else logging.WARNING,
            "%s in %s of task %s, topic %s, partition %d, offset %d: %s",
            type(error).__name__, context.processor, context.task_id, context.topic, context.partition,
            context.offset, error,
        )  # fmt: skip
        return Response(self.decision, dead_letters(self.dead_letter_topic, context, error))

    def handle_serialization(
        self, context: ErrorContext, record: ProducedRecord, error: Exception, field: str
    ) -> Response:
        return self.handle(context, record, error)


class LogAndContinue(LogAndFail):
    """Drops the record, with a dead letter if `dead_letter_topic` is set."""

    decision = Decision.CONTINUE


class RetryOrFail(LogAndFail):
    """Retries what is retriable, else stops the task: the default for production errors."""

    def handle(self, context: ErrorContext, record: Any, error: Exception) -> Response:
        if is_retriable(error):
            return Response(Decision.RETRY)
        return super().handle(context, record, error)


def dead_letters(topic: str | None, context: ErrorContext, error: Exception) -> tuple[ProducedRecord, ...]:
    """The dead letter of a failed record; none without a topic."""
    if topic is None:
        return ()
    timestamp = context.timestamp if context.timestamp >= 0 else None  # no input record: the time of sending
    trace = "".join(traceback.format_exception(error))
    added: Headers = (
        ("__streams.errors.exception", _name_of(type(error)).encode()),
        ("__streams.errors.message", str(error).encode()),
        ("__streams.errors.stacktrace", trace.encode()),
        ("__streams.errors.topic", None if context.topic is None else context.topic.encode()),
        ("__streams.errors.partition", str(context.partition).encode()),
        ("__streams.errors.offset", str(context.offset).encode()),
    )
    return (ProducedRecord(topic, context.raw_key, context.raw_value, timestamp, context.headers + added),)


def _name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
