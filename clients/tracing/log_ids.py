"""Trace ids in log lines. Pure."""

from __future__ import annotations

import logging
import sys

_NONE = ("", "")


class TraceIds(logging.Filter):
    """Gives each log record the attributes `trace_id` and `span_id`, in hexadecimal as in `traceparent`;
    empty while no span is current. Add it to a handler, whose format may then have `%(trace_id)s`. It imports
    nothing: before the application imports OpenTelemetry there is no span."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Called by logging; lets every record pass."""
        record.trace_id, record.span_id = _current_ids()
        return True


def _current_ids() -> tuple[str, str]:
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return _NONE
    context = trace.get_current_span().get_span_context()
    return (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context.is_valid else _NONE
