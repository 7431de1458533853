"""Spans of a consumer: `poll`, `process` and `commit`, only for sampled records.

Which records are sampled is known from their headers alone. A `poll` span is in the trace of the first of
them and links to all, or of the span that is current if that is sampled; a `process` span is in the trace of
its record.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanKind

from ...protocol.model import TopicPartition
from ...runtime.tracing.contexts import TRACEPARENT, context_of
from ...runtime.tracing.guard_io import guarded
from ...runtime.tracing.names import COMMIT, POLL, PROCESS, span_name
from ...runtime.tracing.sdk_io import attach, detach, names, remote, shown_key, under
from ..consumer.header_search_io import with_header
from .failures import fail
from .sampled_rows import sampled_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

    from ...protocol.records.columns import DecodedColumns
    from ..config import ConsumerConfig
    from ..group.group_metadata import OffsetAndMetadata
    from ..records import Record

# Bound: links of one span, and sampled records that wait for a commit.
MAX_LINKS = 128
_NONE_SAMPLED: frozenset[int] = frozenset()


class _Delivered(NamedTuple):
    """A sampled record that the application got, and whose offset is not committed."""

    topic: str
    partition: int
    offset: int
    context: SpanContext


class ConsumerTracing:
    """Makes the spans of one consumer."""

    def __init__(self, provider: trace.TracerProvider, config: ConsumerConfig, client_id: str) -> None:
        self._tracer, self._names = provider.get_tracer("headrace"), names()
        self._client_id, self._group = client_id, config.group
        self._shows_keys = config.tracing_keys
        self._asked_ns = 0
        # Shared with the event loop, which commits: a deque, each of whose methods is atomic
        self._delivered: deque[_Delivered] = deque(maxlen=MAX_LINKS if config.group else 0)

    # --- poll -------------------------------------------------------------------------------------------

    def begin_call(self) -> None:
        """The application calls for records."""
        self._asked_ns = 0

    def asked(self) -> None:
        """The call looks for records the first time since it has returned some."""
        self._asked_ns = time.time_ns()

    @guarded
    def polled(self, records: list[Any], start: int = 0) -> None:
        """These records, from `start` on, are about to be returned."""
        positions = with_header(records, TRACEPARENT, start)
        if positions:
            self._make_poll(records, positions, len(records) - start)
        self._asked_ns = 0

    def sampled(self, records: list[Any], start: int, end: int) -> frozenset[int]:
        """Positions of the sampled records in a batch to iterate over; there is a `poll` span for it."""
        return self._sampled(records, start, end) or _NONE_SAMPLED

    @guarded
    def _sampled(self, records: list[Any], start: int, end: int) -> frozenset[int]:
        positions = [position for position in with_header(records, TRACEPARENT, start) if position < end]
        found = self._make_poll(records, positions, end - start) if positions else frozenset()
        self._asked_ns = 0
        return found

    def _make_poll(self, records: list[Any], positions: list[int], count: int) -> frozenset[int]:
        """The `poll` span, if any record is sampled; gives the positions of these."""
        sampled: dict[int, _Delivered] = {}
        for position in positions:
            record = records[position]
            context = context_of(record.headers)
            if context is not None:
                place = record.topic, record.partition, record.offset
                sampled[position] = _Delivered(*place, remote(context))
        self._note_poll(list(sampled.values()), count)
        return frozenset(sampled)

    @guarded
    def polled_columns(self, decoded: DecodedColumns, topics: Sequence[tuple[str, int]]) -> None:
        """These rows are about to be returned; `topics` are runs of (name, rows)."""
        found = [
            _Delivered(sampled.topic, sampled.partition, sampled.offset, remote(sampled.context))
            for sampled in sampled_rows(decoded, topics, MAX_LINKS)
        ]
        self._note_poll(found, decoded.count)
        self._asked_ns = 0

    def _note_poll(self, sampled: list[_Delivered], count: int) -> None:
        """Records with a `poll` span, if there are any."""
        self._delivered.extend(sampled)
        if not sampled:
            return
        current = trace.get_current_span().get_span_context()
        parent = current if current.is_valid and current.trace_flags.sampled else sampled[0].context
        self._tracer.start_span(
            span_name(POLL, sampled[0].topic),
            under(parent),
            SpanKind.CLIENT,
            self._facts(POLL, sampled[0].topic, batch_count=count),
            [Link(each.context) for each in sampled[:MAX_LINKS]],
            start_time=self._asked_ns or None,
        ).end()

    # --- process ----------------------------------------------------------------------------------------

    def process(self, record: Record[Any, Any]) -> AbstractContextManager[Span | None]:
        """Around the processing of a record: its span is the current one. None if it is not sampled."""
        context = context_of(record.headers) if record.headers else None
        started = None if context is None else self._start_process(record, remote(context))
        return contextlib.nullcontext() if started is None else self._processing(*started)

    @contextlib.contextmanager
    def _processing(self, span: Span, context: Context) -> Iterator[Span]:
        token = attach(context)
        try:
            yield span
        except GeneratorExit:  # the application ends the iteration
            raise
        except BaseException as error:
            self._fail(span, error)
            raise
        finally:
            self._end(span)
            detach(token)

    @guarded
    def _start_process(self, record: Record[Any, Any], creator: SpanContext) -> tuple[Span, Context] | None:
        """A `process` span in the trace of the record, with a link to the span that is current; and the
        context with it, and with what the configured propagator finds in the headers."""
        current = trace.get_current_span().get_span_context()
        span = self._tracer.start_span(
            span_name(PROCESS, record.topic),
            under(creator),
            SpanKind.CONSUMER,
            self._facts(
                PROCESS,
                record.topic,
                partition=str(record.partition),
                offset=record.offset,
                key=shown_key(record.key) if self._shows_keys else None,
                is_tombstone=True if record.value is None else None,
            ),
            [Link(current)] if current.is_valid else (),
        )
        carrier = {name: value.decode(errors="replace") for name, value in record.headers if value}
        return span, trace.set_span_in_context(span, propagate.extract(carrier, otel_context.get_current()))

    @guarded
    def _fail(self, span: Span, error: BaseException) -> None:
        fail(span, error, self._names.attributes({"error": type(error).__name__}))

    @guarded
    def _end(self, span: Span) -> None:
        span.end()

    # --- commit -----------------------------------------------------------------------------------------

    def commit_began(self) -> Callable[[Any], None]:
        """The callback for the outcome of a commit that begins now."""
        began_ns = time.time_ns()

        def ended(done: Any) -> None:
            if not done.cancelled() and done.exception() is None:
                self.committed(done.result(), began_ns)

        return ended

    @guarded
    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], began_ns: int) -> None:
        """These offsets were committed: a span if sampled records are below them. On the event loop."""
        covered: list[_Delivered] = []
        for _ in range(len(self._delivered)):
            item = self._delivered.popleft()
            offset = offsets.get(_partition_of(item))
            if offset is not None and item.offset < offset.offset:
                covered.append(item)
            else:
                self._delivered.append(item)
        if covered:
            self._make_commit(covered, began_ns)

    def _make_commit(self, covered: Sequence[_Delivered], began_ns: int) -> None:
        contexts = list({item.context.span_id: item.context for item in covered}.values())
        topic = covered[0].topic
        self._tracer.start_span(
            span_name(COMMIT, topic),
            under(contexts[0]),
            SpanKind.CLIENT,
            self._facts(COMMIT, topic),
            [Link(context) for context in contexts],
            start_time=began_ns,
        ).end()

    def _facts(self, operation: str, topic: str, **facts: Any) -> dict[str, Any]:
        return self._names.of_operation(
            operation, topic, client_id=self._client_id, group=self._group, **facts
        )


def _partition_of(item: _Delivered) -> TopicPartition:
    return TopicPartition(item.topic, item.partition)
