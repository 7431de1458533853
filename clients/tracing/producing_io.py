"""Spans of a producer: `send` for each sampled record or call, `commit` for its transactions.

Whether a record is sampled is decided before anything is made for it. Below a span of the application that
span decides. Otherwise the sampler does, once for each batch, when a record takes the path in Python anyway
(tracing.sampling.unit). So records that are not sampled take the compiled path, and have no other headers.
"""

from __future__ import annotations

import contextlib
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.trace import Link, SpanKind

from ...runtime.tracing.contexts import HEADER_NAMES, TRACEPARENT, sampled_context
from ...runtime.tracing.guard_io import guarded
from ...runtime.tracing.names import COMMIT, SEND, span_name
from ...runtime.tracing.sdk_io import RootTracer, context_variable, names, remote, shown_key, under
from ..records import ProducerRecord, normalize_headers
from .failures import fail

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator
    from contextvars import ContextVar

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext

    from ..config import ProducerConfig
    from ..producer.delivery_io import BatchResult, RecordFuture
    from ..producer.lanes import Lanes
    from ..records import Headers, HeadersLike, TimestampLike

# Bound: links of the span of one commit.
MAX_LINKS = 32


class ProducerTracing:
    """Makes the spans of one producer. Methods may be called from any thread."""

    def __init__(self, provider: trace.TracerProvider, config: ProducerConfig, client_id: str) -> None:
        self._roots, self._names = RootTracer(provider), names()
        self._tracer = provider.get_tracer("headrace")
        self._client_id = client_id
        self._shows_keys = config.tracing_keys
        self._is_by_record = config.tracing_unit == "record"
        self._is_transactional = config.transactional_id is not None
        self._in_transaction: list[SpanContext] = []
        self._lanes: Lanes | None = None
        # None: every context is looked at, as the SDK keeps it elsewhere
        self.variable: ContextVar[Context] | None = None if self._is_by_record else context_variable()
        self._idle: Context | None = None
        self._idle_has_span = False
        self._is_batch_new = True  # a decision is due

    def bind(self, lanes: Lanes, send_any: Callable[..., RecordFuture]) -> Callable[..., RecordFuture]:
        """`Lanes.bind` for a producer with tracing."""
        if self.variable is None:
            return send_any  # every record is looked at
        self._lanes = lanes
        return lanes.bind_traced(send_any, self.variable)

    def around_send(self, send: Callable[..., RecordFuture]) -> TracedSend:
        """`send` with a span for each sampled record."""
        return TracedSend(self, send)

    @guarded
    def begin(self, topic: str, headers: HeadersLike, key: Any = None) -> SentRecord | None:
        """The span of a record that is sampled, with its headers; None for all others."""
        context = otel_context.get_current()
        parent = self._sampled_parent(context)
        if parent:
            return self._started(self._tracer, topic, headers, context, key)
        given = _traceparent_of(headers) if headers else None
        if given is not None:
            return self._begin_given(topic, headers, given, key)
        if parent is None and self._may_decide():
            return self._started(self._roots.tracer, topic, headers, context, key)
        return None

    @guarded
    def begin_call(self, topic: str) -> SentRecord | None:
        """The span of a call that sends many records, if that call is sampled."""
        context = otel_context.get_current()
        parent = self._sampled_parent(context)
        if parent or (parent is None and self._roots.is_due()):
            tracer = self._tracer if parent else self._roots.tracer
            return self._started(tracer, topic, (), context, None)
        return None

    def appended(self, index: int) -> None:
        """A record that took the path in Python is in a batch, at this index: one more decision is due for a
        batch that it has opened."""
        if index == 0:
            self._is_batch_new = True

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """The commit of a transaction: a span if it has sampled records."""
        contexts, self._in_transaction = self._in_transaction, []
        span = self._start_commit(contexts) if contexts else None
        if span is None:
            yield
            return
        try:
            yield
        except BaseException as error:
            self.end(span, {}, error)
            raise
        self.end(span, {}, None)

    @guarded
    def _start_commit(self, contexts: list[SpanContext]) -> Span | None:
        return self._tracer.start_span(
            span_name(COMMIT, ""),
            under(contexts[-1]),
            SpanKind.CLIENT,
            self._names.of_operation(COMMIT, "", client_id=self._client_id),
            [Link(context) for context in contexts],
        )

    # --- inside -----------------------------------------------------------------------------------------

    def _sampled_parent(self, context: Context) -> bool | None:
        """Whether the span of the context is sampled; None without a span. A context that is not becomes the
        idle one."""
        if context is self._idle:
            return False if self._idle_has_span else None
        parent = trace.get_current_span(context).get_span_context()
        if parent.is_valid and parent.trace_flags.sampled:
            return True
        self._idle_has_span = parent.is_valid
        self._idle = context
        if self._lanes is not None:
            self._lanes.set_idle_context(context)
        return False if parent.is_valid else None

    def _may_decide(self) -> bool:
        if self._is_by_record:
            return self._roots.is_due()
        if not self._is_batch_new:
            return False
        self._is_batch_new = False
        return self._roots.is_due()

    def _started(
        self, tracer: trace.Tracer, topic: str, headers: HeadersLike, context: Context, key: Any
    ) -> SentRecord | None:
        span = tracer.start_span(span_name(SEND, topic), context, SpanKind.PRODUCER, self._facts(topic, key))
        if not span.get_span_context().trace_flags.sampled:
            return None
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span, context))
        own = ((name, value.encode()) for name, value in carrier.items())
        kept = [pair for pair in normalize_headers(headers) if pair[0] not in HEADER_NAMES]
        return SentRecord(self, span, (*kept, *own))

    def _begin_given(
        self, topic: str, headers: HeadersLike, given: bytes | None, key: Any
    ) -> SentRecord | None:
        """A record whose headers have a context already, which stays: that of its creator."""
        found = sampled_context(given)
        if found is None:
            return None
        creator = remote(found)
        span = self._tracer.start_span(
            span_name(SEND, topic),
            under(creator),
            SpanKind.CLIENT,
            self._facts(topic, key),
            [Link(creator)],
        )
        return SentRecord(self, span, normalize_headers(headers))

    def _facts(self, topic: str, key: Any) -> dict[str, Any]:
        shown = shown_key(key) if self._shows_keys else None
        return self._names.of_operation(SEND, topic, client_id=self._client_id, key=shown)

    def sent(self, span: Span) -> None:
        """A record of the open transaction has this span."""
        if self._is_transactional and len(self._in_transaction) < MAX_LINKS:
            self._in_transaction.append(span.get_span_context())

    @guarded
    def end(self, span: Span, facts: dict[str, Any], error: BaseException | None) -> None:
        """The outcome of what the span is of."""
        if error is not None:
            fail(span, error, self._names.attributes({**facts, "error": type(error).__name__}))
        else:
            span.set_attributes(self._names.attributes(facts))
        span.end()


class SentRecord:
    """The span of a record from `send` to its outcome. `headers` are the record's, with the context."""

    __slots__ = ("_span", "_tracing", "headers")

    def __init__(self, tracing: ProducerTracing, span: Span, headers: Headers) -> None:
        self._tracing, self._span, self.headers = tracing, span, headers

    def follow(self, future: RecordFuture) -> None:
        """The record is in a batch: end the span with its outcome."""
        self._tracing.appended(future._index)  # noqa: SLF001 - as of records without a span
        self._tracing.sent(self._span)
        future.add_done_callback(self._on_outcome)

    def follow_waiting(self, waited: asyncio.Future[RecordFuture]) -> None:
        """The record was in line until now."""
        error = CancelledError() if waited.cancelled() else waited.exception()
        if error is not None:
            self.fail(error)
        else:
            self.follow(waited.result())

    def follow_all(self, result: BatchResult) -> None:
        """As `follow`, for a call that has sent many records: until the last batch has its outcome."""
        deliveries = list(result.deliveries())
        self._tracing.sent(self._span)

        def on_last() -> None:
            errors = [delivery.error for delivery in deliveries if delivery.error is not None]
            self._tracing.end(self._span, {"batch_count": len(result)}, errors[0] if errors else None)

        if deliveries:
            deliveries[-1].add_callback(on_last)
        else:
            on_last()

    def around(self, send_all: Callable[[Iterable[Any]], BatchResult], records: Iterable[Any]) -> BatchResult:
        """Send the records of a call. Errors: those of `send_all`."""
        with self.failing():
            result = send_all(self.mark_first(records))
        self.follow_all(result)
        return result

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """End the span with the error of the block, if it raises one."""
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """The record was not buffered."""
        self._tracing.end(self._span, {}, error)

    def mark_first(self, records: Iterable[Any]) -> Iterable[Any]:
        """The records of a call; the first one has the context in its headers."""
        items = iter(records)
        for first in items:
            record = first if isinstance(first, ProducerRecord) else ProducerRecord(value=first)
            if _traceparent_of(record.headers) is None:
                headers = (*normalize_headers(record.headers), *self.headers)
                record = ProducerRecord(
                    record.value, record.key, headers, record.partition, record.timestamp, record.topic
                )
            yield record
            break
        yield from items

    def _on_outcome(self, future: RecordFuture) -> None:
        metadata, error = future.peek()
        facts = {
            "partition": str(metadata.partition),
            "offset": metadata.offset if metadata.offset >= 0 else None,
            "is_tombstone": True if metadata.serialized_value_size < 0 else None,
            "body_bytes": max(metadata.serialized_value_size, 0),
        }
        self._tracing.end(self._span, facts, error)


class TracedSend:
    """`send` of a synchronous producer for the records that do not take the compiled path."""

    def __init__(self, tracing: ProducerTracing, send: Callable[..., RecordFuture]) -> None:
        self._tracing, self._send = tracing, send

    def __call__(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp: TimestampLike | None = None,
        headers: HeadersLike = (),
    ) -> RecordFuture:
        """As `Producer.send`."""
        sent = self._tracing.begin(topic, headers, key)
        if sent is None:
            future = self._send(
                topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers
            )
            self._tracing.appended(future._index)  # noqa: SLF001 - for each record of the path in Python
            return future
        try:
            future = self._send(
                topic, value, key=key, partition=partition, timestamp=timestamp, headers=sent.headers
            )
        except BaseException as error:
            sent.fail(error)
            raise
        sent.follow(future)
        return future


def _traceparent_of(headers: HeadersLike) -> bytes | None:
    """The value of the last `traceparent`; None without one."""
    found: bytes | None = None
    for name, value in normalize_headers(headers):
        if name == TRACEPARENT:
            found = value or b""
    return found
