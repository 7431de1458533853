"""Log lines are found by their trace."""

import io
import logging
import subprocess
import sys

import headrace
from spans import application_tracer


def test_lines_below_a_span_have_its_ids() -> None:
    """Others have empty ones."""
    output, logger = io.StringIO(), logging.getLogger("headrace.test.traces")
    handler = logging.StreamHandler(output)
    handler.addFilter(headrace.TraceIds())
    handler.setFormatter(logging.Formatter("%(trace_id)s/%(span_id)s %(message)s"))
    logger.addHandler(handler)
    try:
        logger.warning("before")
        with application_tracer().start_as_current_span("work") as span:
            logger.warning("inside")
    finally:
        logger.removeHandler(handler)
    context = span.get_span_context()
    assert output.getvalue() == f"/ before\n{context.trace_id:032x}/{context.span_id:016x} inside\n"


def test_filter_imports_nothing() -> None:
    """Also where tracing is not used."""
    code = """
import logging, sys, headrace
record = logging.makeLogRecord({})
assert headrace.TraceIds().filter(record) and record.trace_id == ""
assert "opentelemetry" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
