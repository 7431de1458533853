"""Spans of a node, and their bound."""

from headrace.protocol.errors import NotEnoughReplicasAfterAppendError
from headrace.protocol.messages.data import TracedBatch
from headrace.protocol.model import TopicPartition
from headrace.runtime.clock_io import monotonic_ms
from headrace.storage_node.configs.node_config import NodeConfig
from headrace.storage_node.effects import NoteSpan
from headrace.storage_node.shell.spans_io import NodeSpans
from spans import application_tracer, spans_of


def test_failed_append_and_the_bound_of_spans() -> None:
    """A batch with more contexts than may have spans has none, and leaves them to the next one."""
    application_tracer()
    config = NodeConfig.of({"log.dirs": "x", "tracing.spans.per.second": 2, "enable.tracing": True})
    spans, trace_ids = NodeSpans(config, 7, "cluster"), [0xABC1, 0xABC2, 0xABC3]
    texts = tuple(f"00-{each:032x}-00f067aa0ba902b7-01" for each in trace_ids)
    code = NotEnoughReplicasAfterAppendError.code
    for contexts in (texts, texts[1:]):
        batch = TracedBatch(5, 6, contexts)
        began_ms = monotonic_ms() - 40
        spans.record(NoteSpan("append", TopicPartition("t", 3), batch, began_ms, "c", -1, code))
    assert not spans_of(trace_ids[0])
    for trace_id in trace_ids[1:]:
        (span,) = spans_of(trace_id)
        assert not span.status.is_ok
        assert (span.attributes or {})["error.type"] == "NotEnoughReplicasAfterAppendError"
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.end_time - span.start_time >= 40_000_000
