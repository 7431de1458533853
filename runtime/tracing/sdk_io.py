"""The OpenTelemetry SDK behind the traces of clients and servers. Imported only where tracing is enabled."""

from __future__ import annotations

import contextlib
import os
import random
from contextvars import ContextVar, Token
from math import log
from typing import TYPE_CHECKING

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

from .names import OPT_IN_VARIABLE, SCOPE, Names

if TYPE_CHECKING:
    from .contexts import TraceContext

MAX_KEY_CHARACTERS = 256


def names() -> Names:
    """The names that the environment chooses."""
    return Names(os.environ.get(OPT_IN_VARIABLE, ""))


def process_provider() -> trace.TracerProvider | None:
    """The tracer provider of this process; None if the application has set none."""
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else provider


def remote(context: TraceContext) -> SpanContext:
    """The span of another process."""
    return SpanContext(
        context.trace_id, context.span_id, is_remote=True, trace_flags=TraceFlags(context.flags)
    )


def under(parent: SpanContext, base: Context | None = None) -> Context:
    """A context whose current span is `parent`."""
    return set_span_in_context(NonRecordingSpan(parent), Context() if base is None else base)


class RootTracer:
    """Starts root spans, in the places that the sampler of the provider chooses.

    An SDK tracer takes some microseconds to find that a span is not sampled. Where the sampler is a ratio of
    the trace ids, the distance to the next sampled root is drawn instead, and the root then gets an id that
    the sampler accepts: the same distribution, for a decrement. All other samplers are asked each time.
    """

    def __init__(self, provider: trace.TracerProvider) -> None:
        self.tracer = provider.get_tracer(SCOPE)
        self._left = 0
        self._ratio = 1.0
        bound = _bound(self.tracer)
        if bound is not None:
            assert isinstance(self.tracer, SdkTracer)
            self._ratio = bound / (1 << 64)
            self.tracer.id_generator = _AcceptedIds(bound)
            self._left = self._next_distance()

    def is_due(self) -> bool:
        """Whether to start a span here; it may still turn out not to be sampled."""
        if self._left:
            self._left -= 1
            return False
        self._left = self._next_distance()
        return self._ratio > 0

    def _next_distance(self) -> int:
        """How many places before the next sampled one: geometrically distributed."""
        if self._ratio >= 1:
            return 0
        if self._ratio <= 0:
            return 1 << 62
        return int(log(1 - random.random()) / log(1 - self._ratio))  # noqa: S311 - a sample, no secret


def _bound(tracer: trace.Tracer) -> int | None:
    """Trace ids with lower 64 bits below this are sampled; None if another rule decides."""
    sampler: Sampler | None = getattr(tracer, "sampler", None)
    if type(sampler) is ParentBased:
        sampler = getattr(sampler, "_root", None)
    return sampler.bound if type(sampler) is TraceIdRatioBased else None


class _AcceptedIds(RandomIdGenerator):
    """Random trace ids that a ratio accepts."""

    def __init__(self, bound: int) -> None:
        self._bound = bound

    def generate_trace_id(self) -> int:
        """As of the SDK, but with lower 64 bits below the bound."""
        low = random.randrange(max(self._bound, 1))  # noqa: S311 - unique, not secret
        return (random.getrandbits(64) or 1) << 64 | low


def context_variable() -> ContextVar[Context] | None:
    """The variable that has the current context; None if the SDK keeps it in another way."""
    runtime = getattr(otel_context, "_RUNTIME_CONTEXT", None)
    variable = getattr(runtime, "_current_context", None)
    return variable if isinstance(variable, ContextVar) else None


def attach(context: Context) -> Token[Context]:
    """Make a context the current one."""
    variable = context_variable()
    return otel_context.attach(context) if variable is None else variable.set(context)


def detach(token: Token[Context]) -> None:
    """Undo `attach`. Where another task ends what this one has begun, there is nothing to undo."""
    variable = context_variable()
    if variable is None:
        otel_context.detach(token)
        return
    with contextlib.suppress(ValueError):
        variable.reset(token)


def shown_key(key: object) -> str | None:
    """A key as an attribute, at most MAX_KEY_CHARACTERS of it."""
    if key is None:
        return None
    text = key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)
    return text[:MAX_KEY_CHARACTERS]
