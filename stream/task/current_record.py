"""The record that a task is processing, as stores, caches and processors see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..records import RecordContext, RecordMetadata
from .handlers import ErrorContext

if TYPE_CHECKING:
    from ...clients.records import Headers
    from ..processing import Forward
    from ..records import TaskId
    from .record_queue import InputRecord

NO_OFFSET = -1
_new = tuple.__new__  # in a third of the time of RecordContext(...): one is made for each write


class CurrentRecord:
    """Timestamp and headers are those of the record that is being forwarded; the rest is of the input record.

    The context is made when it is asked for: most records need none.
    """

    __slots__ = ("_context", "headers", "raw_key", "raw_value", "source", "timestamp")

    def __init__(self) -> None:
        self._context: RecordContext | None = None
        self.source: InputRecord | None = None
        self.timestamp = -1
        self.headers: Headers = ()
        self.raw_key: bytes | None = None
        self.raw_value: bytes | None = None

    def start(self, source: InputRecord, timestamp: int) -> None:
        """Begin with an input record."""
        self.source = source
        self.timestamp = timestamp
        self.headers = source.headers
        self.raw_key = source.key
        self.raw_value = source.value
        self._context = None

    def start_without_record(self, timestamp: int) -> None:
        """Begin a punctuator, or the initialization of a processor."""
        self.context = RecordContext(timestamp, NO_OFFSET, "", -1, ())

    def finish(self) -> None:
        self.source = self._context = None

    @property
    def context(self) -> RecordContext | None:
        if self._context is None and self.source is not None:
            source = self.source
            self._context = _new(RecordContext, (
                self.timestamp, source.offset, source.topic, source.partition, self.headers, self.raw_key,
                self.raw_value,
            ))  # fmt: skip
        return self._context

    @context.setter
    def context(self, context: RecordContext | None) -> None:
        self._context = context
        self.source = None
        if context is None:
            self.raw_key = self.raw_value = None
        else:
            self.timestamp, _, _, _, self.headers, self.raw_key, self.raw_value = context

    @property
    def metadata(self) -> RecordMetadata | None:
        context = self.context
        if context is None or context.partition < 0:
            return None
        return RecordMetadata(context.topic, context.partition, context.offset)

    def error_context(self, node: str, task_id: TaskId) -> ErrorContext:
        """For error handlers: the position of the input record, none in a punctuator."""
        context = self.context
        if context is None or context.partition < 0:
            timestamp = -1 if context is None else context.timestamp
            return ErrorContext(None, -1, -1, (), node, task_id, timestamp, None, None)
        return ErrorContext(
            context.topic, context.partition, context.offset, context.headers, node, task_id,
            context.timestamp, self.raw_key, self.raw_value,
        )  # fmt: skip

    def changing(self, forward: Forward) -> Forward:
        """`forward` for records whose timestamp or headers may differ: the context follows, and comes
        back."""

        def forward_changed(key: object, value: object, timestamp: int, headers: Headers) -> None:
            if timestamp == self.timestamp and headers == self.headers:
                forward(key, value, timestamp, headers)
                return
            before = (
                self._context, self.source, self.timestamp, self.headers, self.raw_key, self.raw_value
            )  # fmt: skip
            if self.source is None and self._context is not None:
                self._context = self._context._replace(timestamp=timestamp, headers=headers)
            else:
                self._context = None
            self.timestamp = timestamp
            self.headers = headers
            try:
                forward(key, value, timestamp, headers)
            finally:
                (
                    self._context, self.source, self.timestamp, self.headers, self.raw_key, self.raw_value
                ) = before  # fmt: skip

        return forward_changed
