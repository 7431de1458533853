"""Trace ids in log lines. Pure."""

from __future__ import annotations

import logging
import sys

from .handled import handled_context

_NONE = ("", "")
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"  # of servers
TRACED = " trace_id=%(trace_id)s span_id=%(span_id)s"


class TraceIds(logging.Filter):
    """Gives each log record the attributes `trace_id` and `span_id`, in hexadecimal as in `traceparent`;
    empty while no span is current, and no server handles a request of a sampled record. Add it to a handler,
    whose format may then have `%(trace_id)s`. It imports nothing: before the application imports
    OpenTelemetry there is no span."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Called by logging; lets every record pass."""
        record.trace_id, record.span_id = _current_ids()
        return True


class TracedFormatter(logging.Formatter):
    """Appends the ids to lines that have some."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self._traced = logging.Formatter(form + TRACED)

    def format(self, record: logging.LogRecord) -> str:
        """Called by logging."""
        return self._traced.format(record) if getattr(record, "trace_id", "") else super().format(record)


def log_with_ids(level: int | str, form: str) -> None:
    """`logging.basicConfig` of a server: its lines have the ids of the trace that they belong to."""
    before = set(logging.root.handlers)
    logging.basicConfig(level=level, format=form)
    for handler in logging.root.handlers:
        handler.addFilter(TraceIds())
        if handler not in before:
            handler.setFormatter(TracedFormatter(form))


def _current_ids() -> tuple[str, str]:
    trace = sys.modules.get("opentelemetry.trace")
    context = None if trace is None else trace.get_current_span().get_span_context()
    if context is None or not context.is_valid:
        context = handled_context()
    return _NONE if context is None else (f"{context.trace_id:032x}", f"{context.span_id:016x}")
