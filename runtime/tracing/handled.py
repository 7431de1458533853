"""The request that a server handles now, for the trace ids of the log lines that are written meanwhile. Pure.

A server makes its spans when the work is done, so no span is current then. The lines have the ids of the span
that sent the first sampled record of the request. Its context is looked for when a line is written, not for
each request.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ...protocol.errors import HeadraceError
from ...protocol.messages.data import ProduceRequest
from ...protocol.records.header import HEADER_BYTES
from .contexts import contexts_in, is_compressed, sampled_context, sampled_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from .contexts import TraceContext

_handled: ContextVar[Any] = ContextVar("headrace_handled_request", default=None)


def noting(handle: Callable[[Any], None]) -> Callable[[Any], None]:
    """`handle`, whose argument is the request that is handled meanwhile."""

    def noted(request: Any) -> None:
        token = _handled.set(request)
        try:
            handle(request)
        finally:
            _handled.reset(token)

    return noted


def handled_context() -> TraceContext | None:
    """The context of the first sampled record of the request that is handled now."""
    request = _handled.get()
    if request is None or not isinstance(request.body, ProduceRequest):
        return None
    for entry, frame in zip(request.body.partitions, request.frames, strict=False):
        for text in sampled_texts(_texts_in(frame) if entry.traceparents is None else entry.traceparents):
            return sampled_context(text.encode())
    return None


def _texts_in(frame: Any) -> tuple[str, ...]:
    """Contexts in a batch whose client does not list them; compressed ones are not searched."""
    try:
        return () if is_compressed(frame) else contexts_in(memoryview(frame)[HEADER_BYTES:])
    except (HeadraceError, ValueError):  # no valid batch
        return ()
