"""The trace of control calls of actors."""

import inspect
import logging
from typing import Any

import pytest
from headrace.controller.controller_actor import ControllerActor
from headrace.runtime.otlp_config import TracingServerConfig
from headrace.runtime.tracing.control_io import TRACE, ControlSpans, call_context, control_call
from headrace.runtime.tracing.log_ids import TraceIds
from headrace.storage_node.node_actor import NodeActor
from headrace.stream.ray.supervisor_actor import SupervisorActor
from spans import application_tracer, wait_for_spans


class Actor:
    """With one control call, which returns the trace id of its log lines."""

    def __init__(self, config: TracingServerConfig | None = None) -> None:
        self.control_spans = ControlSpans("node-1", config)

    @control_call
    def stop(self, timeout_s: float, *, leaves: bool = False) -> tuple[float, bool, str]:
        record: Any = logging.makeLogRecord({})
        TraceIds().filter(record)
        if timeout_s < 0:
            raise ValueError("negative")
        return timeout_s, leaves, record.trace_id


def test_call_below_a_span_is_in_its_trace() -> None:
    """With a span of its own, which has the error of the call; log lines have the trace id."""
    assert call_context() == {}
    assert Actor().stop(1.0) == (1.0, False, "")
    with application_tracer().start_as_current_span("operator") as span:
        context = call_context()
    trace_id = span.get_span_context().trace_id
    assert Actor().stop(1.0, leaves=True, **context) == (1.0, True, f"{trace_id:032x}")
    with pytest.raises(ValueError, match="negative"):
        Actor().stop(-1.0, **context)
    made, failed = wait_for_spans(trace_id, "stop node-1")["stop node-1"]
    assert made.parent == failed.parent
    assert made.parent.span_id == span.get_span_context().span_id
    assert not failed.status.is_ok


def test_server_without_tracing_makes_no_span() -> None:
    """Its log lines have the ids nevertheless."""
    with application_tracer().start_as_current_span("operator") as span:
        context = call_context()
    trace_id = span.get_span_context().trace_id
    assert Actor(TracingServerConfig()).stop(1.0, **context)[2] == f"{trace_id:032x}"
    assert set(wait_for_spans(trace_id, "operator")) == {"operator"}


@pytest.mark.parametrize("actor", [NodeActor, ControllerActor, SupervisorActor])
def test_all_control_calls_take_a_trace(actor: type) -> None:
    """Ray reads the signatures of the public methods, without their decorators."""
    methods = [each for name, each in inspect.getmembers(actor, inspect.isfunction) if name[0] != "_"]
    assert methods
    assert all(TRACE in inspect.signature(inspect.unwrap(method)).parameters for method in methods)
